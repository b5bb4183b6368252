#!/usr/bin/env python3
"""Draws the plot of the README from the first table of docs/BENCHMARKS.md.

scripts/plot.py           writes docs/alarms.svg
scripts/plot.py --check   fails when docs/alarms.svg is not what the table gives
--table and --svg name other files.
"""

import argparse
import math
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADING = "## Alarms beside bulk"
# Rows of the table that are drawn, top to bottom, and what the plot calls them.
ROWS = {
    "Tidegate to RabbitMQ": "Tidegate",
    "zenoh's routers with priorities": "zenoh",
    "Mosquitto's bridge to Mosquitto (QoS 1)": "Mosquitto's bridge",
    "NATS, leaf node": "NATS leaf node",
}
# The axis: milliseconds, logarithmic.
FIRST, LAST = 10.0, 100_000.0
TICKS = {10: "10 ms", 100: "100 ms", 1_000: "1 s", 10_000: "10 s", 100_000: "100 s"}
WIDTH, LEFT, RIGHT, TOP, ROW = 740, 176, 704, 58, 44
STYLE = """
  text { font: 14px Helvetica, Arial, sans-serif; fill: #1f2328; }
  .title { font-weight: bold; font-size: 15px; }
  .axis, .note { font-size: 12px; fill: #59636e; }
  .grid { stroke: #d1d9e0; }
  .rival { stroke: #8c5a00; fill: #8c5a00; }
  .ours { stroke: #0057a8; fill: #0057a8; }
  .span { stroke-width: 4; }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc; }
    .axis, .note { fill: #9198a1; }
    .grid { stroke: #3d444d; }
    .rival { stroke: #e0a030; fill: #e0a030; }
    .ours { stroke: #58a6ff; fill: #58a6ff; }
  }
"""


def figures(text: str) -> dict[str, tuple[float, float, str]]:
    """Row to p50 and p99 in milliseconds, and the cell as it is written."""
    if HEADING not in text:
        sys.exit(f"plot: there is no heading {HEADING!r}")
    section = text.split(HEADING, 1)[1].split("\n## ", 1)[0]
    found = {}
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) < 2 or cells[0] not in ROWS:
            continue
        match = re.fullmatch(r"([\d.]+) / ([\d.]+) (ms|s)", cells[1])
        if not match:
            sys.exit(f"plot: {cells[0]}: {cells[1]!r} is not p50 / p99")
        unit = {"ms": 1.0, "s": 1000.0}[match[3]]
        found[cells[0]] = (float(match[1]) * unit, float(match[2]) * unit, cells[1])
    missing = [row for row in ROWS if row not in found]
    if missing:
        sys.exit(f"plot: no row {missing[0]!r} in the table")
    return found


def across(milliseconds: float) -> float:
    """Where a latency lies on the axis."""
    if not FIRST <= milliseconds <= LAST:
        sys.exit(f"plot: {milliseconds} ms is off the axis")
    share = math.log(milliseconds / FIRST) / math.log(LAST / FIRST)
    return round(LEFT + share * (RIGHT - LEFT), 1)


def draw(found: dict[str, tuple[float, float, str]]) -> str:
    """The picture; ground and colours suit light and dark pages."""
    bottom = TOP + len(ROWS) * ROW
    said = "; ".join(f"{ROWS[row]} {found[row][2]}" for row in ROWS)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 48}" role="img">',
        f"<title>Alarm latency p50 / p99 beside bulk on a full line: {said}</title>",
        f"<style>{STYLE}</style>",
        '<text class="title" x="12" y="24">Alarms on a line of 2 Mbit/s at 160 % load: p50 (ring) and p99 (dot)</text>',
    ]
    for value, name in TICKS.items():
        x = across(value)
        out.append(f'<line class="grid" x1="{x}" y1="{TOP - 14}" x2="{x}" y2="{bottom}"/>')
        out.append(f'<text class="axis" x="{x}" y="{bottom + 18}" text-anchor="middle">{name}</text>')
    for at, (row, name) in enumerate(ROWS.items()):
        p50, p99, cell = found[row]
        y = TOP + at * ROW + 16
        kind = "ours" if at == 0 else "rival"
        left, right = across(p50), across(p99)
        # The figures stand where there is room: to the right of the dot, or to the left of the ring.
        beside = (right + 12, "start") if right < (LEFT + RIGHT) / 2 + 60 else (left - 12, "end")
        out += [
            f'<text x="{LEFT - 20}" y="{y + 5}" text-anchor="end">{name}</text>',
            f'<line class="span {kind}" x1="{left + 6}" y1="{y}" x2="{right}" y2="{y}"/>',
            f'<circle class="{kind}" cx="{left}" cy="{y}" r="6" stroke-width="3" fill-opacity="0"/>',
            f'<circle class="{kind}" cx="{right}" cy="{y}" r="7"/>',
            f'<text x="{beside[0]}" y="{y + 5}" text-anchor="{beside[1]}">{cell}</text>',
        ]
    note = "logarithmic; lab bench hol --runs 3, 2026-11-21; table and machine: docs/BENCHMARKS.md"
    out.append(f'<text class="note" x="12" y="{bottom + 40}">{note}</text>')
    return "\n".join([*out, "</svg>", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--table", type=pathlib.Path, default=ROOT / "docs/BENCHMARKS.md")
    parser.add_argument("--svg", type=pathlib.Path, default=ROOT / "docs/alarms.svg")
    options = parser.parse_args()
    picture = draw(figures(options.table.read_text(encoding="utf-8")))
    if not options.check:
        options.svg.write_text(picture, encoding="utf-8")
    elif options.svg.read_text(encoding="utf-8") != picture:
        sys.exit(f"plot: {options.svg} is not what {options.table} gives: run scripts/plot.py")


if __name__ == "__main__":
    main()
