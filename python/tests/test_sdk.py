"""The package and its examples against a node: python -m unittest discover python/tests.

Needs the program: TIDEGATE names it, or it is in target/debug or target/release.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest
from collections.abc import Iterator

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python/src"))

import tidegate  # noqa: E402

PATIENCE = 60.0
"""Long enough for a busy machine; reached only where a test fails. Seconds."""


def program() -> str | None:
    """The program, if there is one."""
    places = [os.environ.get("TIDEGATE"), ROOT / "target/debug/tidegate", ROOT / "target/release/tidegate"]
    return next((str(place) for place in places if place and pathlib.Path(place).exists()), None)


class Node:
    """A node with one camera, in a folder of its own."""

    def __init__(
        self, folder: str, port: int = 0, mqtt: str = '[[input]]\nmqtt = { listen = "127.0.0.1:0" }\n'
    ) -> None:
        """Starts it and waits until it is ready; `port` is that of frames, `mqtt` the configuration of its listener."""
        config = pathlib.Path(folder) / "node.toml"
        config.write_text(
            f'[node]\nname = "n"\n[http]\nlisten = "127.0.0.1:0"\n{mqtt}'
            f'[frames]\nlisten = "127.0.0.1:{port}"\ndirectory = "{folder}/frames"\n[[camera]]\nname = "door"\n'
        )
        command = [program() or "", "run", "-c", str(config)]
        self.process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        self.address = self.mqtt = self.http = ""
        for line in self.process.stderr:
            if "frames at " in line:
                self.address = line.split("frames at ")[1].strip()
            if "MQTT at " in line:
                self.mqtt = line.split("MQTT at ")[1].strip()
            if "status page at " in line:
                self.http = line.split("status page at ")[1].strip()
            if "ready" in line:
                break
        self.reader = threading.Thread(target=self.process.stderr.read, daemon=True)
        self.reader.start()

    def kill(self) -> None:
        """Ends it without a word."""
        self.process.kill()
        self.process.wait()
        self.reader.join()
        assert self.process.stderr is not None
        self.process.stderr.close()


@contextlib.contextmanager
def node() -> Iterator[Node]:
    """A node for one test."""
    with tempfile.TemporaryDirectory() as folder:
        one = Node(folder)
        try:
            yield one
        finally:
            one.kill()


def picture(shade: int) -> np.ndarray:
    """A picture of one shade."""
    return np.full((48, 64, 3), shade, np.uint8)


@contextlib.contextmanager
def film(address: str) -> Iterator[None]:
    """Publishes frames until the block ends, and comes back when the node does."""
    over = threading.Event()

    def run() -> None:
        shade = 0
        while not over.is_set():
            with contextlib.suppress(tidegate.NodeGone), tidegate.Camera("door", address=address) as camera:
                while not over.wait(0.03):
                    shade = (shade + 1) % 200
                    camera.publish(picture(shade))
            over.wait(0.1)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@unittest.skipUnless(program(), "skipped: needs the program: cargo build")
class Sdk(unittest.TestCase):
    """Everything that the package offers."""

    def test_a_frame_is_read_as_opencv_reads_it(self) -> None:
        """Pixels in, pixels out, with what is known of the frame."""
        with node() as one, tidegate.VideoCapture("door", latency_ms=1000, address=one.address) as capture:
            with self.assertRaisesRegex(ValueError, "no frame was read yet"):
                _ = capture.meta
            with film(one.address):
                ok, image = capture.read(PATIENCE)
            self.assertTrue(ok)
            assert image is not None
            self.assertEqual((image.shape, capture.meta.size), ((48, 64, 3), (64, 48)))
            self.assertTrue(capture.meta.is_source and capture.isOpened())
            capture.release()
            self.assertFalse(capture.isOpened())
            self.assertEqual(capture.read(), (False, None))

    def test_a_capture_comes_back_with_its_node(self) -> None:
        """kill -9, a restart at the same port, and frames again."""
        with tempfile.TemporaryDirectory() as folder:
            one = Node(folder)
            with tidegate.VideoCapture("door", latency_ms=1000, address=one.address) as capture, film(one.address):
                self.assertIsNotNone(capture.frame(PATIENCE))
                one.kill()
                again = Node(folder, int(one.address.rsplit(":", 1)[1]))
                while capture.frame(0) is not None:
                    pass
                self.assertIsNotNone(capture.frame(PATIENCE))
            again.kill()

    def test_refusals_are_errors_with_a_reason(self) -> None:
        """Of frames, and of subscriptions."""
        with node() as one, tidegate.Camera("door", address=one.address) as camera:
            with self.assertRaisesRegex(tidegate.FrameRefused, "this is no JPEG"):
                camera.publish(b"GIF89a")
            self.assertGreater(camera.publish(picture(7)), 0)
            with self.assertRaises(ValueError):
                camera.publish(np.zeros((4, 4), np.float32))  # type: ignore[arg-type]
            capture = tidegate.VideoCapture("door", latency_ms=0, address=one.address)
            with capture, self.assertRaisesRegex(tidegate.Refused, "latency_ms is 0"):
                capture.frame(PATIENCE)
            with tidegate.Camera("cellar", address=one.address) as unknown, self.assertRaises(tidegate.Refused):
                unknown.publish(picture(7))

    def test_a_mistyped_camera_or_address_is_told(self) -> None:
        """With the cameras that there are, and what to look at; not by waiting for ever."""
        with node() as one:
            with (
                tidegate.VideoCapture("dor", address=one.address, timeout=0.3) as capture,
                self.assertRaisesRegex(tidegate.Refused, "there are: door"),
            ):
                capture.frame(PATIENCE)
            gone = one.address
        with (
            tidegate.VideoCapture("door", address=gone, timeout=0.3) as capture,
            self.assertRaisesRegex(tidegate.NodeGone, "is the node running"),
        ):
            capture.frame(PATIENCE)
        self.assertFalse(capture.isOpened())
        with self.assertRaisesRegex(ValueError, "who we are"):
            tidegate.VideoCapture("door", tls=tidegate.Tls("ca.pem"))

    def test_stored_frames_are_replayed_and_cameras_are_told(self) -> None:
        """By time, all of them."""
        with node() as one, tidegate.Camera("door", address=one.address) as camera:
            for second in range(1, 9):
                camera.publish(picture(second), captured_unix_ns=second * 10**9)
            seen: list[int] = []
            # What was taken is written by another thread.
            while len(seen) < 5:
                replayed = tidegate.replay("door", 3 * 10**9, 7 * 10**9, address=one.address)
                seen = [frame.captured_unix_ns // 10**9 for frame in replayed]
            self.assertEqual(seen, [3, 4, 5, 6, 7])
            (door,) = tidegate.cameras(address=one.address)
            self.assertEqual((door.name, door.node, door.is_online), ("door", "n", True))

    def test_asyncio(self) -> None:
        """The same stream without threads."""

        async def first(address: str) -> tidegate.Frame:
            async for said in tidegate.aio.frames("door", latency_ms=1000, address=address):
                if isinstance(said, tidegate.Frame):
                    return said
            raise AssertionError("it ended")

        with node() as one, film(one.address):
            frame = asyncio.run(asyncio.wait_for(first(one.address), PATIENCE))
            self.assertEqual(frame.camera, "door")

    def test_the_examples_run(self) -> None:
        """A folder is published, and watched."""
        examples = ROOT / "python/examples"
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "python/src"), "PYTHONUNBUFFERED": "1"}
        with node() as one, tempfile.TemporaryDirectory() as folder, film(one.address):
            command = [sys.executable, str(examples / "watch.py"), "door", "3", one.address]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE)
            self.assertEqual(done.stdout.count("Frame('door'"), 3, done.stderr)
        with node() as one, tempfile.TemporaryDirectory() as folder:
            from tidegate._frame import encode

            for number in range(3):
                (pathlib.Path(folder) / f"{number}.jpg").write_bytes(encode(picture(number), 80))
            command = [sys.executable, str(examples / "publish_folder.py"), "door", folder, "50", one.address]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE)
            self.assertEqual(done.stdout.count(".jpg"), 3, done.stderr)


if __name__ == "__main__":
    unittest.main()
