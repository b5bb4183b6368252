"""Measurements as `tidegate calibrate broker` writes them: a configuration of topics a line."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

VERSION = 1
"""Of the format of measurements and models."""

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@dataclasses.dataclass(frozen=True)
class Topic:
    """A topic of a configuration, and how long its records took."""

    rate: float
    work_seconds: float
    work_cv: float
    subscribers: int
    bound_seconds: float
    serial: bool = False
    p50_seconds: float = 0.0
    p90_seconds: float = 0.0
    p99_seconds: float = 0.0
    count: int = 0
    arrived: float = 1.0


@dataclasses.dataclass(frozen=True)
class Measurement:
    """A run of a configuration; runs of the same one have its name."""

    configuration: str
    scheduler: str
    processors: int
    seconds: float
    topics: tuple[Topic, ...]


def read(*files: str | pathlib.Path) -> list[Measurement]:
    """All measurements of some files. Raises `ValueError`, with file and line, for what is none."""
    found = []
    for file in files:
        for number, line in enumerate(pathlib.Path(file).read_text().splitlines(), 1):
            if line.strip():
                try:
                    found.append(_measurement(json.loads(line)))
                except (TypeError, KeyError, ValueError) as error:
                    raise ValueError(f"{file}, line {number}: no measurement: {error}") from error
    return found


def _measurement(said: dict[str, Any]) -> Measurement:
    if said["version"] != VERSION:
        raise ValueError(f"version {said['version']}, and this program reads {VERSION}")
    topics = tuple(Topic(**topic) for topic in said["topics"])
    if not topics or any(topic.p90_seconds <= 0 or topic.bound_seconds <= 0 for topic in topics):
        raise ValueError("a run has topics, each with a latency and a bound")
    return Measurement(said["configuration"], said["scheduler"], said["processors"], said["seconds"], topics)


def write(file: str | pathlib.Path, measurements: Iterable[Measurement]) -> None:
    """Writes measurements, one a line."""
    lines = (json.dumps({"version": VERSION} | dataclasses.asdict(one)) for one in measurements)
    pathlib.Path(file).write_text("".join(line + "\n" for line in lines))


class Batch:
    """Configurations as arrays: a row each, topics by column, with columns that are not there at the end."""

    def __init__(self, runs: Sequence[Sequence[Topic]], seconds: Sequence[float] | None = None) -> None:
        """Topics of each configuration, and how long each was under load; without end if left out."""
        self.together = np.array([len(run) for run in runs])
        width = int(self.together.max(initial=1))
        self.there = np.arange(width) < self.together[:, None]
        self.seconds = np.array(seconds if seconds is not None else [np.inf] * len(runs), float)
        self.work = self._column(runs, lambda topic: round(topic.work_seconds * 1e9) / 1e9, 0.0)
        self.work_cv = self._column(runs, lambda topic: topic.work_cv, 0.0)
        self.rate = self._column(runs, lambda topic: topic.rate, 0.0)
        self.subscribers = self._column(runs, lambda topic: topic.subscribers, 0.0)
        self.bound = self._column(runs, lambda topic: round(topic.bound_seconds * 1e9) / 1e9, 1.0)
        self.serial = self._column(runs, lambda topic: float(topic.serial), 0.0)
        self.measured = self._column(runs, lambda topic: topic.p90_seconds, 0.0)
        self.count = self._column(runs, lambda topic: topic.count, 0.0)
        self.arrived = self._column(runs, lambda topic: topic.arrived, 0.0)

    @staticmethod
    def of(measurements: Sequence[Measurement]) -> Batch:
        """Those that were measured."""
        return Batch([one.topics for one in measurements], [one.seconds for one in measurements])

    def _column(self, runs: Sequence[Sequence[Topic]], value: Any, empty: float) -> Floats:  # noqa: ANN401
        column = np.full(self.there.shape, empty)
        for row, run in enumerate(runs):
            column[row, : len(run)] = [value(topic) for topic in run]
        return column
