#!/usr/bin/env bash
# Says what a program needs of the system that runs it, as lines NAME=VALUE for eval: the newest version of glibc's and
# libstdc++'s symbols (empty: none), and the libraries. Works for other processors too.
set -euo pipefail
program=$1
versions=$(readelf --wide --version-info "$program")
newest() { # prefix
  { grep -o "Name: $1_[0-9.]*" <<<"$versions" || true; } | sed "s/.*_//" | sort -uV | tail -n 1
}
echo "glibc=$(newest GLIBC)"
echo "glibcxx=$(newest GLIBCXX)"
echo "libraries='$(readelf --wide --dynamic "$program" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort | tr '\n' ' ' | sed 's/ $//')'"
