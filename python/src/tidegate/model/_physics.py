"""The physics of a broker; `broker.rs` and `shape.rs` in `crates/cluster/src/place/model/` agree, by a test."""

from __future__ import annotations

import dataclasses

import numpy as np

from ._measured import Batch, Floats

SLOWER = 0.1
IN_TIME = 0.95
NORMAL_P90 = 1.281_552
LOAD_MAX = 0.98
BOUND_MAX = 3600.0
STEPS = 44
FEATURES = (
    "together",
    "load",
    "urgent_load",
    "own_load",
    "latency_over_bound",
    "work_over_bound",
    "work_over_mean",
    "variation",
    "bound_over_mean",
    "work_cv",
    "cores",
    "fixed_share",
    "serial",
)


@dataclasses.dataclass(frozen=True)
class Parameters:
    """What was measured of a machine with a broker."""

    cores: float
    contention: float
    bias: float
    overhead_seconds: float
    copy_seconds: float
    latency_seconds: float

    @staticmethod
    def usual(processors: int) -> Parameters:
        """What a machine with so many processors probably is."""
        return Parameters(max(processors, 1) * 0.9, 0.01, 1.0, 60e-6, 15e-6, 300e-6)


@dataclasses.dataclass(frozen=True)
class Foreseen:
    """What the physics say of each topic of a batch."""

    p90: Floats
    features: Floats
    """Rows, columns, features."""


def waiting_chance(cores: float, load: Floats) -> Floats:
    """Erlang's C, interpolated between whole numbers of processors."""

    def whole(workers: int) -> Floats:
        blocked = np.ones_like(load)
        for worker in range(1, workers + 1):
            blocked = load * blocked / (worker + load * blocked)
        with np.errstate(divide="ignore", invalid="ignore"):
            chance = blocked / (1.0 - load / workers * (1.0 - blocked))
        return np.where(load >= workers, 1.0, chance)

    below = max(int(cores), 1)
    part = min(max(cores - below, 0.0), 1.0)
    mixed: Floats = whole(below) * (1.0 - part) + whole(below + 1) * part
    return mixed


class _Together:
    """Some topics' records together: sums over columns, or single topics."""

    def __init__(self, rate: Floats, service: Floats, work_cv: Floats, bound: Floats, *, alone: bool) -> None:
        def total(values: Floats) -> Floats:
            return values if alone else values.sum(axis=1, keepdims=True)

        self.rate = total(rate)
        self.load = total(rate * service)
        self.square = total(rate * service * service * (1.0 + work_cv * work_cv))
        self.bounds = total(rate * service * bound)

    def wait(self, cores: float, before: Floats, urgent: Floats) -> Floats:
        limit = cores * LOAD_MAX
        chance = waiting_chance(cores, np.minimum(self.load, limit))
        rest = self.square / (2.0 * np.where(self.load > 0, self.load, 1.0))
        free = (cores - np.minimum(before, limit)) * (cores - np.minimum(urgent, limit))
        tail = np.maximum(np.log(np.maximum(chance, 1e-300) / SLOWER), 0.0)
        return np.where(self.load > 0, rest * cores / free * tail, 0.0)

    def overload(self, cores: float, seconds: Floats) -> Floats:
        excess = self.load / cores - LOAD_MAX
        with np.errstate(invalid="ignore"):
            return np.where(excess > 0, excess * seconds, 0.0)


def foresee(scheduler: str, parameters: Parameters, batch: Batch, speed: float = 1.0) -> Foreseen:
    """The 90th percentile of each topic, and its features."""
    p90, everyone, topics = _of_part(1.0, scheduler, parameters, batch, speed)
    if scheduler == "edf":
        # What is late comes behind: the others decide where the 90th percentile is.
        few, _, _ = _of_part(IN_TIME, scheduler, parameters, batch, speed)
        keeps_up = everyone.load <= parameters.cores * LOAD_MAX
        bound = topics[-1]
        p90 = np.where(keeps_up, np.minimum(p90, np.maximum(few, bound)), p90)
    return Foreseen(p90, _features(batch, parameters, everyone, topics, p90))


def _of_part(
    part: float, scheduler: str, parameters: Parameters, batch: Batch, speed: float
) -> tuple[Floats, _Together, tuple[Floats, Floats, Floats, Floats, Floats]]:
    """The same where only a part of the records comes: latencies, sums, and what features are made of."""
    cores = parameters.cores
    slower = (1.0 + parameters.contention * (batch.together[:, None] - 1.0)) / speed
    fixed = (parameters.overhead_seconds + parameters.copy_seconds * batch.subscribers) * slower
    service = batch.work * slower + fixed
    rate = batch.rate * part
    load = rate * service
    bound = np.minimum(batch.bound, BOUND_MAX)
    everyone = _Together(rate, service, batch.work_cv, bound, alone=False)
    sooner = bound[:, None, :] < bound[:, :, None]
    before = (load[:, None, :] * sooner).sum(axis=2)
    urgent = (load[:, None, :] * (bound[:, None, :] <= bound[:, :, None])).sum(axis=2)
    wait = everyone.wait(cores, np.zeros_like(everyone.load), everyone.load)
    overload = everyone.overload(cores, batch.seconds[:, None])
    waits, stretch = np.broadcast_to(wait, load.shape), np.ones_like(load)
    if scheduler == "edf":
        ranked = everyone.wait(cores, before, urgent)
        waits = _in_order(batch, bound, load, wait, ranked)
    elif scheduler == "thread-per-topic":
        others = np.minimum(everyone.load - load, cores * LOAD_MAX)
        waits, stretch = np.zeros_like(load), 1.0 + waiting_chance(cores, others) / (cores - others)
    # Copies are made beside the line.
    line = (batch.work + parameters.overhead_seconds) * slower
    own = _Together(rate, line * stretch, batch.work_cv, bound, alone=True)
    in_line = own.wait(1.0, np.zeros_like(load), own.load) + own.overload(1.0, batch.seconds[:, None])
    is_line = np.full(load.shape, scheduler == "thread-per-topic") | (batch.serial > 0)
    waits = np.maximum(waits, np.where(is_line, in_line, 0.0))
    takes = service * stretch * (1.0 + NORMAL_P90 * batch.work_cv) + waits + overload
    p90 = parameters.latency_seconds + parameters.bias * takes
    return p90, everyone, (service, fixed, load, urgent, bound)


def _in_order(batch: Batch, bound: Floats, load: Floats, wait: Floats, ranked: Floats) -> Floats:
    """Waits where the earliest deadline goes first: whatever is due before the frontier has been served."""
    low, high = np.minimum(ranked, wait), np.maximum(ranked, wait)
    there = batch.there
    longest = np.maximum(np.where(there, ranked, 0.0).max(axis=1, keepdims=True), wait)
    early = np.where(there, bound, np.inf).min(axis=1, keepdims=True) - longest
    late = np.where(there, bound, 0.0).max(axis=1, keepdims=True)
    work = (load * wait).sum(axis=1, keepdims=True)
    for _ in range(STEPS):
        middle = 0.5 * (early + late)
        more = (load * np.clip(bound - middle, low, high)).sum(axis=1, keepdims=True) > work
        early, late = np.where(more, middle, early), np.where(more, late, middle)
    waits: Floats = np.clip(bound - 0.5 * (early + late), low, high)
    return waits


def _features(
    batch: Batch,
    parameters: Parameters,
    everyone: _Together,
    topics: tuple[Floats, Floats, Floats, Floats, Floats],
    p90: Floats,
) -> Floats:
    service, fixed, load, urgent, bound = topics

    def per(value: Floats, by: Floats) -> Floats:
        return np.where(by > 0, value / np.where(by > 0, by, 1.0), 1.0)

    def log(value: Floats) -> Floats:
        return np.log(np.maximum(value, 1e-12))

    cores = parameters.cores
    mean = per(everyone.load, everyone.rate)
    columns = [
        np.broadcast_to(batch.together[:, None].astype(float), load.shape),
        np.broadcast_to(everyone.load / cores, load.shape),
        urgent / cores,
        load / cores,
        log(per(p90, bound)),
        log(per(service * (1.0 + NORMAL_P90 * batch.work_cv), bound)),
        log(per(service, np.broadcast_to(mean, load.shape))),
        np.broadcast_to(log(per(per(everyone.square, everyone.rate), mean * mean)), load.shape),
        log(per(bound, np.broadcast_to(per(everyone.bounds, everyone.load), load.shape))),
        batch.work_cv,
        np.full(load.shape, cores),
        per(fixed, service),
        batch.serial,
    ]
    return np.stack(columns, axis=-1)
