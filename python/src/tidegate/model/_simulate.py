"""A broker that only counts: a pool whose workers take the earliest deadline first; what is late comes behind."""

from __future__ import annotations

import heapq

import numpy as np

from ._measured import Measurement, Topic

COLD = 0.1


def design(rng: np.random.Generator, processors: int) -> list[Topic]:
    """Topics of a configuration, as `tidegate calibrate broker` draws them."""
    count = int(rng.integers(1, 11))
    load = rng.uniform(0.12, 0.95) * processors
    shares = 0.3 - np.log(rng.uniform(0.02, 1.0, count))
    one_work, alike, of_bounds = np.exp(rng.uniform(np.log(0.8e-3), np.log(6e-3))), rng.random(), rng.random()
    one_bound = one_work * np.exp(rng.uniform(np.log(1.6), np.log(30.0)))
    topics = []
    for share in shares / shares.sum():
        work = one_work if alike < 0.4 else np.exp(rng.uniform(np.log(0.8e-3), np.log(6e-3)))
        bound = one_bound if of_bounds < 0.3 else work * np.exp(rng.uniform(np.log(1.6), np.log(30.0)))
        kind = rng.random()
        work_cv = 0.0 if kind < 0.4 else round(float(rng.uniform(0.0, 0.7)), 2)
        rate = load * share / work
        topics.append(Topic(float(rate), float(work), work_cv, 1, float(max(bound, 1.6 * work))))
    return topics


def simulate(topics: list[Topic], processors: int, seconds: float, rng: np.random.Generator, name: str) -> Measurement:
    """A run of a configuration on a machine without contention, overhead and delays."""
    arrivals: list[tuple[float, int, float]] = []
    for place, topic in enumerate(topics):
        times = np.cumsum(rng.exponential(1.0 / topic.rate, int(topic.rate * seconds * 1.5) + 50))
        works = topic.work_seconds * (1.0 + topic.work_cv * rng.choice([-1.0, 1.0], len(times)))
        arrivals += [(float(at), place, float(work)) for at, work in zip(times, works, strict=True) if at < seconds]
    arrivals.sort()
    live: list[tuple[float, int, int, float, float]] = []
    late: list[tuple[float, int, int, float, float]] = []
    busy: list[float] = []
    taken: list[list[float]] = [[] for _ in topics]
    at = 0.0

    def serve(until: float) -> None:
        nonlocal at
        while live or late:
            if len(busy) == processors:
                if busy[0] > until:
                    return
                at = max(at, heapq.heappop(busy))
            while live and live[0][0] <= at:
                heapq.heappush(late, heapq.heappop(live))
            _, _, place, came, work = heapq.heappop(live or late)
            heapq.heappush(busy, at + work)
            if came >= COLD * seconds:
                taken[place].append(at + work - came)

    for number, (came, place, work) in enumerate(arrivals):
        serve(came)
        while busy and busy[0] <= came:
            heapq.heappop(busy)
        at = max(at, came)
        heapq.heappush(live, (came + topics[place].bound_seconds, number, place, came, work))
        serve(came)
    serve(float("inf"))
    measured = tuple(_measured(topic, times) for topic, times in zip(topics, taken, strict=True))
    return Measurement(name, "edf", processors, seconds, measured)


def _measured(topic: Topic, taken: list[float]) -> Topic:
    p50, p90, p99 = (float(np.quantile(taken, part)) for part in (0.5, 0.9, 0.99)) if taken else (1e-9, 1e-9, 1e-9)
    return Topic(
        topic.rate,
        topic.work_seconds,
        topic.work_cv,
        topic.subscribers,
        topic.bound_seconds,
        topic.serial,
        p50,
        p90,
        p99,
        len(taken),
    )


def many(count: int, processors: int, seconds: float, seed: int, repeat: float) -> list[Measurement]:
    """Configurations, a part of which runs twice."""
    measured = []
    for number in range(count):
        rng = np.random.default_rng([seed, number])
        topics = design(rng, processors)
        runs = 2 if rng.random() < repeat else 1
        measured += [simulate(topics, processors, seconds, rng, f"{seed}-{number}") for _ in range(runs)]
    return measured
