"""Measures a ladder: bytes and accuracy of frames at scales and qualities, as the product encodes them (libjpeg-turbo,
by way of luminance and chroma planes). The generic ladder of the product was made by it.

usage: ladder.py DATA OUT.json [FRAMES]

Reads DATA/vision: photographs of coco_rep and frames of the clip of people, FRAMES of each (40). Accuracy is the F1 of
YOLOX-nano's boxes on the shrunk frame against those on the frame itself (IoU 0.5, whatever the class), over all boxes; its
lower end is the 2.5 % quantile of 1000 draws of frames. Needs numpy, onnxruntime, opencv-python-headless, PyTurboJPEG.
"""

import json
import math
import pathlib
import sys
import time

import cv2
import numpy
import turbojpeg

import detect

SCALES = (8, 6, 4, 3, 2)  # eighths
QUALITIES = (75, 60, 45, 30, 20, 12)
SOURCE_QUALITY = 95  # of frames that are no JPEG yet
DRAWS = 1000
SEED = 1


def boxes(model, jpeg, width):
    """Boxes on the scale of the source."""
    image = cv2.imdecode(numpy.frombuffer(jpeg, numpy.uint8), cv2.IMREAD_COLOR)
    return [box * (width / image.shape[1]) for box in model.find(image)]


def sources(vision, count):
    for file in sorted((vision / "coco_rep/images").glob("*.jpg"))[:count]:
        yield file.read_bytes()
    clip = cv2.VideoCapture(str(vision / "clips/one-by-one-person-detection.mp4"))
    every = int(clip.get(cv2.CAP_PROP_FRAME_COUNT)) // count
    for frame in range(count):
        clip.set(cv2.CAP_PROP_POS_FRAMES, frame * every)
        ok, image = clip.read()
        if ok:
            yield cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, SOURCE_QUALITY])[1].tobytes()


def fraction(eighths):
    part = math.gcd(eighths, 8)
    return eighths // part, 8 // part


def f1(counts):
    agree, found, truth = counts
    return 2 * agree / (found + truth) if found + truth else 1.0


def main():
    vision, out = pathlib.Path(sys.argv[1]) / "vision", pathlib.Path(sys.argv[2])
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 40
    codec = turbojpeg.TurboJPEG()
    model = detect.Strong(vision / "coco_rep/yolox_nano.onnx")
    measured = {(scale, quality): [] for scale in SCALES for quality in QUALITIES}
    frames = 0
    for source in sources(vision, count):
        width = codec.decode_header(source)[0]
        truth = boxes(model, source, width)
        if len(truth) == 0:
            continue
        frames += 1
        for (scale, quality), rows in measured.items():
            begun = time.process_time()
            jpeg = codec.scale_with_quality(source, scaling_factor=fraction(scale), quality=quality)
            cost = time.process_time() - begun
            found = boxes(model, jpeg, width)
            rows.append((detect.found_of(truth, found), len(found), len(truth), len(jpeg), cost))
        print(frames, len(truth), flush=True)
    random = numpy.random.default_rng(SEED)
    rungs = []
    for (scale, quality), rows in measured.items():
        rows = numpy.array(rows)
        draws = [f1(rows[random.integers(0, frames, frames), :3].sum(0)) for _ in range(DRAWS)]
        accuracy = round(f1(rows[:, :3].sum(0)), 4)
        low = round(min(accuracy, float(numpy.quantile(draws, 0.025))), 4)
        rungs.append({"eighths": scale, "quality": quality, "bytes": round(rows[:, 3].mean()),
                      "accuracy": accuracy, "accuracy_low": low, "cost_us": round(1e6 * rows[:, 4].mean())})
    rungs.sort(key=lambda rung: (rung["bytes"], -rung["accuracy"]))
    front, best = [], 0.0
    for rung in rungs:
        if rung["accuracy"] > best:
            best = rung["accuracy"]
            front.append(rung)
    total = int(sum(row[2] for row in measured[8, QUALITIES[0]]))
    words = f"{frames} frames with {total} boxes, photographs and an indoor clip; YOLOX-nano 416, IoU {detect.MATCH}"
    lines = ",\n".join("  " + json.dumps(rung) for rung in front)
    out.write_text(f'{{\n "version": 1,\n "is_generic": true,\n "measured": {json.dumps(words)},\n'
                   f' "rungs": [\n{lines}\n ]\n}}\n')


if __name__ == "__main__":
    main()
