#!/usr/bin/env bash
# One fuzz target for TIME seconds; what it finds lands in fuzz/artifacts/TARGET.
set -euo pipefail
cd "$(dirname "$0")/.."
: "${TARGET:=topic_filter}" "${TIME:=60}"
if ! cargo +nightly fuzz --version >/dev/null 2>&1; then
  echo "skipped: needs nightly Rust and cargo-fuzz, not found (rustup toolchain install nightly; cargo install cargo-fuzz)"
  exit 0
fi
# New inputs go to a directory that git ignores: the committed corpus stays small and is our own.
mkdir -p "fuzz/target/corpus/$TARGET"
cargo +nightly fuzz run "$TARGET" "fuzz/target/corpus/$TARGET" "fuzz/corpus/$TARGET" -- -max_total_time="$TIME"
