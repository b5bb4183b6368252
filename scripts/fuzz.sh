#!/usr/bin/env bash
# A fuzz target for TIME seconds, or each of them (TARGET=all); what it finds lands in fuzz/artifacts/TARGET.
# Fails where nightly Rust or cargo-fuzz is missing. With SKIP_MISSING=1 mutations of the corpora are tried instead, for as
# long, on stable Rust: they see no coverage.
set -euo pipefail
cd "$(dirname "$0")/.."
: "${TARGET:=topic_filter}" "${TIME:=60}" "${SKIP_MISSING:=0}"
if ! cargo +nightly fuzz --version >/dev/null 2>&1; then
  echo "skipped: needs nightly Rust and cargo-fuzz, not found (rustup toolchain install nightly; cargo install --locked cargo-fuzz)"
  if [ "$SKIP_MISSING" = 1 ]; then
    TIDEGATE_FUZZ_TARGET="$TARGET" TIDEGATE_FUZZ_SECONDS="$TIME" \
      exec cargo test --locked -p tidegate --test it mutations_of_every_corpus_keep_the_promises -- --nocapture
  fi
  echo "fuzz: nothing was fuzzed; SKIP_MISSING=1 tries mutations on stable Rust instead" >&2
  exit 1
fi
targets="$TARGET"
[ "$TARGET" != all ] || targets="$(cargo +nightly fuzz list)"
failed=""
for target in $targets; do
  echo "== fuzz $target, $TIME s"
  # New inputs go to a directory that git ignores: the committed corpus stays small and is our own.
  mkdir -p "fuzz/target/corpus/$target"
  cargo +nightly fuzz run "$target" "fuzz/target/corpus/$target" "fuzz/corpus/$target" -- \
    -max_total_time="$TIME" -timeout=20 -print_final_stats=1 || failed="$failed $target"
done
[ -z "$failed" ] || { echo "fuzz: found something in:$failed (fuzz/artifacts)" >&2; exit 1; }
