"""The child of `tidegate calibrate frames`: what it answers, and what it says of what is wrong."""

from __future__ import annotations

import io
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python/src"))

from tidegate import _detect, detect  # noqa: E402
from tidegate._frame import Image, encode  # noqa: E402


def images(*jpegs: bytes) -> bytes:
    """As they are sent."""
    return b"".join(struct.pack(">I", len(jpeg)) + jpeg for jpeg in jpegs)


class Detect(unittest.TestCase):
    """Answers of the child."""

    def test_each_image_is_answered(self) -> None:
        """Boxes, and an error that ends nothing."""

        def find(image: Image) -> list[list[object]]:
            if image[0, 0, 0] > 128:
                raise ValueError("too bright")
            return [[1, 2, image.shape[1], image.shape[0], "all"]]

        dark, bright = (encode(np.full((8, 16, 3), shade, np.uint8), 90) for shade in (0, 255))
        out = io.StringIO()
        detect.serve(find, io.BytesIO(images(dark, bright, b"no jpeg", dark)), out)
        said = [json.loads(line) for line in out.getvalue().splitlines()]
        box = {"boxes": [[1.0, 2.0, 16.0, 8.0, "all"]]}
        self.assertEqual((said[0], said[1], said[3]), (box, {"error": "ValueError: too bright"}, box))
        self.assertIn("error", said[2])

    def run_child(self, spec: str, text: str, fed: bytes = b"") -> list[dict[str, object]]:
        """Runs the child where `finder.py` has this text."""
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "finder.py").write_text(text)
            command = [sys.executable, "-m", "tidegate.detect", spec]
            env = {"PYTHONPATH": str(ROOT / "python/src"), "PYTHONDONTWRITEBYTECODE": "1"}
            done = subprocess.run(command, cwd=folder, env=env, input=fed, capture_output=True, check=False)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_a_callable_that_prints_breaks_nothing(self) -> None:
        """It has a name and a hash."""
        text = "def find(image):\n    print('looking')\n    return [(0, 0, 1, 1)]\n"
        jpeg = encode(np.zeros((8, 8, 3), np.uint8), 90)
        hello, answer = self.run_child("python:finder:find", text, images(jpeg))
        self.assertEqual((hello["name"], len(str(hello["sha256"]))), ("finder:find", 64))
        self.assertEqual(answer, {"boxes": [[0.0, 0.0, 1.0, 1.0]]})

    def test_what_is_no_detector_is_named(self) -> None:
        """In a line that the program can tell."""
        for spec, words in (
            ("python:finder:lost", "module finder has no callable 'lost'"),
            ("python:nowhere:find", "No module named 'nowhere'"),
            ("model.pt", "is no MODEL.onnx and no python:MODULE:CALLABLE"),
        ):
            (said,) = self.run_child(spec, "find = None\n")
            self.assertIn(words, str(said["error"]))

    def test_one_thing_is_one_box(self) -> None:
        """The surest of boxes that overlap stays, unless it is of another label."""
        centres = np.array([[5.0, 5.0], [5.2, 5.0], [5.0, 5.0], [50.0, 5.0]])
        scores = np.array([[0.8, 0.0], [0.9, 0.0], [0.0, 0.7], [0.1, 0.1]])
        kept = _detect._kept(centres, np.full((4, 2), 10.0), scores)
        self.assertEqual([(round(box[0], 1), box[4]) for box in kept], [(0.2, 0), (0.0, 1)])


if __name__ == "__main__":
    unittest.main()
