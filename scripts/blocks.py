#!/usr/bin/env python3
"""Turns the blocks of a document that say `run` into one shell script, so that what a reader is told to do is done.

  blocks.py docs/start.md [--part network|rest]

The words behind the language of a block say what it is:

  ```toml file=gate.toml           the text of a file
  ```sh run                        a command; the script ends where one fails
  ```sh run network                the same, for the part that fetches packages
  ```sh run expect="TEXT"          its output must have this text
  ```sh run background expect="A" end="B"   goes on beside the others once its output has A; stopped at the end, when it must have said B
"""

import argparse
import pathlib
import re
import shlex
from dataclasses import dataclass, field

FENCE = re.compile(r"^\s*```(\w*)\s*(.*)$")
WORD = re.compile(r'(\w+)(?:=(?:"([^"]*)"|(\S+)))?')

HEAD = r"""set -euo pipefail
set -m # each background command can be stopped with its children
if ! command -v sudo >/dev/null; then sudo() { "$@"; }; fi
work=$(mktemp -d)
jobs=()
stop() { for job in "${jobs[@]}"; do kill -TERM -- "-$job" 2>/dev/null || true; wait "$job" || true; done; jobs=(); }
trap stop EXIT
has() { # file, text, where
  grep --quiet --fixed-strings -- "$2" "$1" || { echo "$3: the output has not: $2" >&2; cat "$1" >&2; exit 1; }
}
"""


@dataclass
class Block:
    """A fenced block: its language, the words behind it, its text and its first line."""

    language: str
    words: dict[str, str]
    line: int
    text: list[str] = field(default_factory=list)


def blocks(document: str) -> list[Block]:
    """Every block of a document."""
    found: list[Block] = []
    is_open = False
    for number, line in enumerate(document.splitlines(), 1):
        fence = FENCE.match(line)
        if fence is None:
            if is_open:
                found[-1].text.append(line)
        elif is_open:
            is_open = False
        else:
            words = {one[1]: one[2] or one[3] or "" for one in WORD.finditer(fence[2])}
            found.append(Block(fence[1], words, number))
            is_open = True
    return found


def script(path: pathlib.Path, part: str) -> str:
    """The script of a document."""
    out = [HEAD]
    ends = ["stop"]
    for block in blocks(path.read_text()):
        words, text, where = block.words, "\n".join(block.text), f"{path.name}:{block.line}"
        if "file" in words and part != "network":
            out.append(f"cat >{shlex.quote(words['file'])} <<'END-OF-FILE'\n{text}\nEND-OF-FILE")
        if block.language != "sh" or "run" not in words or ("network" in words) != (part == "network"):
            continue
        log = f'"$work/{block.line}"'
        out.append(f"echo {shlex.quote('== ' + where)}")
        if "background" in words:
            out.append(f"touch {log}\n(\n{text}\n) >{log} 2>&1 &\njobs+=($!)")
            if "expect" in words:
                # The end of the command ends the waiting, too.
                expected = shlex.quote(words["expect"])
                out.append(f"tail --pid=$! --lines=+1 --follow {log} | grep --quiet --fixed-strings -- {expected} || true")
                out.append(f"has {log} {expected} {where}")
            if "end" in words:
                ends.append(f"has {log} {shlex.quote(words['end'])} {where}")
        elif "expect" in words:
            out.append(f"{{\n{text}\n}} 2>&1 | tee {log}\nhas {log} {shlex.quote(words['expect'])} {where}")
        else:
            out.append(text)
    return "\n".join(out + ends) + "\n"


def main() -> None:
    """Reads the command line, prints the script."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("document", type=pathlib.Path)
    arguments.add_argument("--part", choices=["network", "rest"], default="rest")
    options = arguments.parse_args()
    print(script(options.document, options.part), end="")


if __name__ == "__main__":
    main()
