#!/usr/bin/env bash
# Format and lints. Quick enough for before each commit.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/format.sh --check
cargo clippy --workspace --all-targets --all-features --locked -- -D warnings
