"""What leaving out frames that show nothing new costs: the product's `differencing` on films of a fixed camera.

usage: differencing.py DATA MODEL [FRAMES]

Each film of DATA/vision/clips is played at its own rate, FRAMES frames of it (400). A frame that differs from the last
one sent in no more than a part of its pixels is not sent, for a second at most, as `crates/frames/src/knobs.rs` and
`tidegate/src/services/cameras/sender.rs` have it: at an eighth of the size, by more than 12 of 255. What a detector
found on the last one sent stands for it. Accuracy is the F1 of these boxes against those on the frame itself.
"""

import pathlib
import sys

import cv2
import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "python/src"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from paper import agree  # noqa: E402

from tidegate import detect  # noqa: E402

PARTS = (0.0, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
CHANGED = 12
REFRESH_S = 1.0


def play(shown, boxes, sizes, rate, part):
    """Frames sent, bytes sent, and boxes that agree, that were found, and that are there."""
    sent = size = both = found = truth = 0
    last = None
    for at, outline in enumerate(shown):
        is_recent = last is not None and (at - last) / rate < REFRESH_S
        if not is_recent or (cv2.absdiff(outline, shown[last]) > CHANGED).mean() > part:
            last, sent, size = at, sent + 1, size + sizes[at]
        both += agree(boxes[at], boxes[last])
        found, truth = found + len(boxes[last]), truth + len(boxes[at])
    return sent, size, both, found, truth


def main(data, model, count=400):
    find = detect.Model(model)
    print(f"{'film':<32}{'part':>7}{'sent':>8}{'bytes':>8}{'accuracy':>10}")
    for path in sorted((pathlib.Path(data) / "vision/clips").glob("*.mp4")):
        clip = cv2.VideoCapture(str(path))
        rate = clip.get(cv2.CAP_PROP_FPS)
        shown, boxes, sizes = [], [], []
        while len(shown) < int(count):
            ok, image = clip.read()
            if not ok:
                break
            gray = cv2.cvtColor(image, cv2.COLOR_BGR2GRAY)
            small = (image.shape[1] // 8, image.shape[0] // 8)
            shown.append(cv2.resize(gray, small, interpolation=cv2.INTER_AREA))
            sizes.append(len(cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 75])[1]))
            boxes.append([list(numpy.array(box[:4])) for box in find(image)])
        for part in (None, *PARTS):
            asked = -1.0 if part is None else part
            sent, size, both, found, truth = play(shown, boxes, sizes, rate, asked)
            name = "all" if part is None else f"{part:.3f}"
            accuracy = 2 * both / max(found + truth, 1)
            print(f"{path.stem:<32}{name:>7}{sent / len(shown):>8.3f}{size / sum(sizes):>8.3f}{accuracy:>10.3f}", flush=True)
        print(f"{path.stem}: {len(shown)} frames at {rate:g} a second, {sum(map(len, boxes))} boxes", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
