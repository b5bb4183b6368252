"""Writes what the program's own inference is compared with: a small model of every kind, and what Python says by it.

Run from the root of the repository: `python python/tests/model_fixture.py` (needs `tidegate[model]`).
"""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib
import sys
from typing import Any

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python/src"))

from tidegate.model import Batch, Learned, Topic, _simulate  # noqa: E402

FILE = ROOT / "crates/cluster/src/place/model/parity.json"


def cases(learned: Learned) -> list[dict[str, Any]]:
    """Sets of topics, some unlike all that was trained with, and their 90th percentiles; null without end."""
    found = []
    for number in range(24):
        rng = np.random.default_rng([77, number])
        topics = _simulate.design(rng, 2)[: 1 + number % 4]
        if number % 5 == 0:
            topics = [dataclasses.replace(topic, serial=rng.random() < 0.5, subscribers=3) for topic in topics]
        if number == 23:
            topics = [dataclasses.replace(topic, rate=topic.rate * 20) for topic in topics]
        found.append({"topics": [_told(topic) for topic in topics], **_said(learned, topics)})
    return found


def _told(topic: Topic) -> dict[str, Any]:
    names = ("rate", "work_seconds", "work_cv", "subscribers", "bound_seconds", "serial")
    return {name: getattr(topic, name) for name in names}


def _said(learned: Learned, topics: list[Topic]) -> dict[str, list[float | None]]:
    batch = Batch([topics])
    return {
        name: [value if math.isfinite(value) else None for value in learned.p90(batch, name)[0].tolist()]
        for name in ("learned", "physics", "paper")
    }


def main() -> None:
    """Trains and writes."""
    from tidegate.model import _train

    measurements = _simulate.many(60, 2, 4.0, 3, 0.0)
    measurements = [one for one in measurements if len(one.topics) <= 4]
    options = _train.Options(trees=8, leaves=4, layers=(4,))
    learned = _train.train(measurements, options)
    FILE.write_text(json.dumps({"model": learned.told(), "cases": cases(learned)}) + "\n")


if __name__ == "__main__":
    main()
