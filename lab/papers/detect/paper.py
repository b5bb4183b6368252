"""The five knobs of Mez (papers/mez.txt, §III-A) on PNG, for comparison: bytes and accuracy of their combinations.

usage: paper.py frames DATA FOLDER [N]       N frames of each source (16) as JPEGs, the clips' follow each other;
                                               and FOLDER/../1080p.jpg
       paper.py measure FOLDER MODEL OUT.json

Knobs: resolution (8, 6, 4, 3, 2 eighths), colour space (BGR, HSV, LAB, LUV; gray is on neither side), blur (boxes of 5, 8,
10, 15), artifact removal (what moves before a black background, or its contours), frame differencing (a frame that
differs from the last one sent in no more than a part of its pixels is dropped: no bytes, and the old boxes stand).
Not the whole product: each resolution with each colour space, with each blur and with each artifact removal;
differencing with all of them. Accuracy as `tidegate calibrate frames` has it. Needs the package's `onnx` extra.
"""

import json
import pathlib
import sys

import cv2
import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python/src"))
from tidegate import detect  # noqa: E402

EIGHTHS = (8, 6, 4, 3, 2)
COLOURS = {
    "bgr": None,
    "hsv": (cv2.COLOR_BGR2HSV, cv2.COLOR_HSV2BGR),
    "lab": (cv2.COLOR_BGR2LAB, cv2.COLOR_LAB2BGR),
    "luv": (cv2.COLOR_BGR2LUV, cv2.COLOR_LUV2BGR),
}
BLURS = (5, 8, 10, 15)
DIFFERENCES = (None, 0.0, 0.02, 0.18, 0.36, 0.72)
CHANGED = 25  # of 255: a pixel that differs by more has changed
SAME = 0.5  # boxes that overlap as much are the same
SOURCE_QUALITY = 95  # of frames of clips, which are no JPEGs yet
LARGE_QUALITY = 90  # about half a megabyte
CLIP_RATE = 5  # frames a second, as in the paper


def frames(vision, folder, count):
    folder.mkdir(parents=True, exist_ok=True)
    for file in sorted((vision / "coco_rep/images").glob("*.jpg"))[:count]:
        (folder / f"photo-{file.name}").write_bytes(file.read_bytes())
    for name in ("one-by-one-person-detection", "car-detection"):
        clip = cv2.VideoCapture(str(vision / f"clips/{name}.mp4"))
        step = clip.get(cv2.CAP_PROP_FPS) / CLIP_RATE
        begin = clip.get(cv2.CAP_PROP_FRAME_COUNT) / 4
        for at in range(count):
            clip.set(cv2.CAP_PROP_POS_FRAMES, round(begin + at * step))
            ok, image = clip.read()
            if ok:
                path = folder / f"{name}-{at:04}.jpg"
                cv2.imwrite(str(path), image, [cv2.IMWRITE_JPEG_QUALITY, SOURCE_QUALITY])


def large(vision, file):
    """A frame of 1920 x 1080 with as much to see as a camera's: nine photographs."""
    photos = [cv2.imread(str(path)) for path in sorted((vision / "coco_rep/images").glob("*.jpg"))]
    photos = [photo[:360] for photo in photos if photo.shape[1] == 640 and photo.shape[0] >= 360][:9]
    rows = [cv2.hconcat(photos[at : at + 3]) for at in (0, 3, 6)]
    cv2.imwrite(str(file), cv2.vconcat(rows), [cv2.IMWRITE_JPEG_QUALITY, LARGE_QUALITY])


def settings():
    for eighths in EIGHTHS:
        yield from ((eighths, colour, 0, "none") for colour in COLOURS)
        yield from ((eighths, "bgr", blur, "none") for blur in BLURS)
        yield from ((eighths, "bgr", 0, artifacts) for artifacts in ("background", "contours"))


def moving(image, before):
    """Where it differs from the frame before, and the outlines of that."""
    gray = [cv2.cvtColor(one, cv2.COLOR_BGR2GRAY) for one in (image, before)]
    mask = cv2.threshold(cv2.absdiff(*gray), CHANGED, 255, cv2.THRESH_BINARY)[1]
    mask = cv2.dilate(mask, None, iterations=3)
    return mask, cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)[0]


def encoded(image, before, setting):
    """The PNG's bytes, and the image that is decoded from it."""
    eighths, colour, blur, artifacts = setting
    if artifacts != "none" and before is not None:
        mask, contours = moving(image, before)
        if artifacts == "background":
            image = cv2.bitwise_and(image, image, mask=mask)
        else:
            image = cv2.drawContours(numpy.zeros_like(image), contours, -1, (255, 255, 255), 2)
    if eighths < 8:
        image = cv2.resize(image, None, fx=eighths / 8, fy=eighths / 8, interpolation=cv2.INTER_AREA)
    if blur:
        image = cv2.blur(image, (blur, blur))
    ways = COLOURS[colour]
    sent = image if ways is None else cv2.cvtColor(image, ways[0])
    png = cv2.imencode(".png", sent)[1]
    return len(png), image if ways is None else cv2.cvtColor(sent, ways[1])


def agree(truth, found):
    """How many boxes are on both; each counts once."""
    left, both = [numpy.array(box[:4]) for box in found], 0
    for box in truth:
        shares = detect.overlaps(numpy.array(box[:4]), numpy.array(left)) if left else numpy.zeros(1)
        if shares.max() >= SAME:
            left.pop(int(shares.argmax()))
            both += 1
    return both


def clip_of(file):
    return None if file.name.startswith("photo-") else file.name.rsplit("-", 1)[0]


def differs(image, other):
    return float((cv2.absdiff(image, other).max(2) > CHANGED).mean())


def measure(folder, model):
    find = detect.Model(model)
    files = sorted(folder.glob("*.jpg"))
    images = [cv2.imread(str(file)) for file in files]
    truths = [find(image) for image in images]
    counted = [at for at in range(len(files)) if truths[at]]
    rows = []
    for setting in settings():
        made = []
        for at, image in enumerate(images):
            has_before = at > 0 and clip_of(files[at]) and clip_of(files[at - 1]) == clip_of(files[at])
            size, decoded = encoded(image, images[at - 1] if has_before else None, setting)
            wide, high = image.shape[1] / decoded.shape[1], image.shape[0] / decoded.shape[0]
            scale = numpy.array([wide, high, wide, high])
            made.append((size, [list(numpy.array(box[:4]) * scale) for box in find(decoded)]))
        for difference in DIFFERENCES:
            both = found = truth = size = 0
            last = None
            for at in range(len(files)):
                bytes_, boxes = made[at]
                is_follower = last is not None and clip_of(files[at]) and clip_of(files[last]) == clip_of(files[at])
                if difference is not None and is_follower and differs(images[at], images[last]) <= difference:
                    bytes_, boxes = 0, made[last][1]
                else:
                    last = at
                if at in counted:
                    both, found = both + agree(truths[at], boxes), found + len(boxes)
                    truth, size = truth + len(truths[at]), size + bytes_
            accuracy = 2 * both / (found + truth)
            rows.append({"setting": [*setting, difference], "bytes": size / len(counted), "accuracy": accuracy})
        print(setting, round(rows[-len(DIFFERENCES)]["bytes"]), f"{rows[-len(DIFFERENCES)]['accuracy']:.3f}", flush=True)
    source = sum(files[at].stat().st_size for at in counted) / len(counted)
    boxes = sum(len(truths[at]) for at in counted)
    return {"frames": len(counted), "boxes": boxes, "source_bytes": source, "settings": rows}


if __name__ == "__main__":
    if sys.argv[1:2] == ["frames"]:
        count = int(sys.argv[4]) if len(sys.argv) > 4 else 16
        vision, folder = pathlib.Path(sys.argv[2]) / "vision", pathlib.Path(sys.argv[3])
        frames(vision, folder, count)
        large(vision, folder.parent / "1080p.jpg")
    else:
        found = measure(pathlib.Path(sys.argv[2]), sys.argv[3])
        pathlib.Path(sys.argv[4]).write_text(json.dumps(found, indent=1) + "\n")
