#!/usr/bin/env bash
# Formats every Rust file; with --check it only says what is wrong. `cargo fmt` alone misses modules that the macro
# `algorithms!` declares, so their files are named to rustfmt.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo fmt --all "$@"
cargo fmt --manifest-path fuzz/Cargo.toml "$@"
mapfile -t files < <(git ls-files --cached --others --exclude-standard 'crates/*.rs')
rustfmt --edition 2024 "$@" "${files[@]}"
