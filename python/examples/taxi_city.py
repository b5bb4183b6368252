"""New York's taxis, region by region, at a node with examples/taxi.toml.

usage: taxi_city.py RIDES [--speedup N] [--limit N] [--address HOST:PORT] [--http URL] [--plan FILE.toml]

RIDES is a file of RIoTBench's TAXI data (`TAXI_sample_data_senml.csv`): one ride a line, a time and SenML. Each ride
drives straight from where it began to where it ended and publishes where it is to its region's `gps` topic, many to
one; everybody in a region hears of its traffic by its `update` topic, one to many. Time runs N times faster than in
New York. In the end it prints what the node measured of each region, and `--plan` writes the regions as topics of
`tidegate plan`.
"""

from __future__ import annotations

import argparse
import dataclasses
import heapq
import json
import pathlib
import time
from collections.abc import Iterator
from typing import Any

import tidegate

REPORTS = 10
"""A ride says so often where it is."""
LONGEST_S = 600.0
"""Rides begin within so many seconds of New York's time, whatever their dates: the sample is one of many days."""
SIDE = 0.02
"""Degrees along the side of a region."""


@dataclasses.dataclass(frozen=True)
class Ride:
    """From where to where, how long and how fast."""

    taxi: str
    start: tuple[float, float]
    end: tuple[float, float]
    seconds: float
    speed: float

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
            rides.append(Ride(said["taxi_identifier"], start, end, seconds, metres / seconds))
    return rides


def region(place: tuple[float, float]) -> str:
    """Its south-western corner."""
    latitude, longitude = (round(part // SIDE * SIDE, 2) for part in place)
    return f"{latitude},{longitude}"


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


def drive(rides: list[Ride], speedup: float, client: tidegate.Client) -> int:
    """Publishes every report when it is due; how many there were."""
    count, began = 0, time.monotonic()
    for at, ride, part in reports(rides):
        time.sleep(max(0.0, began + at / speedup - time.monotonic()))
        place = ride.at(part)
        said = {"taxi": ride.taxi, "lat": place[0], "lon": place[1], "speed": round(ride.speed, 2)}
        client.publish(f"region/{region(place)}/gps", json.dumps(said), qos=0)
        count += 1
    return count


def topics(seen: list[dict[str, Any]]) -> str:
    """The regions as topics of `tidegate plan`."""
    tables = [
        f'[[topic]]\nname = "{one["topic"]}"\nrate = {max(one["records_per_second"], 0.1):.3f}\n'
        f'work = "{max(one["cpu_mean_seconds"] * 1e6, 1):.0f}us"\nbound = "{one["bound_seconds"] * 1e3:.0f}ms"\n'
        for one in seen
    ]
    return "".join(tables)


def main() -> None:
    """Drives, listens and tells."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("rides", type=pathlib.Path)
    parser.add_argument("--speedup", type=float, default=60.0)
    parser.add_argument("--limit", type=int, default=1000, help="rides to take of the file")
    parser.add_argument("--address", default="127.0.0.1:1883")
    parser.add_argument("--http", default=tidegate.DEFAULT_HTTP)
    parser.add_argument("--plan", type=pathlib.Path)
    options = parser.parse_args()
    rides = read(options.rides, options.limit)
    with tidegate.Client(options.address) as taxis, tidegate.Client(options.address) as drivers:
        updates = drivers.subscribe("region/+/update", qos=0, keep=1_000_000)
        began = time.monotonic()
        count = drive(rides, options.speedup, taxis)
        took = time.monotonic() - began
        heard: dict[str, int] = {}
        while (record := updates.get(1.0)) is not None:
            heard[record.topic] = heard.get(record.topic, 0) + 1
    measured = tidegate.status(options.http)["operators"]
    seen = [one for one in measured if one["records"] and one["topic"] != "(others)"]
    for one in seen:
        one["records_per_second"] = one["records"] / took
    seen.sort(key=lambda one: -one["records"])
    print(f"{len(rides)} rides, {count} positions in {took:.1f} s, {sum(heard.values())} updates, {len(heard)} regions")
    for one in seen:
        p90 = one["delivery"]["p90_seconds"]
        print(
            f"{one['topic']:<28}{one['records']:>7} in{one['results']:>7} out{one['cpu_mean_seconds'] * 1e6:>8.0f} us"
            f"  p90 {'' if p90 is None else f'{p90 * 1e3:.2f} ms'}"
        )
    if options.plan:
        options.plan.write_text(topics(seen))
        print(f"regions as topics in {options.plan}: tidegate plan {options.plan}")


if __name__ == "__main__":
    main()
