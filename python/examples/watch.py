"""Watches a camera: prints what each frame is, and when the bounds cannot be kept.

usage: watch.py CAMERA [FRAMES] [ADDRESS]
"""

import sys

import tidegate


def main(camera: str, frames: str = "10", address: str = tidegate.DEFAULT_ADDRESS) -> None:
    """Prints so many frames."""
    bounds = {"latency_ms": 100, "min_accuracy": 0.95, "address": address}
    with tidegate.VideoCapture(camera, on_news=print, **bounds) as capture:  # type: ignore[arg-type]
        for _, frame in zip(range(int(frames)), capture, strict=False):
            print(f"{frame} accuracy {frame.accuracy:.3f}, {frame.age_ms:.0f} ms old when it left")


if __name__ == "__main__":
    main(*sys.argv[1:])
