#!/usr/bin/env bash
# Everything that must hold before a change lands: packages, format, every test of every crate, lints, the fuzz
# targets' code, the Python package. With the word "full" also types, heavy Python packages, documentation, other
# processors, and many seeds: what `make lab` includes and what runs before an issue is resolved. A table of what took how long ends each run.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:/usr/sbin:/sbin"
# Properties try the same cases on every machine, so that a change is judged by what it changed;
# `make lab` draws new ones.
export PROPTEST_RNG_SEED="${PROPTEST_RNG_SEED:-1}"
# Tests wait for brokers and processes more than they compute.
threads=$((2 * $(nproc)))

table=""
name=""
step() {
  if [ -n "$name" ]; then
    table="$table$(printf '%5ss  %s' "$((SECONDS - began))" "$name")"$'\n'
  fi
  name="$*"
  began=$SECONDS
  [ -z "$name" ] || echo "== $name (at ${SECONDS}s)"
}

# A table also of a run that fails: where it failed stands last.
trap 'step ""; printf "== what took how long\n%s%5ss  in all\n" "$table" "$SECONDS"' EXIT

# What passing tests print is noise, but for the lines that say what was skipped and why.
quiet_but_skips() {
  awk '/^successes:$/ { hide = 1 } /^failures:$|^test result:/ { hide = 0 } !hide || /^skipped: /'
}

# One selection of packages, and so one set of features: each crate is built once.
tests() {
  cargo test --workspace --locked "$@"
}

step setup
scripts/setup.sh "$@"
step format
scripts/format.sh --check
step build
tests --all-targets --no-run --quiet
for target in "rooms and the program, module by module:--lib --bins" "promises over sockets, files and brokers:--test it"; do
  step "test ${target%%:*}"
  # shellcheck disable=SC2086 # words on purpose
  tests ${target#*:} -- --test-threads "$threads" --show-output | quiet_but_skips
done
step examples in the documentation
tests --doc --quiet
step documents do what they say
scripts/documents.sh
step lints
cargo clippy --workspace --all-targets --locked --quiet -- -D warnings
step fuzz targets compile
cp Cargo.lock fuzz/Cargo.lock
cargo check --manifest-path fuzz/Cargo.toml --target-dir target --quiet
step python
scripts/python.sh "$@"
if [ "${1:-}" = full ]; then
  step lints of every feature
  scripts/check.sh
  step documentation
  RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --quiet
  step other processors
  scripts/cross.sh
  step 1,000 worlds through crashes and faults
  TIDEGATE_SEEDS=1000 tests --test it -- crash:: fleet::faults:: --quiet
fi
