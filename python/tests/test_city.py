"""The taxis of a city: the use case of placement, as a program against a node."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import tomllib
from test_sdk import PATIENCE, ROOT, Node, program


def ride(taxi: str, start: tuple[float, float], end: tuple[float, float]) -> str:
    """A line as RIoTBench's TAXI data has it."""
    said = {
        "taxi_identifier": taxi,
        "trip_time_in_secs": "200",
        "trip_distance": "1.0",
        "pickup_latitude": str(start[0]),
        "pickup_longitude": str(start[1]),
        "dropoff_latitude": str(end[0]),
        "dropoff_longitude": str(end[1]),
    }
    return "1358101800000," + json.dumps({"e": [{"n": name, "sv": value} for name, value in said.items()]})


@unittest.skipUnless(program(), "skipped: needs the program: cargo build")
class City(unittest.TestCase):
    """`python/examples/taxi_city.py` with `examples/taxi.toml`."""

    def test_regions_hear_of_their_traffic_and_become_topics_of_a_plan(self) -> None:
        """Two rides, one of them through two regions: eleven positions each, an update for every four."""
        folder = self.enterContext(tempfile.TemporaryDirectory())
        node = Node(folder, mqtt=(ROOT / "examples/taxi.toml").read_text().replace(":1883", ":0"))
        self.addCleanup(node.kill)
        rides, plan = pathlib.Path(folder) / "rides.csv", pathlib.Path(folder) / "city.toml"
        within = ride("a", (40.751, -73.991), (40.752, -73.992))
        across = ride("b", (40.751, -73.991), (40.771, -73.991))
        nowhere = ride("c", (0.0, 0.0), (40.7, -73.9))
        rides.write_text("\n".join([within, across, nowhere]))
        command = [sys.executable, str(ROOT / "python/examples/taxi_city.py"), str(rides), "--speedup", "1000"]
        command += ["--address", node.mqtt, "--http", node.http, "--plan", str(plan)]
        environment = {"PYTHONPATH": str(ROOT / "python/src"), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("2 rides, 22 positions", done.stdout)
        # 16 positions in the first region, 6 in the second.
        self.assertIn(" 5 updates, 2 regions", done.stdout)
        topics = tomllib.loads(plan.read_text())["topic"]
        names = ["region/40.74,-74.0/gps", "region/40.76,-74.0/gps"]
        self.assertEqual([topic["name"] for topic in topics], names)
        planned = subprocess.run(
            [program() or "", "plan", str(plan)], capture_output=True, text=True, timeout=PATIENCE, check=True
        )
        self.assertIn("2 topics on 1 node", planned.stdout)
