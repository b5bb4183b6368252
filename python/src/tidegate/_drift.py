"""Whether a camera's ladder still says the truth: a frame a minute is fetched again as the camera took it."""

from __future__ import annotations

import collections
import dataclasses
import logging
import time
from collections.abc import Callable, Sequence

import numpy as np

from ._address import DEFAULT_ADDRESS, Tls
from ._capture import replay
from ._detect import Box, Detector, overlaps
from ._errors import NodeGone, Refused
from ._frame import Feasible, Frame, Infeasible

_PROBES_MAX = 60
"""Of an hour: older ones tell of another time of the day."""
_BOXES_MIN = 30
"""On sources; with fewer nothing is said."""
_SAME = 0.5
"""Boxes that overlap as much are the same, as `tidegate calibrate frames` has it."""
_DRAWS = 1000
_SURE = 0.975
_PATIENCE = 10.0
"""For a source frame, seconds."""

_log = logging.getLogger("tidegate")


@dataclasses.dataclass(frozen=True)
class Drifted:
    """Frames are surely worse than their ladder says: it should be measured anew, with pictures of today."""

    measured: float
    """Accuracy by the probes."""
    expected: float
    """By the ladder: the lower end of its interval, in the mean."""
    probes: int


@dataclasses.dataclass(frozen=True)
class _Probe:
    both: int
    found: int
    truth: int
    expected: float


class Drift:
    """Compares what a detector finds on frames that came with what it finds on the same frames as they were taken.

    `look` is called with each frame. About once a minute, and not while the bounds cannot be kept, it fetches the
    source of the frame by replay (the camera's node needs `[frames] directory`) and runs the detector on both, in the
    caller's thread. Give `news` to `VideoCapture(on_news=...)`, so that it knows when capacity is short.
    """

    def __init__(
        self,
        detector: Detector,
        *,
        every: float = 60.0,
        address: str = DEFAULT_ADDRESS,
        tls: Tls | None = None,
        fetch: Callable[[Frame], Frame | None] | None = None,
    ) -> None:
        """`every` is the time between probes, seconds; `fetch` answers a frame's source, by replay if left out."""
        self.drifted: Drifted | None = None
        """What is known of a ladder that is stale; nothing while it is not, or while too little is known."""
        self._detector = detector
        self._every = every
        self._fetch = fetch or (lambda frame: _source(frame, address, tls))
        self._probes: collections.deque[_Probe] = collections.deque(maxlen=_PROBES_MAX)
        self._next = 0.0
        self._is_short = False

    def news(self, said: Infeasible | Feasible) -> None:
        """Hears whether the bounds can be kept."""
        self._is_short = isinstance(said, Infeasible)

    def look(self, frame: Frame, found: Sequence[Box] | None = None) -> Drifted | None:
        """Looks at a frame that came, if it is time. `found` is what the detector found on it, if that is known."""
        now = time.monotonic()
        # A frame that came as it was taken tells nothing of a ladder.
        if frame.is_source or self._is_short or now < self._next:
            return self.drifted
        self._next = now + self._every
        source = self._fetch(frame)
        if source is None or not source.is_source:
            return self.drifted
        truth = _boxes(self._detector(source.image))
        boxes = _boxes(self._detector(frame.image) if found is None else found)
        (width, height), (wide, high) = frame.size, frame.source_size
        boxes = boxes * np.array([wide / width, high / height] * 2)
        if len(truth):
            self._probes.append(_Probe(_both(truth, boxes), len(boxes), len(truth), frame.accuracy_low))
            self._judge()
        return self.drifted

    def _judge(self) -> None:
        rows = np.array([dataclasses.astuple(probe) for probe in self._probes])
        sums = rows.sum(0)
        if sums[2] < _BOXES_MIN:
            return
        random = np.random.default_rng(1)
        draws = rows[random.integers(0, len(rows), (_DRAWS, len(rows)))].sum(1)
        upper = float(np.quantile(2 * draws[:, 0] / (draws[:, 1] + draws[:, 2]), _SURE))
        expected = float(np.average(rows[:, 3], weights=rows[:, 2]))
        was = self.drifted
        self.drifted = None
        if upper < expected:
            self.drifted = Drifted(float(2 * sums[0] / (sums[1] + sums[2])), expected, len(rows))
            if was is None:
                text = "accuracy is %.3f where the ladder says %.3f or more: tidegate calibrate frames makes a new one"
                _log.warning(text, self.drifted.measured, expected)


def _source(frame: Frame, address: str, tls: Tls | None) -> Frame | None:
    """A frame as it was taken."""
    taken = frame.captured_unix_ns
    try:
        return next(replay(frame.camera, taken, taken, address=address, tls=tls, timeout=_PATIENCE), None)
    except (Refused, NodeGone) as error:
        _log.info("no probe of camera %s: %s", frame.camera, error)
        return None


def _boxes(found: Sequence[Box]) -> np.ndarray:
    return np.array([list(map(float, box[:4])) for box in found]).reshape(-1, 4)


def _both(truth: np.ndarray, found: np.ndarray) -> int:
    """How many boxes are on both; each counts once."""
    both = 0
    for box in truth:
        shares = overlaps(box, found)
        if len(shares) and shares.max() >= _SAME:
            found = np.delete(found, int(shares.argmax()), 0)
            both += 1
    return both
