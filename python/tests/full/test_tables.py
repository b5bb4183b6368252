"""A node's figures as tables of pandas."""

from __future__ import annotations

import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "python/src"), str(ROOT / "python/tests")]

from test_client import LISTENER  # noqa: E402
from test_sdk import Node, program  # noqa: E402

import tidegate  # noqa: E402


@unittest.skipUnless(program(), "skipped: needs the program: cargo build")
class Tables(unittest.TestCase):
    """What `tidegate[pandas]` is for."""

    def test_figures_are_tables(self) -> None:
        """Lists of the status, and metrics with their labels."""
        node = Node(self.enterContext(tempfile.TemporaryDirectory()), mqtt=LISTENER.replace("PORT", "0"))
        self.addCleanup(node.kill)
        with tidegate.Client(node.mqtt) as client:
            client.publish("open/1")
        self.assertIn("sink", list(tidegate.tables(node.http)["outputs"]["name"]))
        table = tidegate.metrics(node.http)
        self.assertTrue((table["name"] == "tidegate_stream_accepted_records_total").any(), sorted(set(table["name"])))


if __name__ == "__main__":
    unittest.main()
