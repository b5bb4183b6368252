#!/usr/bin/env bash
# Licences, bans and yanked versions of every dependency, by deny.toml.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v cargo-deny >/dev/null; then
  echo "skipped: needs cargo-deny, not found (cargo install --locked cargo-deny)"
  exit 0
fi
cargo deny --locked check bans licenses sources
# Needs the network: known vulnerabilities, and versions that their authors took back.
cargo deny --locked check advisories
