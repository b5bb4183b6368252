#!/usr/bin/env bash
# Benchmarks one after the other, each kept and recorded (bench/history.jsonl), then a page of all results.
#   scripts/bench.sh           the short set: about 10 minutes on two cores
#   scripts/bench.sh full      all of them, as long as their figures need: more than an hour
#   scripts/bench.sh hol ...   one of them, with its options
# LAB is the program; it is built for release otherwise. RECORD= leaves the history alone.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:/usr/sbin:/sbin"
RECORD="${RECORD---record}"

if [ -z "${LAB:-}" ]; then
  cargo build --release --locked -p tidegate
  cargo build --release --locked -p tidegate-lab --features stores
  LAB="${CARGO_TARGET_DIR:-target}/release/lab"
fi

failed=""
lab() {
  echo "== lab $* (at ${SECONDS}s)"
  # shellcheck disable=SC2086 # one word or none
  "$LAB" $RECORD "$@" || failed="$failed
  lab $*"
}

case "${1:-short}" in
  short)
    lab sim node-hol
    lab sim node-steps
    lab net selftest --seconds 3
    lab bench core
    lab bench ingest --records 100000 --runs 1 --connections 2000
    lab bench hol --seconds 15 --drain 40
    lab bench kill9 --only tidegate --kills 10 --restarts 1 --cuts 1 --records 20000
    lab bench load --publishers 2000 --per-second 2000 --seconds 10
    lab bench load --arrivals recorded --per-second 600 --publishers 300 --seconds 10
    lab bench overhead --seconds 4
    ;;
  full)
    scripts/rivals.sh
    lab sim node-hol
    lab sim node-steps
    lab sim node-janus
    lab sim mismatch
    lab sim node-optimum
    lab net selftest
    lab bench core
    lab bench ingest
    lab bench spool
    lab bench hol --runs 3
    for world in hol van; do
      lab sim "lab/worlds/$world.toml"
      lab bench "lab/worlds/$world.toml"
    done
    lab bench kill9
    lab bench backlog
    for to in rabbitmq mosquitto files; do
      lab bench load --to "$to" --publishers 5000 --per-second 5000
    done
    for arrivals in constant poisson recorded; do
      lab bench load --arrivals "$arrivals" --per-second 3000 --publishers 3000
    done
    lab bench load --arrivals recorded --per-second 600 --publishers 300 --megabits 2
    lab bench overhead --runs 3
    lab demo
    ;;
  *) lab bench "$@" ;;
esac
"$LAB" report
if [ -n "$failed" ]; then
  echo "failed:$failed" >&2
  exit 1
fi
