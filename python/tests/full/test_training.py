"""Latency models trained by scikit-learn are read back as trained, and are right about what was not trained with."""

from __future__ import annotations

import contextlib
import io
import pathlib
import sys
import tempfile
import unittest

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "python/src"), str(ROOT / "python/tests")]


from tidegate.model import Batch, Cases, Learned, Measurement, Topic, _simulate, judge, read  # noqa: E402
from tidegate.model.__main__ import main  # noqa: E402


class Training(unittest.TestCase):
    """Models are trained by scikit-learn."""

    def test_the_file_says_what_was_trained(self) -> None:
        """Trees, polynomial and networks, evaluated from the file, are those of scikit-learn."""
        from tidegate.model import _train
        from tidegate.model._learned import _residual, paper_features
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
        rows = paper_features(batch).reshape(-1, 6)
        scaler, network = _train.fitted(rows, _train._logs(batch).reshape(-1), (6,), options.seed)
        trained = np.exp(network.predict(scaler.transform(rows))).reshape(file.shape)
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

    def test_the_papers_networks_have_the_papers_layers(self) -> None:
        """And its table has a row for each k, of topics that were not trained with."""
        from tidegate.model import _table, _train

        self.assertEqual([_train.layers_of(k) for k in (2, 5, 6)], [(40, 40), (40, 40), (100, 100)])
        one = _table.row(2, 60, 20.0, 1)
        self.assertEqual((one.together, one.topics), (2, 114))
        self.assertGreater(one.training, 0.9, one)
        self.assertGreater(one.validation, 0.7, one)

    def test_threads_of_topics_share_the_processors(self) -> None:
        """By hand: five always busy ones get four fifths of a processor each, less what they slow each other down."""
        from tidegate.model import _table

        def busy(count: int) -> float:
            topics = [Topic(1000.0, 0.05, 0.0, 1, 1.0)] * count
            measured = _table.run(topics, 10.0, np.random.default_rng(1), "busy")
            # Ten thousand records come at once, so to speak: the last one that is served tells the speed.
            return measured.topics[0].p99_seconds

        self.assertAlmostEqual(busy(5) / busy(1), 1.25 * 1.12, delta=0.03)
        self.assertAlmostEqual(busy(4) / busy(1), 1.09, delta=0.03)

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
