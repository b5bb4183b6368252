"""`python -m tidegate.model`: trains, shows and judges latency models, and simulates what they are trained with."""

from __future__ import annotations

import argparse
import math
import sys

from ._judge import HEAD, Cases, ceiling, judge
from ._learned import NAMES, Learned
from ._measured import Batch, Measurement, read, write


def main(arguments: list[str] | None = None) -> int:
    """Does what the command line asks for; the exit code."""
    asked = _parser().parse_args(arguments)
    try:
        command = {"train": _train, "show": _show, "simulate": _simulate, "table": _table}[asked.command]
        command(asked)
    except (OSError, ValueError) as error:
        print(f"tidegate.model: {error}", file=sys.stderr)
        return 1
    except ImportError as error:
        print(f"tidegate.model: {error}: pip install 'tidegate[model]'", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m tidegate.model", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    train = commands.add_parser("train", help="train on measurements, judge on those held out, write a model")
    train.add_argument("files", nargs="+", metavar="FILE.jsonl", help="from `tidegate calibrate broker`")
    train.add_argument("--out", required=True, metavar="FILE.json", help="for `tidegate plan --model`")
    train.add_argument("--machine", metavar="FILE.json", help="a calibrated machine that the model is carried to")
    train.add_argument("--no-paper", action="store_true", help="without the paper's polynomial and networks")
    train.add_argument("--quiet", action="store_true", help="without the report")
    train.add_argument("--seed", type=int, default=1)
    show = commands.add_parser("show", help="say what is in a model, and how right it is about measurements")
    show.add_argument("model", metavar="FILE.json")
    show.add_argument("files", nargs="*", metavar="FILE.jsonl", help="none of them should have been trained with")
    simulate = commands.add_parser("simulate", help="measurements of a broker that only counts")
    simulate.add_argument("--out", required=True, metavar="FILE.jsonl")
    simulate.add_argument("--configurations", type=int, default=200)
    simulate.add_argument("--seconds", type=float, default=20.0)
    simulate.add_argument("--processors", type=int, default=2)
    simulate.add_argument("--repeat", type=float, default=0.2, help="part of them that runs twice")
    simulate.add_argument("--seed", type=int, default=1)
    table = commands.add_parser("table", help="the topic placement paper's Table I, on a simulated broker of its kind")
    table.add_argument("--configurations", type=int, default=1000, help="of two topics and more; of lone ones 180")
    table.add_argument("--seconds", type=float, default=120.0, help="how long each runs")
    table.add_argument("--most", type=int, default=6, choices=range(1, 7), help="the largest k")
    table.add_argument("--seed", type=int, default=1)
    return parser


def _train(asked: argparse.Namespace) -> None:
    from . import _train as training

    measurements = read(*asked.files)
    if len({one.scheduler for one in measurements}) != 1:
        raise ValueError("measurements of one scheduler, and at least some")
    options = training.Options(seed=asked.seed, has_paper=not asked.no_paper)
    machine = Learned.read(asked.machine).machine if asked.machine else None
    learned = training.train(measurements, options, machine)
    learned.write(asked.out)
    if asked.quiet:
        return
    _tell(learned)
    print("\nheld out by configuration, each fifth in turn:\n" + HEAD)
    for name, cases in training.held_out(measurements, options).items():
        print(judge(cases).line(name))
    _tell_ceiling(measurements)
    print("\nconfigurations trained with: R2 of log p90, right near the bound")
    for size, row in training.curve(measurements, options):
        print(f"{size:>6}  " + "  ".join(f"{name} {r2:.3f} {near:.3f}" for name, (r2, near) in row.items()))


def _tell(learned: Learned) -> None:
    print(f"{learned.measured}; {learned.scheduler}")
    for name, value in vars(learned.machine).items():
        print(f"  {name:<18} {value:.6g}")
    for name, (low, high) in learned.spread.items():
        print(f"  measured over predicted, {name:<8} {math.exp(low):.2f} to {math.exp(high):.2f} in eight of ten cases")
    trees = len(learned.residual["trees"]) if learned.residual else 0
    networks = ", ".join(learned.paper["networks"]) if learned.paper else "none"
    print(f"  trees {trees}; the paper's networks for so many topics: {networks}")


def _tell_ceiling(measurements: list[Measurement]) -> None:
    twice = ceiling(measurements)
    if twice is not None:
        print(judge(twice).line("the same run twice"))


def _show(asked: argparse.Namespace) -> None:
    learned = Learned.read(asked.model)
    _tell(learned)
    if not asked.files:
        return
    measurements = read(*asked.files)
    batch = Batch.of(measurements)
    print("\n" + HEAD)
    for name in NAMES:
        if name != "paper" or learned.paper:
            print(judge(Cases.of(learned.p90(batch, name), batch)).line(name))
    _tell_ceiling(measurements)


def _simulate(asked: argparse.Namespace) -> None:
    from ._simulate import many

    write(asked.out, many(asked.configurations, asked.processors, asked.seconds, asked.seed, asked.repeat))


def _table(asked: argparse.Namespace) -> None:
    from ._table import HEAD as TITLE
    from ._table import line, row

    print(TITLE)
    for together in range(1, asked.most + 1):
        count = min(asked.configurations, 180) if together == 1 else asked.configurations
        print(line(row(together, count, asked.seconds, asked.seed)), flush=True)


if __name__ == "__main__":
    sys.exit(main())
