#!/usr/bin/env bash
# The Python package: format, lints, and its tests against the program (built before, by cargo build). With the word
# "full" also types, and what needs OpenCV, ONNX, scikit-learn or pandas (about 600 MB of packages). The tools are
# installed in target/python, from the package index; a missing index is an error unless SKIP_PYTHON=1.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=target/python
tools="numpy==2.4.6 grpcio==1.85.1 protobuf==7.36.2 paho-mqtt==2.2.0 pillow==13.0.0 ruff==0.17.6"
heavy="opencv-python-headless==5.0.0.93 onnxruntime==1.32.0 scikit-learn==1.9.1 pandas==3.1.1
pandas-stubs==3.1.0.261029 prometheus-client==0.26.0 mypy==2.4.1 types-protobuf==7.35.1.20260906"
[ "${1:-}" != full ] || tools="$tools $heavy"
if [ "${SKIP_PYTHON:-}" = 1 ]; then
  echo "skipped: the Python package, as SKIP_PYTHON=1 asks"
  exit 0
fi
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
# shellcheck disable=SC2086 # a list of words on purpose
if ! "$venv/bin/pip" install --quiet --disable-pip-version-check $tools; then
  echo "python: needs a package index, or wheels of: $tools (or SKIP_PYTHON=1)" >&2
  exit 1
fi
(
  cd python
  ../$venv/bin/ruff format --no-cache --check .
  ../$venv/bin/ruff check --no-cache .
  [ "${1:-}" != full ] || ../$venv/bin/mypy --cache-dir=/dev/null
)
export PYTHONDONTWRITEBYTECODE=1
"$venv/bin/python" -m unittest discover -s python/tests
[ "${1:-}" != full ] || "$venv/bin/python" -m unittest discover -s python/tests/full
