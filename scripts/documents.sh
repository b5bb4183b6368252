#!/usr/bin/env bash
# Does what documents tell their reader to do, where that needs no packages to be fetched: the blocks that say `run`, each document
# in a folder and a network of its own. docs/start.md installs packages first: scripts/dist-test.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:/usr/sbin:/sbin"
documents="docs/migrate/mosquitto.md"
program=${TIDEGATE:-$({ ls -t target/release/tidegate target/debug/tidegate 2>/dev/null || true; } | head -n 1)}
if [ -z "$program" ]; then echo "skipped: documents need the program: cargo build"; exit 0; fi
for needed in mosquitto mosquitto_pub unshare ip; do
  command -v "$needed" >/dev/null || { echo "skipped: documents need $needed"; exit 0; }
done
if ! unshare --net true 2>/dev/null; then echo "skipped: documents need root, for a network of their own"; exit 0; fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/bin"
ln -s "$(realpath "$program")" "$folder/bin/tidegate"
blocks=0
for document in $documents; do
  mkdir "$folder/work"
  # Stock scripts are those of this repository.
  scripts/blocks.py "$document" | sed "s#/usr/share/tidegate/lua#$PWD/tidegate/lua#" >"$folder/script"
  (cd "$folder/work" && PATH="$folder/bin:$PATH" timeout 120 unshare --net \
    bash -c 'ip link set lo up; bash "$0"' "$folder/script") >"$folder/said" 2>&1 || { cat "$folder/said" >&2; echo "failed: $document" >&2; exit 1; }
  blocks=$((blocks + $(grep -c '^== ' "$folder/said")))
  rm -rf "$folder/work"
done
echo "documents: $blocks blocks of $(echo "$documents" | wc -w) documents were run"
