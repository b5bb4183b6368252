"""Frames of cameras within a latency bound and above an accuracy: docs/CAMERAS.md of Tidegate.

>>> capture = tidegate.VideoCapture("gate-north", latency_ms=100, min_accuracy=0.95)   # doctest: +SKIP
>>> ok, image = capture.read()                                                         # doctest: +SKIP
"""

from . import aio
from ._capture import VideoCapture, cameras, replay
from ._connection import DEFAULT_ADDRESS, Tls
from ._frame import Bounds, CameraInfo, Feasible, Frame, Infeasible, Policy
from ._publish import Camera, FrameRefused

__all__ = [
    "DEFAULT_ADDRESS",
    "Bounds",
    "Camera",
    "CameraInfo",
    "Feasible",
    "Frame",
    "FrameRefused",
    "Infeasible",
    "Policy",
    "Tls",
    "VideoCapture",
    "aio",
    "cameras",
    "replay",
]
