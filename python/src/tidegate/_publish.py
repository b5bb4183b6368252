"""A camera whose frames are published from here."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator

from . import _frames_pb2 as wire
from ._connection import DEFAULT_ADDRESS, Tls, channel, method
from ._frame import Image, encode


class FrameRefused(Exception):
    """The node did not take a frame, and says why."""


class Camera:
    """Publishes frames of a camera, one after the other."""

    def __init__(self, name: str, *, address: str = DEFAULT_ADDRESS, tls: Tls | None = None, quality: int = 90) -> None:
        """`quality` is that of JPEGs made here, 1 to 100."""
        self._name = name
        self._quality = quality
        self._channel = channel(address, tls)
        self._frames: queue.SimpleQueue[wire.PublishRequest | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        ask = method(self._channel.stream_stream, "Publish", wire.PublishRequest, wire.PublishReply)
        self._replies = ask(self._requests())

    def publish(self, frame: Image | bytes, *, captured_unix_ns: int = 0, age_ms: float = 0.0) -> int:
        """Publishes pixels (as OpenCV has them) or a JPEG; answers the frame's number when it is taken.

        `captured_unix_ns` is when it was taken (0: now), `age_ms` how long that is ago by this machine's clock.
        Raises `FrameRefused`, or gRPC's error when the node is gone: then a new `Camera` is needed.
        """
        jpeg = frame if isinstance(frame, bytes) else encode(frame, self._quality)
        request = wire.PublishRequest(
            camera=self._name, jpeg=jpeg, captured_unix_ns=captured_unix_ns, age_us=round(1000 * age_ms)
        )
        with self._lock:
            self._frames.put(request)
            reply = next(self._replies)
        if reply.error:
            raise FrameRefused(reply.error)
        return int(reply.frame)

    def close(self) -> None:
        """Ends the stream."""
        self._frames.put(None)
        self._channel.close()

    def __enter__(self) -> Camera:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the stream."""
        self.close()

    def _requests(self) -> Iterator[wire.PublishRequest]:
        while (frame := self._frames.get()) is not None:
            yield frame
