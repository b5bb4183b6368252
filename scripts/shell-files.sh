#!/usr/bin/env bash
# Writes manual pages and completions into FOLDER, as the program itself makes them. A program for another processor
# cannot be asked here: then the folder stays empty, and it is told.
#   TIDEGATE_BINARY=FILE scripts/shell-files.sh FOLDER
set -euo pipefail
: "${TIDEGATE_BINARY:?names the program}"
folder=${1:?names the folder}
mkdir -p "$folder/man1" "$folder/completions"
if ! "$TIDEGATE_BINARY" --version >/dev/null 2>&1; then
  echo "skipped: manual pages and completions need a program that runs on this machine" >&2
  exit 0
fi
"$TIDEGATE_BINARY" man "$folder/man1" >/dev/null
"$TIDEGATE_BINARY" completions bash >"$folder/completions/tidegate.bash"
"$TIDEGATE_BINARY" completions zsh >"$folder/completions/_tidegate"
"$TIDEGATE_BINARY" completions fish >"$folder/completions/tidegate.fish"
