"""What travels: frames, bounds, and what is known of cameras."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _frames_pb2 as wire

Image = npt.NDArray[np.uint8]


class Policy(enum.Enum):
    """What happens to a frame for which both bounds cannot be kept."""

    DEGRADE = 0
    """What fits goes, below the accuracy asked for."""
    FLOOR = 1
    """The accuracy asked for goes, late."""
    SKIP = 2
    """Nothing goes."""


@dataclasses.dataclass(frozen=True)
class Bounds:
    """What a subscriber asks for: milliseconds from capture to arrival, and a part of 1."""

    latency_ms: int = 100
    min_accuracy: float = 0.0
    policy: Policy = Policy.DEGRADE

    def request(self, camera: str, start_ns: int | None = None, stop_ns: int | None = None) -> wire.SubscribeRequest:
        """As it is asked."""
        return wire.SubscribeRequest(
            camera=camera,
            start_unix_ns=start_ns,
            stop_unix_ns=stop_ns,
            latency_ms=self.latency_ms,
            accuracy=self.min_accuracy,
            policy=wire.Policy.Name(self.policy.value),
        )


@dataclasses.dataclass(frozen=True)
class Infeasible:
    """Both bounds cannot be kept: within the latency this accuracy could be, or the accuracy in this time."""

    accuracy: float
    latency_ms: int


@dataclasses.dataclass(frozen=True)
class Feasible:
    """The bounds can be kept again."""


class Frame:
    """A frame that came. `image` decodes it when it is asked for the first time."""

    def __init__(self, message: wire.Frame) -> None:
        """Of what came."""
        self._message = message

    @property
    def jpeg(self) -> bytes:
        """The JPEG."""
        return self._message.jpeg

    @functools.cached_property
    def image(self) -> Image:
        """The pixels: rows, columns, and blue, green and red as in OpenCV; no third axis for a gray one."""
        return decode(self._message.jpeg)

    @property
    def camera(self) -> str:
        """Whose it is."""
        return self._message.camera

    @property
    def number(self) -> int:
        """Its number; later frames have larger ones."""
        return self._message.frame

    @property
    def captured_at(self) -> datetime.datetime:
        """When it was taken, by its camera's clock."""
        return datetime.datetime.fromtimestamp(self._message.captured_unix_ns / 1e9, datetime.timezone.utc)

    @property
    def captured_unix_ns(self) -> int:
        """The same, in nanoseconds since 1970."""
        return self._message.captured_unix_ns

    @property
    def age_ms(self) -> float:
        """From capture until it left its camera's node."""
        return self._message.age_us / 1000

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        return self._message.width, self._message.height

    @property
    def source_size(self) -> tuple[int, int]:
        """Those of what the camera took: coordinates found on this frame scale by them."""
        return self._message.source_width, self._message.source_height

    @property
    def is_source(self) -> bool:
        """Whether it is what the camera took, unchanged."""
        return self._message.quality == 0

    @property
    def accuracy(self) -> float:
        """Of a detector on it, over that on the source, by the camera's ladder."""
        return self._message.accuracy

    @property
    def accuracy_low(self) -> float:
        """The lower end of its 95 % interval."""
        return self._message.accuracy_low

    @property
    def skipped(self) -> int:
        """Frames since the last one that we were too slow for."""
        return self._message.skipped

    @property
    def is_late(self) -> bool:
        """It came after its bound: only where `Policy.FLOOR` was asked for."""
        return self._message.is_late

    def __repr__(self) -> str:
        """For people."""
        width, height = self.size
        return f"Frame({self.camera!r}, {self.number}, {width}x{height}, {len(self.jpeg)} bytes)"


@dataclasses.dataclass(frozen=True)
class CameraInfo:
    """What a node knows of a camera."""

    name: str
    node: str
    is_online: bool
    size: tuple[int, int]
    frames_per_second: float
    newest_unix_ns: int
    oldest_unix_ns: int
    ladder_is_generic: bool

    @staticmethod
    def of(message: wire.CameraInfo) -> CameraInfo:
        """Of what came."""
        return CameraInfo(
            name=message.name,
            node=message.node,
            is_online=message.is_online,
            size=(message.width, message.height),
            frames_per_second=message.frames_per_second,
            newest_unix_ns=message.newest_unix_ns,
            oldest_unix_ns=message.oldest_unix_ns,
            ladder_is_generic=message.ladder_is_generic,
        )


def news(reply: wire.SubscribeReply) -> Frame | Infeasible | Feasible | None:
    """What a reply says; nothing for the first one, which only names the subscription."""
    kind = reply.WhichOneof("reply")
    if kind == "frame":
        return Frame(reply.frame)
    if kind == "infeasible":
        return Infeasible(reply.infeasible.accuracy, reply.infeasible.latency_ms)
    return Feasible() if kind == "feasible" else None


def _opencv() -> Any:  # noqa: ANN401
    try:
        import cv2
    except ImportError:
        return None
    return cv2


def _pillow() -> Any:  # noqa: ANN401
    try:
        import PIL.Image
    except ImportError as error:
        text = "pixels need a JPEG library: pip install 'tidegate[opencv]' or 'tidegate[pillow]'"
        raise ImportError(text) from error
    return PIL.Image


def decode(jpeg: bytes) -> Image:
    """The pixels of a JPEG, by OpenCV or Pillow, whichever is there."""
    if cv2 := _opencv():
        image = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_UNCHANGED)
        if image is None:
            raise ValueError("the JPEG cannot be decoded")
        return np.asarray(image, np.uint8)
    import io

    pixels = np.asarray(_pillow().open(io.BytesIO(jpeg)), np.uint8)
    return pixels if pixels.ndim == 2 else np.ascontiguousarray(pixels[:, :, ::-1])


def encode(image: Image, quality: int) -> bytes:
    """A JPEG of pixels as `decode` answers them."""
    if image.dtype != np.uint8 or image.ndim not in (2, 3) or (image.ndim == 3 and image.shape[2] != 3):
        raise ValueError(f"an image is rows x columns (x 3) of uint8, not {image.shape} of {image.dtype}")
    if cv2 := _opencv():
        return bytes(cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, quality])[1])
    import io

    into = io.BytesIO()
    pixels = image if image.ndim == 2 else image[:, :, ::-1]
    _pillow().fromarray(pixels).save(into, "JPEG", quality=quality)
    return into.getvalue()
