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
  for ((seed = 1; seed <= SEEDS; seed++)); do
    echo "== sim $scenario --seed $seed"
    lab sim "$scenario" --seed "$seed"
  done
done
echo "== sim node-seeds --seeds $SEEDS"
lab sim node-seeds --seeds "$SEEDS"
for name in core ingest hol; do
  echo "== bench $name"
  lab bench "$name"
done
