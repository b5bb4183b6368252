"""The paper's Table I on a simulated broker of its kind: its networks as it prints them, and ours, for each k.

The broker has a thread for each topic on four processors. A record takes as long as makes the largest rates of a
lone topic those that the paper measured; each topic slows the others that are busy down by 3 %. Neither is printed.
"""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from ._judge import ceiling
from ._learned import Learned, paper_features
from ._measured import Batch, Floats, Measurement, Topic
from ._physics import Parameters
from ._train import Options, fitted, layers_of, ours, polynomial

PROCESSORS = 4
SCHEDULER = "thread-per-topic"
RATES = {0.010: 78, 0.020: 37, 0.030: 24, 0.040: 20}
"""The paper's largest rates of a lone topic, records/s, by processing interval."""
SERVICE = {0.010: 0.0125, 0.020: 0.0275, 0.030: 0.0425, 0.040: 0.050}
"""Seconds that a record takes, by processing interval."""
SLOWER = 0.03
WORK_CV = 0.15
BOUND = 1.0
COLD = 0.1
TEST = 0.05
"""Part of the topics that is held back from training; of lone ones 0.4."""
TEST_ALONE = 0.4
PRINTED = {
    1: ("108", ".975", ".970", ""),
    2: ("2000", ".987", ".985", ".972"),
    3: ("3000", ".985", ".978", ".976"),
    4: ("4000", ".983", ".979", ".984"),
    5: ("5000", ".981", ".978", ".951"),
    6: ("6000", ".981", ".956", ".968"),
}
"""What the paper prints: topics, accuracy in training, test and validation."""


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of the table: R2 of log p90."""

    together: int
    topics: int
    training: float
    test: float
    validation: float
    """All three of the paper's model."""
    ours: float
    """Of validation."""
    twice: float
    """What one run says of the same configuration's second one."""
    missed: tuple[float, float]
    """Late topics of validation that were said to be in time: by the paper's model, and by ours."""


def draw(together: int, rng: np.random.Generator) -> list[Topic]:
    """A configuration as the paper draws them."""
    intervals = rng.choice(list(RATES), together)
    rates = [float(rng.integers(1, RATES[float(interval)] + 1)) for interval in intervals]
    return [
        Topic(rate, SERVICE[float(interval)], WORK_CV, 1, BOUND, serial=True)
        for interval, rate in zip(intervals, rates, strict=True)
    ]


def run(topics: Sequence[Topic], seconds: float, rng: np.random.Generator, name: str) -> Measurement:
    """Runs a configuration: each topic has a thread, and threads that are busy share the processors."""
    count = len(topics)
    arrivals = [np.sort(rng.uniform(0.0, seconds, rng.poisson(topic.rate * seconds))).tolist() for topic in topics]
    works = [
        (topic.work_seconds * np.maximum(rng.normal(1.0, topic.work_cv, len(times)), 0.1)).tolist()
        for topic, times in zip(topics, arrivals, strict=True)
    ]
    # How much each thread has worked is told by one clock, for all busy ones go equally fast.
    speeds = [0.0] + [min(1.0, PROCESSORS / busy) / (1.0 + SLOWER * (busy - 1)) for busy in range(1, count + 1)]
    come, served = [0] * count, [0] * count
    ends: list[tuple[float, int]] = []
    taken: list[list[float]] = [[] for _ in topics]
    due = [(times[0], place) for place, times in enumerate(arrivals) if times]
    heapq.heapify(due)
    now = worked = 0.0
    while due or ends:
        speed = speeds[len(ends)]
        end = now + (ends[0][0] - worked) / speed if ends else np.inf
        if due and due[0][0] <= end:
            at, place = heapq.heappop(due)
            worked += (at - now) * speed
            now = at
            if come[place] == served[place]:
                heapq.heappush(ends, (worked + works[place][served[place]], place))
            come[place] += 1
            if come[place] < len(arrivals[place]):
                heapq.heappush(due, (arrivals[place][come[place]], place))
            continue
        worked, place = heapq.heappop(ends)
        now = end
        came = arrivals[place][served[place]]
        if came >= COLD * seconds:
            taken[place].append(now - came)
        served[place] += 1
        if served[place] < come[place]:
            heapq.heappush(ends, (worked + works[place][served[place]], place))
    measured = []
    for topic, times in zip(topics, taken, strict=True):
        p50, p90, p99 = (float(part) for part in np.quantile(times or [topic.work_seconds], (0.5, 0.9, 0.99)))
        measured.append(dataclasses.replace(topic, p50_seconds=p50, p90_seconds=p90, p99_seconds=p99, count=len(times)))
    return Measurement(name, SCHEDULER, PROCESSORS, seconds, tuple(measured))


def measure(together: int, count: int, seconds: float, seed: int, runs: int = 1) -> list[Measurement]:
    """So many configurations of so many topics, each run so often."""
    measured = []
    for number in range(count):
        rng = np.random.default_rng([seed, together, number])
        topics = draw(together, rng)
        measured += [run(topics, seconds, rng, f"{seed}-{together}-{number}") for _ in range(runs)]
    return measured


def row(together: int, configurations: int, seconds: float, seed: int) -> Row:
    """Measures, trains and judges for one k."""
    some = measure(together, configurations, seconds, seed)
    checks = measure(together, max(configurations // 20, 10), seconds, seed + 1_000_000, runs=2)
    batch, check = Batch.of(some), Batch.of(checks)
    truth, held = _logs(batch), TEST_ALONE if together == 1 else TEST
    order = np.random.default_rng(seed).permutation(len(truth))
    test, train = np.split(order, [max(int(len(truth) * held), 2)])
    paper = _papers(some, train, seed)
    machine, residual = ours(some, Options(seed=seed, has_paper=False))
    own = Learned("", SCHEDULER, machine, {"inside": [0.0, 0.0], "outside": [0.0, 0.1]}, residual)
    whole, of_paper, of_own = paper(batch), paper(check), np.log(own.p90(check)).reshape(-1)
    came, twice = _logs(check), ceiling(checks)
    late, bound = came > np.log(BOUND), np.log(BOUND)

    def missed(said: Floats) -> float:
        return float((said[late] <= bound).mean()) if late.any() else 0.0

    return Row(
        together,
        len(train),
        r2(whole[train], truth[train]),
        r2(whole[test], truth[test]),
        r2(of_paper, came),
        r2(of_own, came),
        r2(np.log(twice.predicted), np.log(twice.measured)) if twice is not None else float("nan"),
        (missed(of_paper), missed(of_own)),
    )


def _logs(batch: Batch) -> Floats:
    logs: Floats = np.log(batch.measured).reshape(-1)
    return logs


def _papers(some: Sequence[Measurement], train: npt.NDArray[np.int64], seed: int) -> Callable[[Batch], Floats]:
    """The paper's model of these topics of some configurations: logarithms of 90th percentiles."""
    batch, together = Batch.of(some), len(some[0].topics)
    if together == 1:
        terms = polynomial(Batch.of([some[int(place)] for place in train]))
        lone = Learned("", SCHEDULER, Parameters.usual(PROCESSORS), {}, None, {"polynomial": terms, "networks": {}})
        return lambda other: np.log(lone.p90(other, "paper")).reshape(-1)
    rows = paper_features(batch).reshape(-1, 6)
    scaler, network = fitted(rows[train], _logs(batch)[train], layers_of(together), seed)
    return lambda other: np.asarray(network.predict(scaler.transform(paper_features(other).reshape(-1, 6))))


def r2(said: Floats, came: Floats) -> float:
    """Of logarithms, as the paper's accuracy must be."""
    return 1.0 - float(((said - came) ** 2).sum()) / float(((came - came.mean()) ** 2).sum())


HEAD = (
    f"{'':>3} {'the paper prints':^31} {'its models here':^31} {'ours':>8} {'the same':>9} {'late and missed':^17}\n"
    f"{'k':>3} {'topics':>7} {'trained':>7} {'test':>7} {'valid.':>7} {'topics':>7} {'trained':>7} {'test':>7}"
    f" {'valid.':>7} {'valid.':>8} {'run twice':>9} {'paper':>8} {'ours':>8}"
)


def line(one: Row) -> str:
    """A row as text."""
    topics, training, test, validation = PRINTED[one.together]
    return (
        f"{one.together:>3} {topics:>7} {training:>7} {test:>7} {validation:>7} {one.topics:>7} {one.training:>7.3f}"
        f" {one.test:>7.3f} {one.validation:>7.3f} {one.ours:>8.3f} {one.twice:>9.3f} {one.missed[0]:>8.3f}"
        f" {one.missed[1]:>8.3f}"
    )
