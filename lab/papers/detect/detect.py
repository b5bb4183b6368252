"""Detections of the road clip, once: what a strong detector sees in each frame at full and at half resolution, and a
weak one at full. `lab bench adapt-traffic` replays them, for no small machine runs the detectors at the clip's rate.

usage: detect.py DATA OUT [FRAMES]

Reads DATA/vision (car-detection.mp4, yolox_nano.onnx, FastestDet.onnx); writes OUT/full and OUT/half (JPEG, NNN.jpg)
and OUT/detections.json. The camera looks straight down, and models that know cars from the side take these for
telephones: so any box counts, whatever its class. What the strong detector finds at full resolution with more than
0.5 (the paper's threshold) is the truth; others find what overlaps a box of it by half, each box once.
"""

import json
import pathlib
import sys

import cv2
import numpy
import onnxruntime

CONFIDENCE = 0.5
APART = 0.45  # boxes that share more are one vehicle
MATCH = 0.5  # boxes that share as much are the same
QUALITY = 80  # of JPEG


def session(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


class Strong:
    """YOLOX-nano."""

    SIDE = 416

    def __init__(self, path):
        self.model = session(path)
        self.name = self.model.get_inputs()[0].name
        grids, strides = [], []
        for stride in (8, 16, 32):
            count = self.SIDE // stride
            x, y = numpy.meshgrid(numpy.arange(count), numpy.arange(count))
            grids.append(numpy.stack((x, y), 2).reshape(-1, 2))
            strides.append(numpy.full((count * count, 1), stride))
        self.grid = numpy.concatenate(grids)
        self.stride = numpy.concatenate(strides)

    def find(self, image):
        height, width = image.shape[:2]
        ratio = min(self.SIDE / height, self.SIDE / width)
        size = (round(width * ratio), round(height * ratio))
        padded = numpy.full((self.SIDE, self.SIDE, 3), 114, numpy.uint8)
        padded[: size[1], : size[0]] = cv2.resize(image, size, interpolation=cv2.INTER_LINEAR)
        tensor = padded.transpose(2, 0, 1)[None].astype(numpy.float32)
        found = self.model.run(None, {self.name: tensor})[0][0]
        centres = (found[:, :2] + self.grid) * self.stride / ratio
        sizes = numpy.exp(found[:, 2:4]) * self.stride / ratio
        scores = found[:, 4:5] * found[:, 5:]
        return kept(centres - sizes / 2, sizes, scores)


class Weak:
    """FastestDet."""

    SIDE = 352

    def __init__(self, path):
        self.model = session(path)
        self.name = self.model.get_inputs()[0].name

    def find(self, image):
        height, width = image.shape[:2]
        resized = cv2.resize(image, (self.SIDE, self.SIDE), interpolation=cv2.INTER_AREA)
        tensor = resized.transpose(2, 0, 1)[None].astype(numpy.float32) / 255
        found = self.model.run(None, {self.name: tensor})[0][0]
        _, rows, columns = found.shape
        found = found.reshape(found.shape[0], -1).T
        x, y = numpy.meshgrid(numpy.arange(columns), numpy.arange(rows))
        place = numpy.stack((x.ravel(), y.ravel()), 1)
        scale = numpy.array([width, height])
        cells = numpy.array([columns, rows])
        centres = (numpy.tanh(found[:, 1:3]) + place) / cells * scale
        sizes = scale / (1 + numpy.exp(-found[:, 3:5]))
        scores = numpy.power(found[:, :1], 0.6) * numpy.power(found[:, 5:], 0.4)
        return kept(centres - sizes / 2, sizes, scores)


def kept(corners, sizes, scores):
    """Boxes (x, y, width, height) that are sure enough, each vehicle once."""
    best = scores.max(1)
    wanted = best > CONFIDENCE
    boxes, best = numpy.concatenate((corners, sizes), 1)[wanted], best[wanted]
    if not len(boxes):
        return []
    places = cv2.dnn.NMSBoxes(boxes.tolist(), best.tolist(), CONFIDENCE, APART)
    return [boxes[place] for place in numpy.ravel(places)]


def share(one, other):
    """Intersection over union."""
    low = numpy.maximum(one[:2], other[:2])
    high = numpy.minimum(one[:2] + one[2:], other[:2] + other[2:])
    both = numpy.prod(numpy.maximum(high - low, 0))
    return both / (numpy.prod(one[2:]) + numpy.prod(other[2:]) - both)


def found_of(truth, boxes):
    """How many boxes of the truth are among these."""
    left, count = list(boxes), 0
    for box in truth:
        shares = [share(box, other) for other in left]
        if shares and max(shares) >= MATCH:
            left.pop(int(numpy.argmax(shares)))
            count += 1
    return count


def main():
    data, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    most = int(sys.argv[3]) if len(sys.argv) > 3 else 1 << 30
    strong = Strong(data / "vision/coco_rep/yolox_nano.onnx")
    weak = Weak(data / "vision/FastestDet.onnx")
    clip = cv2.VideoCapture(str(data / "vision/clips/car-detection.mp4"))
    rate = clip.get(cv2.CAP_PROP_FPS)
    for folder in ("full", "half"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    found = {"frames_per_second": rate, "strong_full": [], "strong_half": [], "weak_full": []}
    while len(found["weak_full"]) < most:
        is_there, frame = clip.read()
        if not is_there:
            break
        half = cv2.resize(frame, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)
        number = len(found["weak_full"])
        seen = []
        for folder, image in (("full", frame), ("half", half)):
            path = out / folder / f"{number:03}.jpg"
            cv2.imwrite(str(path), image, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
            # What a detector gets is what was sent.
            seen.append(cv2.imread(str(path)))
        truth = strong.find(seen[0])
        found["strong_full"].append(len(truth))
        found["strong_half"].append(found_of(truth, [box * 2 for box in strong.find(seen[1])]))
        found["weak_full"].append(found_of(truth, weak.find(seen[0])))
    (out / "detections.json").write_text(json.dumps(found) + "\n")
    sums = {name: sum(counts) for name, counts in found.items() if isinstance(counts, list)}
    print(f"{len(found['weak_full'])} frames at {rate:g}/s: {sums}")


if __name__ == "__main__":
    main()
