#!/usr/bin/env bash
# The long runs: all tests in full, every node scenario over many seeds, the rivals on the same wires, strangers who push, and
# each fuzz target for FUZZ_TIME seconds. SKIP_MISSING=1 goes on where cargo-fuzz or cargo-deny is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
: "${SEEDS:=1000}" "${FUZZ_TIME:=600}"
scripts/test.sh full
cargo build --release --locked -p tidegate -p tidegate-lab
lab() {
  cargo run --release --locked --quiet -p tidegate-lab -- "$@"
}
# Tests by name with a variable of the environment; a name that matches no test is a failure, not a success.
some_test() {
  local variable="$1"
  shift
  env "$variable" cargo test --locked --workspace "$@" |
    awk '{ print } /^test .* ok$/ { ran = 1 } END { if (!ran) { print "no test ran"; exit 1 } }'
}
for scenario in node-hol node-steps; do
  echo "== sim $scenario, every law"
  lab sim "$scenario" --law all
done
for scenario in node-janus mismatch node-optimum fleet-scale fleet-damping; do
  echo "== sim $scenario"
  lab sim "$scenario"
done
echo "== sim node-seeds, $SEEDS seeds"
lab sim node-seeds --seeds "$SEEDS"
echo "== node and log through crashes, $SEEDS seeds"
some_test TIDEGATE_SEEDS="$SEEDS" --test it crash::
# The shipped log, spool and sink on disks that fail: about 20 worlds a second and processor.
some_test TIDEGATE_SEEDS="${STORAGE_SEEDS:-100000}" --lib node::log_store::trial::
echo "== fleets through faults, $SEEDS seeds"
some_test TIDEGATE_SEEDS="$SEEDS" --test it fleet::faults::
echo "== properties, new cases"
PROPTEST_CASES=$((SEEDS * 4)) cargo test --locked --quiet --workspace --lib
for name in core ingest hol kill9 power-cut; do
  echo "== bench $name"
  lab bench "$name"
done
echo "== bench backlog, 14 GB"
lab bench backlog --size 14GB
echo "== bench hostile"
lab bench hostile
echo "== what is given to others"
scripts/dist.sh
scripts/dist-test.sh
scripts/dist-test.sh build
echo "== deny"
scripts/deny.sh
echo "== fuzz, $FUZZ_TIME s each target"
TARGET=all TIME="$FUZZ_TIME" scripts/fuzz.sh
