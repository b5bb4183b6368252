"""Records of a node, and frames of cameras within a latency bound and above an accuracy.

>>> client = tidegate.Client()                                                         # doctest: +SKIP
>>> client.publish("factory/7/alarm", b"stop")                                         # doctest: +SKIP
>>> capture = tidegate.VideoCapture("gate-north", latency_ms=100, min_accuracy=0.95)   # doctest: +SKIP
>>> ok, image = capture.read()                                                         # doctest: +SKIP

Records and status need paho-mqtt only; frames of cameras `pip install 'tidegate[frames]'`.
"""

from typing import TYPE_CHECKING

from . import aio
from ._address import DEFAULT_ADDRESS, DEFAULT_MQTT, Tls
from ._client import Client, Record, Subscription
from ._errors import FrameRefused, NodeGone, Refused
from ._status import DEFAULT_HTTP, metrics, status, tables
from ._version import __version__

if TYPE_CHECKING:
    from ._frames import (
        Bounds,
        Camera,
        CameraInfo,
        Drift,
        Drifted,
        Feasible,
        Frame,
        Infeasible,
        Policy,
        VideoCapture,
        cameras,
        replay,
    )

_OF_FRAMES = frozenset(
    [
        "Bounds",
        "Camera",
        "CameraInfo",
        "Drift",
        "Drifted",
        "Feasible",
        "Frame",
        "Infeasible",
        "Policy",
        "VideoCapture",
        "cameras",
        "replay",
    ]
)


def __getattr__(name: str) -> object:
    """What needs gRPC, when it is asked for."""
    if name in _OF_FRAMES:
        from . import _frames

        return getattr(_frames, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "DEFAULT_ADDRESS",
    "DEFAULT_HTTP",
    "DEFAULT_MQTT",
    "Bounds",
    "Camera",
    "CameraInfo",
    "Client",
    "Drift",
    "Drifted",
    "Feasible",
    "Frame",
    "FrameRefused",
    "Infeasible",
    "NodeGone",
    "Policy",
    "Record",
    "Refused",
    "Subscription",
    "Tls",
    "VideoCapture",
    "__version__",
    "aio",
    "cameras",
    "metrics",
    "replay",
    "status",
    "tables",
]
