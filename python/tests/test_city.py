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
        "fare_amount": "9.5",
        "tip_amount": "0.5",
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
        """Two rides, one of them through two regions: eleven positions each, news for every four of a region."""
        folder = self.enterContext(tempfile.TemporaryDirectory())
        text = (ROOT / "examples/taxi.toml").read_text().replace(":1883", ":0")
        node = Node(folder, mqtt=text.replace('"examples/', f'"{ROOT}/examples/'))
        self.addCleanup(node.kill)
        rides, plan = pathlib.Path(folder) / "rides.csv", pathlib.Path(folder) / "city.toml"
        within = ride("a", (40.751, -73.991), (40.752, -73.991))
        across = ride("b", (40.751, -73.991), (40.751, -73.985))
        nowhere = ride("c", (0.0, 0.0), (40.7, -73.9))
        rides.write_text("\n".join([within, across, nowhere]))
        command = [sys.executable, str(ROOT / "python/examples/taxi_city.py"), str(rides), "--speedup", "1000"]
        command += ["--address", node.mqtt, "--http", node.http, "--plan", str(plan)]
        environment = {"PYTHONPATH": str(ROOT / "python/src"), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("2 rides, 22 positions", done.stdout)
        self.assertIn(" 2 regions, 5 topics", done.stdout)
        topics = {topic["name"]: topic for topic in tomllib.loads(plan.read_text())["topic"]}
        areas = ("155-162", "156-162")
        names = [f"region/{area}/{kind}" for area in areas for kind in ("gps", "news")]
        self.assertEqual(sorted(topics), ["city/rides", *names])
        self.assertEqual(topics["region/155-162/news"]["subscribers"], 1)
        planned = subprocess.run(
            [program() or "", "plan", str(plan)], capture_output=True, text=True, timeout=PATIENCE, check=True
        )
        self.assertIn("5 topics on 1 node", planned.stdout)
