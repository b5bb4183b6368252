#!/usr/bin/env bash
# Builds the node for the processors of gateways: aarch64 and armv7. Only builds; what is missing for
# that is named, and the target skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
: "${PROFILE:=cross}"
for pair in aarch64-unknown-linux-gnu:aarch64-linux-gnu-gcc armv7-unknown-linux-gnueabihf:arm-linux-gnueabihf-gcc; do
  target=${pair%%:*}
  linker=${pair#*:}
  if ! command -v "$linker" >/dev/null; then
    echo "skipped: $target needs $linker (Debian: gcc-${linker%-gcc}, and the libc6-dev-*-cross of it)"
    continue
  fi
  if ! command -v "${linker%gcc}g++" >/dev/null; then
    echo "skipped: $target needs ${linker%gcc}g++ (Debian: g++-${linker%-gcc})"
    continue
  fi
  if ! rustup target list --installed 2>/dev/null | grep -qx "$target" && ! rustup target add "$target"; then
    echo "skipped: $target needs its standard library (rustup target add $target)"
    continue
  fi
  name=$(echo "$target" | tr 'a-z-' 'A-Z_')
  export "CARGO_TARGET_${name}_LINKER=$linker" "CC_$(echo "$target" | tr - _)=$linker" "CXX_$(echo "$target" | tr - _)=${linker%gcc}g++"
  cargo build --locked --profile "$PROFILE" -p tidegate --target "$target"
  echo "cross: $target builds"
done
