"""Records of a node, and frames of cameras within a latency bound and above an accuracy.

>>> client = tidegate.Client()                                                         # doctest: +SKIP
>>> client.publish("factory/7/alarm", b"stop")                                         # doctest: +SKIP
>>> capture = tidegate.VideoCapture("gate-north", latency_ms=100, min_accuracy=0.95)   # doctest: +SKIP
>>> ok, image = capture.read()                                                         # doctest: +SKIP
"""

from . import aio
from ._capture import VideoCapture, cameras, replay
from ._client import Client, Record, Subscription
from ._connection import DEFAULT_ADDRESS, Tls
from ._drift import Drift, Drifted
from ._errors import FrameRefused, NodeGone, Refused
from ._frame import Bounds, CameraInfo, Feasible, Frame, Infeasible, Policy
from ._publish import Camera
from ._status import DEFAULT_HTTP, metrics, status, tables

__all__ = [
    "DEFAULT_ADDRESS",
    "DEFAULT_HTTP",
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
    "aio",
    "cameras",
    "metrics",
    "replay",
    "status",
    "tables",
]
