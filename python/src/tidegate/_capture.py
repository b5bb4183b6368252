"""Subscriptions, with the habits of OpenCV's capture."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc

from . import _frames_pb2 as wire
from ._address import DEFAULT_ADDRESS, Tls
from ._channel import channel, method, of_grpc
from ._errors import NodeGone, Refused
from ._frame import Bounds, CameraInfo, Feasible, Frame, Image, Infeasible, Policy, news

_WAITS = (0.1, 2.0)
"""First and longest wait before a subscription is tried again, seconds."""
_AGAIN = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.UNKNOWN)
"""A node that is gone, or not there yet: it comes back. A stream that is cut off is `UNKNOWN`."""


class VideoCapture:
    """A camera's frames within bounds, the newest first. It comes back by itself when its node does.

    A thread takes what comes, so that `read` answers with the newest frame however slow its caller is.
    """

    def __init__(
        self,
        camera: str,
        *,
        latency_ms: int = 100,
        min_accuracy: float = 0.0,
        policy: Policy = Policy.DEGRADE,
        address: str = DEFAULT_ADDRESS,
        tls: Tls | None = None,
        on_news: Callable[[Infeasible | Feasible], None] | None = None,
        timeout: float = 10.0,
    ) -> None:
        """Subscribes. `on_news` hears, in another thread, when the bounds cannot be kept, and when they can.

        For `timeout` seconds nobody need answer, or know the camera; then `read` says why. A node that was there once
        may be away for as long as it likes.
        """
        self._timeout = timeout
        self._meta: Frame | None = None
        self._request = Bounds(latency_ms, min_accuracy, policy).request(camera)
        self._address = address
        self._channel = channel(address, tls)
        self._on_news = on_news
        self._changed = threading.Condition()
        self._newest: Frame | None = None
        self._skipped = 0
        self._error: Refused | NodeGone | None = None
        self._is_open = True
        self._call: Any = None
        self._thread = threading.Thread(target=self._run, name=f"tidegate {camera}", daemon=True)
        self._thread.start()

    def read(self, timeout: float | None = None) -> tuple[bool, Image | None]:
        """The newest frame that was not read yet, as OpenCV does: waits for one, at most `timeout` seconds.

        Answers `(False, None)` when none came, or the capture is closed. `meta` tells about the frame.
        """
        frame = self.frame(timeout)
        return (False, None) if frame is None else (True, frame.image)

    def frame(self, timeout: float | None = None) -> Frame | None:
        """The same, as it came. Raises `Refused` with the node's reason, `NodeGone` where none answers."""
        with self._changed:
            self._changed.wait_for(lambda: self._newest or self._error or not self._is_open, timeout)
            frame, self._newest = self._newest, None
            if frame is None and self._error is not None:
                raise self._error
        self._meta = frame or self._meta
        return frame

    @property
    def meta(self) -> Frame:
        """The frame that `read` answered last. Raises `ValueError` before there was one."""
        if self._meta is None:
            raise ValueError("no frame was read yet: meta tells about the last one")
        return self._meta

    def __iter__(self) -> Iterator[Frame]:
        """Frames until the capture is closed."""
        while (frame := self.frame()) is not None:
            yield frame

    @property
    def skipped(self) -> int:
        """Frames that came and were not read before a newer one did, here or at the node."""
        return self._skipped

    def isOpened(self) -> bool:  # noqa: N802 (OpenCV's name)
        """Whether frames may still come."""
        return self._is_open and self._error is None

    def release(self) -> None:
        """Ends the subscription."""
        with self._changed:
            self._is_open = False
            self._changed.notify_all()
            call = self._call
        if call is not None:
            call.cancel()
        self._channel.close()

    def __enter__(self) -> VideoCapture:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the subscription."""
        self.release()

    def _run(self) -> None:
        wait = _WAITS[0]
        given_up_at = time.monotonic() + self._timeout
        is_known = False
        ask = method(self._channel.unary_stream, "Subscribe", wire.SubscribeRequest, wire.SubscribeReply)
        while self._is_open:
            try:
                # Until it was there once, what is wrong with the way to it is to be heard.
                self._call = ask(self._request, wait_for_ready=is_known)
                for reply in self._call:
                    wait, is_known = _WAITS[0], True
                    self._take(news(reply))
            except (grpc.RpcError, ValueError) as error:
                # A channel that is closed says `ValueError`.
                if isinstance(error, grpc.RpcError) and self._is_open:
                    may_come = error.code() in _AGAIN and (is_known or time.monotonic() < given_up_at)
                    if not may_come:
                        self._fail(error)
                        return
            with self._changed:
                self._changed.wait_for(lambda: not self._is_open, wait)
            wait = min(2 * wait, _WAITS[1])

    def _fail(self, error: grpc.RpcError) -> None:
        said = of_grpc(error, self._address)
        if error.code() is grpc.StatusCode.NOT_FOUND:
            said = Refused(f"{said} at {self._address}; {self._others()}")
        with self._changed:
            self._error = said
            self._changed.notify_all()

    def _others(self) -> str:
        """The cameras that are there, for somebody who has mistyped one."""
        ask = method(self._channel.unary_unary, "GetCameraInfo", wire.CameraInfoRequest, wire.CameraInfoReply)
        try:
            names = sorted(camera.name for camera in ask(wire.CameraInfoRequest(), timeout=self._timeout).cameras)
        except (grpc.RpcError, ValueError):
            return "which cameras there are it does not say"
        return f"there are: {', '.join(names)}" if names else "there are no cameras"

    def _take(self, reply: Frame | Infeasible | Feasible | None) -> None:
        if isinstance(reply, Frame):
            with self._changed:
                self._skipped += reply.skipped + (self._newest is not None)
                self._newest = reply
                self._changed.notify_all()
        elif reply is not None and self._on_news is not None:
            self._on_news(reply)


def replay(
    camera: str,
    start_ns: int | None = 0,
    stop_ns: int | None = None,
    *,
    min_accuracy: float = 1.0,
    address: str = DEFAULT_ADDRESS,
    tls: Tls | None = None,
    timeout: float | None = None,
) -> Iterator[Frame]:
    """Every stored frame from one time to another, nanoseconds since 1970, in their order.

    With an accuracy of 1 they come as they were taken. `timeout` is for all of them, seconds.
    Raises `Refused` or `NodeGone`.
    """
    request = Bounds(min_accuracy=min_accuracy).request(camera, start_ns, stop_ns)
    with channel(address, tls) as to:
        ask = method(to.unary_stream, "Subscribe", wire.SubscribeRequest, wire.SubscribeReply)
        try:
            for reply in ask(request, timeout=timeout):
                frame = news(reply)
                if isinstance(frame, Frame):
                    yield frame
        except grpc.RpcError as error:
            raise of_grpc(error, address) from error


def cameras(*, address: str = DEFAULT_ADDRESS, tls: Tls | None = None) -> list[CameraInfo]:
    """The cameras that we may see at a node. Raises `Refused` or `NodeGone`."""
    with channel(address, tls) as to:
        ask = method(to.unary_unary, "GetCameraInfo", wire.CameraInfoRequest, wire.CameraInfoReply)
        try:
            return [CameraInfo.of(camera) for camera in ask(wire.CameraInfoRequest()).cameras]
        except grpc.RpcError as error:
            raise of_grpc(error, address) from error
