"""New York's taxis, region by region, at a node with examples/taxi.toml.

usage: taxi_city.py RIDES [--speedup N] [--limit N] [--address HOST:PORT] [--http URL] [--plan FILE.toml]

RIDES is a file of RIoTBench's TAXI data (`TAXI_sample_data_senml.csv`): one ride a line, a time and SenML. The city has
regions of 500 m, as the DEBS grand challenge of 2015 has it. Each ride drives straight from where it began to where it
ended and publishes where it is to its region's `gps` topic, many to one; it has subscribed to its region's `update`
topic, one to many. What a ride earned is published where it ends. The service, which is this program too, hears the
regions' traffic and the city's most profitable areas, and tells both to the taxis of a region by its `news` topic, of
which the node makes the `update`. Time runs N times faster than in New York. In the end the program prints what the
node measured of each topic, and `--plan` writes all of them as topics of `tidegate plan`: as fast as in New York.
"""

from __future__ import annotations

import argparse
import dataclasses
import heapq
import json
import pathlib
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import tidegate

REPORTS = 10
"""A ride says so often where it is."""
LONGEST_S = 600.0
"""Rides begin within so many seconds of New York's time, whatever their dates: the sample is one of many days."""
ORIGIN = (41.474937, -74.913585)
"""Latitude and longitude of the middle of the region in the north-western corner."""
SIDE = (0.004491556, 0.005986)
"""500 m, in degrees."""
PATIENCE_S = 60.0
"""How long the node may take for what waits at the end."""
CONNECTIONS = 64
"""Taxis share so many connections: each is a client of a library with threads of its own. Those of a region on one
connection share a subscription there, for a second one of the same filter would take the place of the first."""


@dataclasses.dataclass(frozen=True)
class Ride:
    """From where to where, how long, how fast, and what it earned."""

    taxi: str
    start: tuple[float, float]
    end: tuple[float, float]
    seconds: float
    speed: float
    earned: float

    def at(self, part: float) -> tuple[float, float]:
        """Latitude and longitude after this part of the ride."""
        (a, b), (c, d) = self.start, self.end
        return a + (c - a) * part, b + (d - b) * part


def read(file: pathlib.Path, limit: int) -> list[Ride]:
    """The rides that have a place and a time."""
    rides = []
    for line in file.read_text().splitlines()[:limit]:
        entries = json.loads(line.split(",", 1)[1])["e"]
        said: dict[str, str] = {entry["n"]: entry.get("v", entry.get("sv", "")) for entry in entries}
        start = float(said["pickup_latitude"]), float(said["pickup_longitude"])
        end = float(said["dropoff_latitude"]), float(said["dropoff_longitude"])
        seconds = float(said["trip_time_in_secs"])
        if 0.0 not in (*start, *end) and seconds > 0:
            metres = float(said["trip_distance"]) * 1609.0
            earned = float(said.get("fare_amount", 0)) + float(said.get("tip_amount", 0))
            rides.append(Ride(said["taxi_identifier"], start, end, seconds, metres / seconds, earned))
    return rides


def region(place: tuple[float, float]) -> str:
    """How many regions it is east and south of the first one, from 1; what is beyond its edge is in the first."""
    east, south = (place[1] - ORIGIN[1]) / SIDE[1], (ORIGIN[0] - place[0]) / SIDE[0]
    return f"{max(int(east + 0.5), 0) + 1}-{max(int(south + 0.5), 0) + 1}"


def reports(rides: list[Ride]) -> Iterator[tuple[float, Ride, float]]:
    """Seconds, a ride, and the part of it that is behind it, in the order of time."""
    begin = {place: LONGEST_S * place / len(rides) for place in range(len(rides))}
    due = [(start, place, 0) for place, start in begin.items()]
    heapq.heapify(due)
    while due:
        at, place, number = heapq.heappop(due)
        ride = rides[place]
        yield at, ride, number / REPORTS
        if number < REPORTS:
            heapq.heappush(due, (at + ride.seconds / REPORTS, place, number + 1))


class Taxis:
    """The taxis under way: where each is, what it has subscribed to, and how many updates came."""

    def __init__(self, address: str, count: int) -> None:
        """Connects; taxis share the connections."""
        self._clients = [tidegate.Client(address) for _ in range(min(count, CONNECTIONS))]
        self._listens: dict[int, tuple[str, int]] = {}
        """Region and connection of each taxi."""
        self._shared: dict[tuple[str, int], tuple[tidegate.Subscription, int]] = {}
        """Subscriptions by region and connection, with the taxis that share each."""
        self.heard: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        """Taxis that each region had at once at most."""
        self._here: Counter[str] = Counter()

    def moves(self, ride: Ride, area: str | None) -> None:
        """A taxi is in this region from now on; None: it has arrived."""
        before = self._listens.pop(id(ride), None)
        if before is not None and before[0] == area:
            self._listens[id(ride)] = before
            return
        if before is not None:
            self._leaves(before)
        if area is not None:
            way = area, id(ride) // 64 % len(self._clients)
            self._listens[id(ride)] = way
            self._comes(way)
            self._here[area] += 1
            self.most[area] = max(self.most[area], self._here[area])

    def _comes(self, way: tuple[str, int]) -> None:
        area, connection = way
        if way in self._shared:
            subscription, taxis = self._shared[way]
            self._hear(area, subscription, taxis)
        else:
            subscription, taxis = self._clients[connection].subscribe(f"region/{area}/update", qos=0), 0
        self._shared[way] = subscription, taxis + 1

    def _leaves(self, way: tuple[str, int]) -> None:
        area, _ = way
        subscription, taxis = self._shared.pop(way)
        self._here[area] -= 1
        if taxis == 1:
            subscription.close()
        else:
            self._shared[way] = subscription, taxis - 1
        self._hear(area, subscription, taxis)

    def _hear(self, area: str, subscription: tidegate.Subscription, taxis: int) -> None:
        """What came until now came to each of the taxis that share a subscription."""
        while subscription.get(0) is not None:
            self.heard[area] += taxis

    def close(self) -> None:
        """All have arrived."""
        for way in self._listens.values():
            self._leaves(way)
        self._listens = {}
        for client in self._clients:
            client.close()


class Service(threading.Thread):
    """What `serve` does, and what went wrong there."""

    def __init__(self, client: tidegate.Client) -> None:
        """Does not begin yet."""
        super().__init__(daemon=True)
        self._client = client
        self.done = threading.Event()
        self.failed: Exception | None = None

    def run(self) -> None:
        """Until it is done."""
        try:
            serve(self._client, self.done)
        except Exception as error:  # noqa: BLE001 whatever it is, the program ends with it
            self.failed = error


def serve(client: tidegate.Client, done: threading.Event) -> None:
    """The service: a region's traffic, and where it pays most to be, are news for its taxis."""
    best = ""
    with client.subscribe("region/+/traffic", "city/profitable", qos=0, keep=1_000_000) as heard:
        while not done.is_set():
            record = heard.get(0.1)
            if record is None:
                continue
            said = json.loads(record.payload)
            if record.topic == "city/profitable":
                best = said["areas"]
            else:
                area = record.topic.split("/")[1]
                client.publish(f"region/{area}/news", json.dumps(said | {"profitable": best}), qos=0)


def drive(rides: list[Ride], speedup: float, client: tidegate.Client, taxis: Taxis) -> int:
    """Publishes every report when it is due; how many there were."""
    count, began = 0, time.monotonic()
    for at, ride, part in reports(rides):
        time.sleep(max(0.0, began + at / speedup - time.monotonic()))
        place = ride.at(part)
        area = region(place)
        taxis.moves(ride, area if part < 1 else None)
        said = {"taxi": ride.taxi, "lat": place[0], "lon": place[1], "speed": round(ride.speed, 2)}
        client.publish(f"region/{area}/gps", json.dumps(said), qos=0)
        if part == 1:
            ends = {"taxi": ride.taxi, "at": at, "from": region(ride.start), "to": area, "earned": ride.earned}
            client.publish("city/rides", json.dumps(ends), qos=0)
        count += 1
    return count


def topics(seen: list[dict[str, Any]], most: Counter[str]) -> str:
    """What the node worked on as topics of `tidegate plan`: gps with one subscriber, news with a region's taxis."""

    def subscribers(topic: str) -> int:
        area = topic.split("/")[1] if topic.endswith("/news") else ""
        return max(most[area], 1)

    tables = [
        f'[[topic]]\nname = "{one["topic"]}"\nrate = {one["records_per_second"]:.6f}\n'
        f'work = "{max(one["cpu_mean_seconds"] * 1e6, 1):.0f}us"\nbound = "{one["bound_seconds"] * 1e3:.0f}ms"\n'
        f"subscribers = {subscribers(one['topic'])}\n"
        for one in seen
    ]
    return "".join(tables)


def main() -> int:
    """Drives, listens and tells; 1 where a topic has no figures of its own, for then a plan would lack it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("rides", type=pathlib.Path)
    parser.add_argument("--speedup", type=float, default=60.0)
    parser.add_argument("--limit", type=int, default=1000, help="rides to take of the file")
    parser.add_argument("--address", default="127.0.0.1:1883")
    parser.add_argument("--http", default=tidegate.DEFAULT_HTTP)
    parser.add_argument("--plan", type=pathlib.Path)
    options = parser.parse_args()
    rides = read(options.rides, options.limit)
    taxis, before = Taxis(options.address, len(rides)), measured(options.http)
    with tidegate.Client(options.address) as driver, tidegate.Client(options.address) as service:
        serving = Service(service)
        serving.start()
        began = time.monotonic()
        count = drive(rides, options.speedup, driver, taxis)
        took = (time.monotonic() - began) * options.speedup
        seen = settled(options.http, count, len(rides), before, serving)
        serving.done.set()
        serving.join()
        taxis.close()
    for one in seen:
        one["records_per_second"] = one["records"] / took
    seen.sort(key=lambda one: (-one["records"], one["topic"]))
    areas = {one["topic"].split("/")[1] for one in seen if one["topic"].startswith("region/")}
    updates = sum(taxis.heard.values())
    print(
        f"{len(rides)} rides, {count} positions, {updates} updates at taxis, {len(areas)} regions, {len(seen)} topics"
    )
    for one in seen:
        p90 = one["delivery"]["p90_seconds"]
        print(
            f"{one['topic']:<28}{one['records']:>7} in{one['results']:>7} out{one['cpu_mean_seconds'] * 1e6:>8.0f} us"
            f"  p90 {'' if p90 is None else f'{p90 * 1e3:.2f} ms'}"
        )
    others = [one for one in seen if one["topic"].startswith("(others")]
    if others:
        records = sum(one["records"] for one in others)
        print(f"{records} records are of topics without figures of their own: no plan can have these", file=sys.stderr)
        return 1
    if options.plan:
        options.plan.write_text(topics(seen, taxis.most))
        print(f"{len(seen)} topics in {options.plan}: tidegate plan {options.plan}")
    return 0


def measured(http: str) -> dict[tuple[str, str], dict[str, Any]]:
    """What the node has measured since it began, by operator and topic."""
    return {(one["operator"], one["topic"]): one for one in tidegate.status(http).get("operators", [])}


def settled(
    http: str, positions: int, rides: int, before: dict[tuple[str, str], dict[str, Any]], service: Service
) -> list[dict[str, Any]]:
    """What the node measured since `before`, once it has worked on all of it, and the service has told all that the
    regions said. Its times are of all that it has seen."""
    began = time.monotonic()
    while time.monotonic() - began < PATIENCE_S:
        if service.failed is not None:
            raise service.failed
        seen = []
        for name, one in measured(http).items():
            old = before.get(name, {"records": 0, "results": 0})
            since = one | {count: one[count] - old[count] for count in ("records", "results")}
            if since["records"]:
                seen.append(since)
        count: Counter[str] = Counter()
        for one in seen:
            count[one["operator"]] += one["records"] - one["waiting_records"]
        traffic = sum(one["results"] for one in seen if one["operator"] == "traffic")
        if (count["traffic"], count["profitable"], count["update"]) == (positions, rides, traffic):
            return seen
        time.sleep(0.1)
    sys.exit(f"the node has not worked on all within {PATIENCE_S} s: {dict(count)}, and {traffic} of the regions")


if __name__ == "__main__":
    sys.exit(main())
