"""Latency models: what Python trains is what the program reads, and it is right about what was not trained with."""

from __future__ import annotations

import json
import pathlib
import sys
import tempfile
import unittest

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python/src"), str(ROOT / "python/tests")]

import model_fixture  # noqa: E402

from tidegate.model import Cases, Learned, Topic, _simulate, judge, read, write  # noqa: E402


class Parity(unittest.TestCase):
    """The fixture that the program's inference is tested with."""

    def test_the_fixture_says_what_python_says(self) -> None:
        """Everything in it but the training is done again."""
        said = json.loads(model_fixture.FILE.read_text())
        again = model_fixture.cases(Learned.of(said["model"]))
        for before, after in zip(said["cases"], again, strict=True):
            # The last digit is the processor's: the libraries below choose instructions by what it has.
            for one, other in zip(before["topics"], after["topics"], strict=True):
                self.assertEqual(one.keys(), other.keys())
                for name in one:
                    self.assertAlmostEqual(float(one[name]), float(other[name]), delta=1e-12 * abs(float(one[name])))
        for name in ("learned", "physics", "paper"):
            for before, after in zip(said["cases"], again, strict=True):
                pairs = zip(before[name], after[name], strict=True)
                self.assertTrue(all(a == b or abs(a / b - 1) < 1e-9 for a, b in pairs), name)
        self.assertTrue(any(None in one["learned"] for one in again), "one that is too much for the machine")


class Judging(unittest.TestCase):
    """Verdicts by hand."""

    def test_decisions(self) -> None:
        """The same numbers as in verdict.rs."""
        predicted, measured = np.array([0.9, 0.7, 1.1, 1.1, 0.1, np.inf]), np.array([0.8, 1.2, 1.3, 0.9, 0.1, 30.0])
        said = judge(Cases(predicted, measured, np.ones(6)))
        self.assertEqual((said.cases, said.near, said.near_right), (6, 4, 0.5))
        self.assertAlmostEqual(said.missed, 1 / 3)
        self.assertAlmostEqual(said.miss, 1 / 3)
        self.assertAlmostEqual(said.refused, 1 / 3)


class Simulating(unittest.TestCase):
    """The broker that only counts."""

    def test_an_urgent_topic_waits_for_less(self) -> None:
        """Of two alike but for their bound."""
        topics = [Topic(250.0, 0.003, 0.0, 1, bound) for bound in (0.006, 0.5)]
        one = _simulate.simulate(topics, 2, 30.0, np.random.default_rng(1), "two")
        self.assertLess(one.topics[0].p90_seconds, 0.9 * one.topics[1].p90_seconds)
        self.assertEqual(one.topics[0].work_seconds, 0.003)

    def test_measurements_are_read_as_written(self) -> None:
        """And a line that is none is named."""
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "some.jsonl"
            some = _simulate.many(3, 2, 1.0, 1, 0.5)
            write(file, some)
            self.assertEqual(read(file), some)
            file.write_text(file.read_text() + '{"version": 2}\n')
            with self.assertRaisesRegex(ValueError, f"line {len(some) + 1}: .*version 2"):
                read(file)


if __name__ == "__main__":
    unittest.main()
