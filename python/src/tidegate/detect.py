"""Detectors, and the child of `tidegate calibrate frames`: `python -m tidegate.detect DETECTOR`."""

import sys

from ._detect import CONFIDENCE, Box, Detector, Model, load, main, overlaps, serve

__all__ = ["CONFIDENCE", "Box", "Detector", "Model", "load", "overlaps", "serve"]

if __name__ == "__main__":
    sys.exit(main())
