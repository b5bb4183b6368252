"""A ladder that no longer says the truth is found out, and one that does is not."""

from __future__ import annotations

import pathlib
import sys
import unittest

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python/src"))

import tidegate  # noqa: E402
from tidegate import _frames_pb2 as wire  # noqa: E402
from tidegate import detect  # noqa: E402
from tidegate._frame import Image, encode  # noqa: E402

SOURCE = encode(np.zeros((80, 160, 3), np.uint8), 90)
SMALL = encode(np.zeros((40, 80, 3), np.uint8), 90)


def frame(jpeg: bytes, quality: int, accuracy_low: float = 0.9) -> tidegate.Frame:
    """One that came."""
    width = 160 if jpeg is SOURCE else 80
    size = {"width": width, "height": width // 2, "source_width": 160, "source_height": 80}
    return tidegate.Frame(wire.Frame(camera="door", jpeg=jpeg, quality=quality, accuracy_low=accuracy_low, **size))


def detector(lost: int) -> detect.Detector:
    """Finds ten things on a source, and so many fewer on what was made of it."""

    def find(image: Image) -> list[tuple[float, ...]]:
        part = image.shape[1] / 160
        boxes = [(12 * at * part, 0.0, 10 * part, 10 * part) for at in range(10)]
        return boxes if part == 1 else boxes[lost:]

    return find


def probed(lost: int, probes: int, accuracy_low: float = 0.9) -> tidegate.Drifted | None:
    """What is said after so many probes."""
    drift = tidegate.Drift(detector(lost), every=0, fetch=lambda _: frame(SOURCE, 0))
    for _ in range(probes):
        drift.look(frame(SMALL, 60, accuracy_low))
    return drift.drifted


class Drifting(unittest.TestCase):
    """Probes and what is said of them."""

    def test_a_stale_ladder_is_told(self) -> None:
        """6 of 10 things are found: 12 of 16 boxes agree."""
        with self.assertLogs("tidegate", "WARNING"):
            said = probed(4, 5)
        assert said is not None
        self.assertEqual((said.measured, said.expected, said.probes), (0.75, 0.9, 5))

    def test_a_true_one_is_not(self) -> None:
        """All is found, or as much as the ladder says, or too little is known."""
        self.assertIsNone(probed(0, 5))
        self.assertIsNone(probed(4, 5, accuracy_low=0.75))
        self.assertIsNone(probed(4, 2), "20 boxes")

    def test_probes_come_when_there_is_room(self) -> None:
        """Once in a while, not of sources, and not while capacity is short."""
        asked = []

        def fetch(one: tidegate.Frame) -> tidegate.Frame:
            asked.append(one)
            return frame(SOURCE, 0)

        drift = tidegate.Drift(detector(0), fetch=fetch)
        drift.look(frame(SOURCE, 0))
        drift.news(tidegate.Infeasible(0.5, 200))
        drift.look(frame(SMALL, 60))
        self.assertEqual(len(asked), 0)
        drift.news(tidegate.Feasible())
        for _ in range(3):
            drift.look(frame(SMALL, 60))
        self.assertEqual(len(asked), 1)

    def test_no_source_is_no_probe(self) -> None:
        """A node that keeps no frames, or sends a rung."""
        for answer in (None, frame(SMALL, 60)):
            drift = tidegate.Drift(detector(10), every=0, fetch=lambda _, answer=answer: answer)
            for _ in range(9):
                self.assertIsNone(drift.look(frame(SMALL, 60)))


if __name__ == "__main__":
    unittest.main()
