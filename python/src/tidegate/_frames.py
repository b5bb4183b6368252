"""All that needs gRPC: frames of cameras. `tidegate` brings it when it is asked for."""

try:
    from ._capture import VideoCapture, cameras, replay
    from ._drift import Drift, Drifted
    from ._frame import Bounds, CameraInfo, Feasible, Frame, Infeasible, Policy
    from ._publish import Camera
except ImportError as error:
    raise ImportError(f"frames of cameras need more packages ({error}): pip install 'tidegate[frames]'") from error

__all__ = [
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
