"""Detectors, and the child of `tidegate calibrate frames`: `python -m tidegate.detect DETECTOR`.

DETECTOR is MODEL.onnx or python:MODULE:CALLABLE.

On standard input come images, each as the length of its bytes (4 bytes, the highest first) and a JPEG. Each is
answered with a line of JSON on standard output, `{"boxes": [[left, top, width, height, label], ...]}` or
`{"error": "..."}`; the first line says who answers, `{"name": ..., "sha256": ...}`.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
import os
import pathlib
import struct
import sys
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO, TextIO

import numpy as np
import numpy.typing as npt

from ._frame import Image, decode

Box = Sequence[Any]
"""Left, top, width and height in pixels, and a label where there is one."""
Detector = Callable[[Image], Sequence[Box]]
"""Answers what is on an image: rows, columns, and blue, green and red."""

Floats = npt.NDArray[np.floating[Any]]

CONFIDENCE = 0.4
"""Of a box that counts, for models."""
_APART = 0.45
"""Boxes of one label that share more are one thing."""
_MISSING = "models need onnxruntime: pip install 'tidegate[onnx]'"


class Model:
    """An ONNX model with outputs like YOLOX, YOLOv8 or FastestDet: which one is seen by their shape."""

    def __init__(self, path: str | os.PathLike[str], *, threads: int = 1) -> None:
        """Loads it. `threads` of the processor are used for an image."""
        try:
            import onnxruntime
        except ImportError as error:
            raise ImportError(_MISSING) from error
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = threads
        self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        entry = self._session.get_inputs()[0]
        self._name = entry.name
        sides = [side for side in entry.shape[2:] if isinstance(side, int)]
        self._side = sides[0] if sides else 640
        probe = np.zeros((1, 3, self._side, self._side), np.float32)
        shape = self._session.run(None, {self._name: probe})[0].shape
        cells = sum((self._side // stride) ** 2 for stride in (8, 16, 32))
        if len(shape) == 4:
            self._find = self._fastest
        elif len(shape) == 3 and shape[1] == cells:
            self._find = self._yolox
        elif len(shape) == 3 and shape[2] == cells:
            self._find = self._yolov8
        else:
            raise ValueError(
                f"{path}: outputs of shape {shape} are like none of YOLOX, YOLOv8 and FastestDet: "
                "wrap the model in a function, python:MODULE:CALLABLE"
            )

    def __call__(self, image: Image) -> list[Box]:
        """What is on an image."""
        if image.ndim == 2:
            image = np.repeat(image[:, :, None], 3, 2)
        return self._find(image)

    def _run(self, tensor: npt.NDArray[np.uint8], scale: float) -> Floats:
        batch = tensor.transpose(2, 0, 1)[None].astype(np.float32) * np.float32(scale)
        return np.asarray(self._session.run(None, {self._name: batch})[0][0])

    def _padded(self, image: Image) -> tuple[npt.NDArray[np.uint8], float]:
        """In the upper left of a square."""
        height, width = image.shape[:2]
        ratio = min(self._side / height, self._side / width)
        size = (round(width * ratio), round(height * ratio))
        square = np.full((self._side, self._side, 3), 114, np.uint8)
        square[: size[1], : size[0]] = _resized(image, size)
        return square, ratio

    def _yolox(self, image: Image) -> list[Box]:
        square, ratio = self._padded(image)
        found = self._run(square, 1)
        grids, strides = [], []
        for stride in (8, 16, 32):
            side = np.arange(self._side // stride)
            x, y = np.meshgrid(side, side)
            grids.append(np.stack((x, y), 2).reshape(-1, 2))
            strides.append(np.full((x.size, 1), stride))
        stride_of = np.concatenate(strides)
        centres = (found[:, :2] + np.concatenate(grids)) * stride_of / ratio
        sizes = np.exp(found[:, 2:4]) * stride_of / ratio
        return _kept(centres, sizes, found[:, 4:5] * found[:, 5:])

    def _yolov8(self, image: Image) -> list[Box]:
        square, ratio = self._padded(image)
        found = self._run(square[:, :, ::-1], 1 / 255).T
        return _kept(found[:, :2] / ratio, found[:, 2:4] / ratio, found[:, 4:])

    def _fastest(self, image: Image) -> list[Box]:
        height, width = image.shape[:2]
        found = self._run(_resized(image, (self._side, self._side)), 1 / 255)
        _, rows, columns = found.shape
        found = found.reshape(found.shape[0], -1).T
        x, y = np.meshgrid(np.arange(columns), np.arange(rows))
        scale = np.array([width, height])
        place = np.stack((x.ravel(), y.ravel()), 1)
        centres = (np.tanh(found[:, 1:3]) + place) / np.array([columns, rows]) * scale
        sizes = scale / (1 + np.exp(-found[:, 3:5]))
        return _kept(centres, sizes, found[:, :1] ** 0.6 * found[:, 5:] ** 0.4)


def overlaps(box: Floats, others: Floats) -> Floats:
    """Intersection over union of a box with each of others, all as left, top, width, height."""
    low = np.maximum(box[:2], others[:, :2])
    high = np.minimum(box[:2] + box[2:4], others[:, :2] + others[:, 2:4])
    both = np.prod(np.maximum(high - low, 0), 1)
    either = np.prod(box[2:4]) + np.prod(others[:, 2:4], 1) - both
    return np.asarray(both / np.maximum(either, 1e-9))


def _kept(centres: Floats, sizes: Floats, scores: Floats) -> list[Box]:
    """Boxes that are sure enough, each thing once."""
    labels, best = scores.argmax(1), scores.max(1)
    wanted = best > CONFIDENCE
    boxes = np.concatenate((centres - sizes / 2, sizes), 1)[wanted]
    labels, best = labels[wanted], best[wanted]
    kept: list[Box] = []
    left = np.argsort(-best)
    while len(left):
        first, left = left[0], left[1:]
        kept.append([*(float(part) for part in boxes[first]), int(labels[first])])
        is_same = (overlaps(boxes[first], boxes[left]) > _APART) & (labels[left] == labels[first])
        left = left[~is_same]
    return kept


def _resized(image: Image, size: tuple[int, int]) -> npt.NDArray[np.uint8]:
    """By OpenCV or Pillow, whichever is there; `size` is columns and rows."""
    from ._frame import _opencv, _pillow

    if cv2 := _opencv():
        return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_LINEAR), np.uint8)
    pillow = _pillow()
    return np.asarray(pillow.fromarray(image).resize(size, pillow.Resampling.BILINEAR), np.uint8)


def load(spec: str) -> tuple[Detector, str, str]:
    """The detector of a command line, its name and the SHA-256 of its file.

    Raises `ValueError` for what is none, `ImportError` for what is missing.
    """
    if spec.startswith("python:"):
        module, _, name = spec.removeprefix("python:").partition(":")
        sys.path.insert(0, os.getcwd())
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part, None)
        if not callable(found):
            raise ValueError(f"module {module} has no callable {name!r}")
        file = inspect.getsourcefile(inspect.unwrap(found) if inspect.isroutine(found) else type(found))
        digest = hashlib.sha256(pathlib.Path(file).read_bytes() if file else spec.encode()).hexdigest()
        return found, f"{module}:{name}", digest
    if not spec.lower().endswith(".onnx"):
        raise ValueError(f"{spec} is no MODEL.onnx and no python:MODULE:CALLABLE")
    path = pathlib.Path(spec)
    return Model(path), path.name, hashlib.sha256(path.read_bytes()).hexdigest()


def serve(find: Detector, images: BinaryIO, answers: TextIO) -> None:
    """Answers images until there are no more."""
    while len(head := images.read(4)) == 4:
        jpeg = images.read(struct.unpack(">I", head)[0])
        try:
            boxes = [[*map(float, box[:4]), *(str(label) for label in box[4:5])] for box in find(decode(jpeg))]
            answer: dict[str, Any] = {"boxes": boxes}
        except Exception as error:  # whatever a detector raises is an answer
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


def main() -> int:
    """The child."""
    answers = sys.stdout
    # What a detector prints is not for the program.
    sys.stdout = sys.stderr
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        find, name, digest = load(sys.argv[1])
    except Exception as error:  # told to who asked
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}), file=answers, flush=True)
        return 1
    print(json.dumps({"name": name, "sha256": digest}), file=answers, flush=True)
    serve(find, sys.stdin.buffer, answers)
    return 0
