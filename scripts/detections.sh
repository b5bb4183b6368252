#!/bin/sh
# Computes what detectors see in the road clip, once, for `lab bench adapt-traffic`: into target/adapt/traffic.
# Needs the clip and the models (--data, ../shared/data by default), Python 3, and a package index or wheels for
# onnxruntime, opencv-python-headless and numpy. Takes about two minutes.
set -eu
cd "$(dirname "$0")/.."
data=${1:-../shared/data}
into=target/adapt
[ -f "$data/vision/clips/car-detection.mp4" ] || {
    echo "skipped: needs $data/vision/clips/car-detection.mp4 (a road clip), not found"
    exit 0
}
[ -x "$into/venv/bin/python" ] || python3 -m venv "$into/venv"
"$into/venv/bin/python" -c 'import cv2, numpy, onnxruntime' 2>/dev/null ||
    "$into/venv/bin/pip" install --quiet onnxruntime==1.32.0 opencv-python-headless==5.0.0.93 numpy==2.4.6
"$into/venv/bin/python" lab/papers/detect/detect.py "$data" "$into/traffic"
