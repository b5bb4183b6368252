"""A camera whose frames are published from here."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any

import grpc

from . import _frames_pb2 as wire
from ._address import DEFAULT_ADDRESS, Tls
from ._channel import channel, method, of_grpc
from ._errors import FrameRefused, NodeGone
from ._frame import Image, encode


class _Stream:
    """One stream to the node, until it breaks."""

    def __init__(self, to: Any) -> None:  # noqa: ANN401
        self._frames: queue.SimpleQueue[wire.PublishRequest | None] = queue.SimpleQueue()
        self._replies = method(to.stream_stream, "Publish", wire.PublishRequest, wire.PublishReply)(self._requests())

    def ask(self, request: wire.PublishRequest) -> Any:  # noqa: ANN401
        self._frames.put(request)
        return next(self._replies)

    def end(self) -> None:
        self._frames.put(None)

    def _requests(self) -> Iterator[wire.PublishRequest]:
        while (frame := self._frames.get()) is not None:
            yield frame


class Camera:
    """Publishes frames of a camera, one after the other. It comes back by itself when its node does."""

    def __init__(self, name: str, *, address: str = DEFAULT_ADDRESS, tls: Tls | None = None, quality: int = 90) -> None:
        """`quality` is that of JPEGs made here, 1 to 100."""
        self._name = name
        self._quality = quality
        self._address = address
        self._channel = channel(address, tls)
        self._lock = threading.Lock()
        self._stream: _Stream | None = None

    def publish(self, frame: Image | bytes, *, captured_unix_ns: int = 0, age_ms: float = 0.0) -> int:
        """Publishes pixels (as OpenCV has them) or a JPEG; answers the frame's number when it is taken.

        `captured_unix_ns` is when it was taken (0: now), `age_ms` how long that is ago by this machine's clock.
        Raises `FrameRefused` with the node's reason; `Refused` where this camera may not be published; `NodeGone` when
        the node is away: the next frame tries again, and this one may have been taken.
        """
        jpeg = frame if isinstance(frame, bytes) else encode(frame, self._quality)
        request = wire.PublishRequest(
            camera=self._name, jpeg=jpeg, captured_unix_ns=captured_unix_ns, age_us=round(1000 * age_ms)
        )
        with self._lock:
            self._stream = self._stream or _Stream(self._channel)
            try:
                reply = self._stream.ask(request)
            except (grpc.RpcError, StopIteration, ValueError) as error:
                self._stream.end()
                self._stream = None
                if isinstance(error, grpc.RpcError):
                    raise of_grpc(error, self._address) from error
                raise NodeGone(f"{self._address}: the stream ended") from error
        if reply.error:
            raise FrameRefused(reply.error)
        return int(reply.frame)

    def close(self) -> None:
        """Ends the stream."""
        if self._stream is not None:
            self._stream.end()
        self._channel.close()

    def __enter__(self) -> Camera:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the stream."""
        self.close()
