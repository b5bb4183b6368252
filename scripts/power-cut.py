#!/usr/bin/env python3
"""Cuts the power below a running node, and counts the acknowledged records that are gone.

The node's log (and its sink) lie on an ext4 image on a loop device. While publishers insist, the process is stopped
and the image's file is copied as it is: what the node never synced is not in it. The copy is mounted, which replays
the journal, a node starts on it and delivers what it owes. Needs root, mkfs.ext4 and, for `mqtt`, mosquitto.

    scripts/power-cut.py --tidegate target/release/tidegate --output sink --cuts 3
"""

import argparse
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

PUBLISHERS = 4
WINDOW = 200
PAYLOAD = 256


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def text(value):
    return struct.pack(">H", len(value)) + value.encode()


def packet(kind, body):
    length, size = b"", len(body)
    while True:
        size, low = divmod(size, 128)
        length += bytes([low | (0x80 if size else 0)])
        if not size:
            return bytes([kind]) + length + body


def connect(port, name, patience=30):
    end = time.monotonic() + patience
    while True:
        try:
            client = socket.create_connection(("127.0.0.1", port), timeout=5)
            client.sendall(packet(0x10, text("MQTT") + b"\x04\x02" + struct.pack(">H", 60) + text(name)))
            if client.recv(4)[3:] == b"\0":
                return client
        except OSError:
            pass
        if time.monotonic() > end:
            sys.exit(f"nobody listens at {port}")
        time.sleep(0.05)


def packets(client):
    """Whole packets, (first byte, body), until the connection ends."""
    held = b""
    while True:
        while True:
            size, place, shift = 0, 1, 0
            while place < len(held):
                size |= (held[place] & 0x7F) << shift
                shift += 7
                place += 1
                if not held[place - 1] & 0x80:
                    break
            else:
                break
            if len(held) < place + size:
                break
            yield held[0], held[place : place + size]
            held = held[place + size :]
        try:
            more = client.recv(65536)
        except OSError:
            return
        if not more:
            return
        held += more


class Publisher(threading.Thread):
    """Publishes with QoS 1, some ahead of the acknowledgements, and notes what was acknowledged."""

    def __init__(self, port, name):
        super().__init__(daemon=True)
        self.client, self.name = connect(port, name), name
        self.client.settimeout(None)
        self.acknowledged, self.waiting, self.is_over = set(), {}, False
        self.room = threading.Semaphore(WINDOW)
        threading.Thread(target=self.hear, daemon=True).start()

    def run(self):
        number = 0
        while not self.is_over:
            self.room.acquire()
            number += 1
            record, identifier = f"{self.name}-{number}", number % 65535 + 1
            self.waiting[identifier] = record
            body = text(f"plant/{self.name}") + struct.pack(">H", identifier)
            body += record.encode().ljust(PAYLOAD, b".")
            try:
                self.client.sendall(packet(0x32, body))
            except OSError:
                return

    def hear(self):
        for kind, body in packets(self.client):
            if kind == 0x40:
                self.acknowledged.add(self.waiting.pop(struct.unpack(">H", body[:2])[0]))
                self.room.release()


class Collector(threading.Thread):
    """A subscriber at the broker: what has arrived there."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.client, self.arrived = connect(port, "collector"), set()
        self.client.settimeout(None)
        self.client.sendall(packet(0x82, struct.pack(">H", 1) + text("#") + b"\0"))

    def run(self):
        for kind, body in packets(self.client):
            if kind >> 4 == 3:
                place = 2 + struct.unpack(">H", body[:2])[0] + (2 if kind & 6 else 0)
                self.arrived.add(body[place:].decode().rstrip("."))


def sunk(folder):
    arrived = set()
    for path in folder.glob("records*.jsonl"):
        for line in path.read_bytes().split(b"\n"):
            try:
                arrived.add(json.loads(line)["text"].rstrip("."))
            except (ValueError, KeyError):
                pass
    return arrived


def run(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def cut(arguments, work):
    disk, image, copy = work / "disk", work / "image", work / "copy"
    disk.mkdir()
    with image.open("wb") as file:
        file.truncate(1 << 30)
    run("mkfs.ext4", "-q", image)
    run("mount", "-o", "loop", image, disk)
    listen, broker, collector, mosquitto = free_port(), free_port(), None, None
    output = f'sink = {{ directory = "{disk}/sink", files = 1000 }}'
    if arguments.output == "mqtt":
        output = f'mqtt = {{ url = "mqtt://127.0.0.1:{broker}" }}'
        (work / "mosquitto.conf").write_text(f"listener {broker} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\n")
        mosquitto = subprocess.Popen(["mosquitto", "-c", work / "mosquitto.conf"], stderr=subprocess.DEVNULL)
        collector = Collector(broker)
        collector.start()
    config = work / "node.toml"
    config.write_text(
        f'[node]\nname = "gate"\nstop_timeout = "60s"\n[log]\ndirectory = "{disk}/log"\n'
        f'[[input]]\nmqtt = {{ listen = "127.0.0.1:{listen}" }}\n'
        f'[http]\nlisten = "127.0.0.1:{free_port()}"\n[[output]]\nname = "far"\n{output}\n'
    )
    start = lambda: subprocess.Popen([arguments.tidegate, "run", "-c", config], stderr=(work / "node.log").open("ab"))
    try:
        node = start()
        publishers = [Publisher(listen, f"p{place}") for place in range(PUBLISHERS)]
        [publisher.start() for publisher in publishers]
        time.sleep(arguments.seconds)
        node.send_signal(signal.SIGSTOP)
        # What was acknowledged is on its way to us at the latest.
        time.sleep(0.5)
        shutil.copyfile(image, copy)
        acknowledged = set().union(*(publisher.acknowledged for publisher in publishers))
        for publisher in publishers:
            publisher.is_over = True
            publisher.client.close()
        node.kill()
        node.wait()
        run("umount", disk)
        run("mount", "-o", "loop", copy, disk)
        at_cut = sunk(disk / "sink") if arguments.output == "sink" else set(collector.arrived)
        node = start()
        connect(listen, "after").close()
        node.send_signal(signal.SIGTERM)
        node.wait(timeout=120)
        time.sleep(0.5)
        arrived = sunk(disk / "sink") if arguments.output == "sink" else collector.arrived
        return len(acknowledged), len(at_cut & acknowledged), len(acknowledged - arrived)
    finally:
        node.kill()
        subprocess.run(["umount", disk], stderr=subprocess.DEVNULL)
        if mosquitto:
            mosquitto.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tidegate", type=Path, default=Path("target/release/tidegate"))
    parser.add_argument("--output", choices=["sink", "mqtt"], default="sink")
    parser.add_argument("--cuts", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5)
    arguments = parser.parse_args()
    if os.geteuid() != 0 or not shutil.which("mkfs.ext4"):
        sys.exit("needs root and mkfs.ext4: nothing was tried")
    all_lost = 0
    for number in range(1, arguments.cuts + 1):
        with tempfile.TemporaryDirectory(prefix="tidegate-power-cut-") as folder:
            acknowledged, before, lost = cut(arguments, Path(folder))
        all_lost += lost
        print(f"cut {number}, {arguments.output}: acknowledged {acknowledged}, had arrived {before}, lost {lost}", flush=True)
    sys.exit(1 if all_lost else 0)


if __name__ == "__main__":
    main()
