"""Latency models: what Python trains is what the program reads, and it is right about what was not trained with."""

from __future__ import annotations

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python/src"), str(ROOT / "python/tests")]

import model_fixture  # noqa: E402

from tidegate.model import Batch, Cases, Learned, Measurement, Topic, _simulate, judge, read, write  # noqa: E402
from tidegate.model.__main__ import main  # noqa: E402


class Parity(unittest.TestCase):
    """The fixture that the program's inference is tested with."""

    def test_the_fixture_says_what_python_says(self) -> None:
        """Everything in it but the training is done again."""
        said = json.loads(model_fixture.FILE.read_text())
        again = model_fixture.cases(Learned.of(said["model"]))
        self.assertEqual([one["topics"] for one in said["cases"]], [one["topics"] for one in again])
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


class Training(unittest.TestCase):
    """Needs scikit-learn."""

    def setUp(self) -> None:
        """Skips without it."""
        try:
            import sklearn  # noqa: F401
        except ImportError:
            self.skipTest("skipped: needs scikit-learn")

    def test_the_file_says_what_was_trained(self) -> None:
        """Trees, polynomial and networks, evaluated from the file, are those of scikit-learn."""
        from tidegate.model import _train
        from tidegate.model._learned import _residual
        from tidegate.model._physics import foresee

        some = _simulate.many(40, 2, 3.0, 5, 0.0)
        options = _train.Options(trees=10, layers=(6,))
        learned = _train.train(some, options)
        assert learned.residual is not None and learned.paper is not None
        said = foresee("edf", learned.machine, Batch.of(some))
        inside, added = _residual(learned.residual, said.features)
        self.assertGreater(inside.mean(), 0.3)
        runs = [one for one in some if len(one.topics) == len(some[0].topics)]
        networks = {"networks": {str(len(some[0].topics)): _train._network(runs, (6,), options)}}
        batch = Batch.of(runs)
        file = Learned("", "edf", learned.machine, {}, None, networks).p90(batch, "paper")
        trained = np.exp(_train._fitted(runs, (6,), options)[1](batch))
        self.assertTrue(np.allclose(file, trained, rtol=1e-9))

    def test_what_was_learned_holds_for_others(self) -> None:
        """By the command line: simulate, train, show."""
        with tempfile.TemporaryDirectory() as folder:
            some, others, file = (f"{folder}/{name}" for name in ("some.jsonl", "others.jsonl", "model.json"))
            told = io.StringIO()
            with contextlib.redirect_stdout(told):
                for seed, out in (("1", some), ("2", others)):
                    made = ["--configurations", "50", "--seconds", "8", "--seed", seed, "--out", out]
                    self.assertEqual(main(["simulate", *made]), 0)
                self.assertEqual(main(["train", some, "--out", file, "--no-paper", "--quiet"]), 0)
                self.assertEqual(main(["show", file, others]), 0)
            self.assertIn("the same run twice", told.getvalue())
            learned, held = Learned.read(file), read(others)
            batch = Batch.of(held)
            verdict = judge(Cases.of(learned.p90(batch), batch))
            self.assertGreater(verdict.r2, 0.8, verdict)
            self.assertGreater(verdict.right, 0.9, verdict)

    def test_what_cannot_be_read_is_named(self) -> None:
        """With the exit code of a mistake."""
        with contextlib.redirect_stderr(io.StringIO()) as told:
            self.assertEqual(main(["show", "/nowhere/model.json"]), 1)
        self.assertIn("/nowhere/model.json", told.getvalue())

    def test_topics_of_a_configuration_stay_together(self) -> None:
        """And both runs of one."""
        from tidegate.model import _train

        topic = (Topic(10.0, 0.001, 0.0, 1, 0.01, p90_seconds=0.002),)
        runs = [Measurement(str(number // 2), "edf", 2, 1.0, topic) for number in range(20)]
        for some, held in _train.folds(runs, 1):
            self.assertFalse({one.configuration for one in some} & {one.configuration for one in held})
            self.assertEqual(len(some) + len(held), 20)


if __name__ == "__main__":
    unittest.main()
