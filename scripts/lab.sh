#!/usr/bin/env bash
# The long runs: every node scenario over many seeds, then the rivals on the same wires.
set -euo pipefail
cd "$(dirname "$0")/.."
: "${SEEDS:=1000}"
cargo build --release --locked -p tidegate -p tidegate-lab
lab() {
  cargo run --release --locked --quiet -p tidegate-lab -- "$@"
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
TIDEGATE_SEEDS="$SEEDS" cargo test --locked --quiet -p tidegate-core --test crash
echo "== fleets through faults, $SEEDS seeds"
TIDEGATE_SEEDS="$SEEDS" cargo test --locked --quiet -p tidegate-core --test fleet faults::
echo "== properties, new cases"
for crate in tidegate-core tidegate tidegate-lab; do
  PROPTEST_CASES=$((SEEDS * 4)) cargo test --locked --quiet -p "$crate" --lib
done
for name in core ingest hol kill9; do
  echo "== bench $name"
  lab bench "$name"
done
echo "== bench backlog, 14 GB"
lab bench backlog --size 14GB
