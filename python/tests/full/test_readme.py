"""The examples of the README are what `mypy --strict` has nothing to say of."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]


class Readme(unittest.TestCase):
    """Each block is a program of its own."""

    def test_its_examples_have_types(self) -> None:
        """All of them, and there are some."""
        blocks = re.findall(r"```python\n(.*?)```", (ROOT / "python/README.md").read_text(), re.DOTALL)
        self.assertGreater(len(blocks), 4)
        with tempfile.TemporaryDirectory() as folder:
            files = [pathlib.Path(folder) / f"block{number}.py" for number in range(len(blocks))]
            for file, block in zip(files, blocks, strict=True):
                file.write_text(block)
            command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", folder, *map(str, files)]
            config = ["--config-file", str(ROOT / "python/pyproject.toml")]
            environment = {"MYPYPATH": str(ROOT / "python/src")}
            done = subprocess.run(
                [*command, *config], cwd=ROOT / "python", env=environment, capture_output=True, text=True
            )
            self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    unittest.main()
