#!/usr/bin/env bash
# Everything that must hold before a change lands: packages, format, lints, tests crate by crate,
# documentation. The tidy rules run with core's tests, the fuzz corpora with the binary's.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:/usr/sbin:/sbin"
# Properties try the same cases on every machine, so that a change is judged by what it changed;
# `make lab` draws new ones.
export PROPTEST_RNG_SEED="${PROPTEST_RNG_SEED:-1}"

step() {
  echo "== $* (at ${SECONDS}s)"
}

# What passing tests print is noise, but for the lines that say what was skipped and why.
quiet_but_skips() {
  awk '/^successes:$/ { hide = 1 } /^failures:$|^test result:/ { hide = 0 } !hide || /^skipped: /'
}

step setup
scripts/setup.sh
step format and lints
scripts/check.sh
for crate in tidegate-core tidegate tidegate-lab; do
  step test "$crate"
  cargo test --locked -p "$crate" -- --show-output | quiet_but_skips
done
step python
scripts/python.sh
step documentation
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --quiet
step other processors
scripts/cross.sh
step done
