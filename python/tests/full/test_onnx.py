"""A real model in onnxruntime."""

from __future__ import annotations

import pathlib
import sys
import unittest

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "python/src"))

from tidegate import detect  # noqa: E402

MODEL = ROOT / "../shared/data/vision/FastestDet.onnx"


class Onnx(unittest.TestCase):
    """A detector in a file."""

    def test_a_model_finds_nothing_on_gray(self) -> None:
        """Where a model is there."""
        if not MODEL.exists():
            self.skipTest(f"skipped: needs {MODEL}")
        find, name, _ = detect.load(str(MODEL))
        self.assertEqual((name, list(find(np.full((90, 160, 3), 114, np.uint8)))), ("FastestDet.onnx", []))


if __name__ == "__main__":
    unittest.main()
