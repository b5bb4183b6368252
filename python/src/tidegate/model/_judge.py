"""How right predictions were, in size and in decisions; as `crates/cluster/src/place/model/accuracy.rs`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from ._measured import Batch, Floats, Measurement

SAME = 10.0
"""So many bounds, and all beyond them, are alike."""


@dataclasses.dataclass(frozen=True)
class Cases:
    """Topics that were predicted and measured, in seconds."""

    predicted: Floats
    measured: Floats
    bound: Floats

    @staticmethod
    def of(predicted: Floats, batch: Batch) -> Cases:
        """All topics of a batch."""
        return Cases(predicted[batch.there], batch.measured[batch.there], batch.bound[batch.there])


@dataclasses.dataclass(frozen=True)
class Verdict:
    """How right predictions were; what each share is of stands in docs/algorithms-place.md."""

    cases: int
    r2: float
    near: int
    near_right: float
    right: float
    missed: float
    miss: float
    refused: float

    def line(self, name: str) -> str:
        """A row of the table whose head is `HEAD`."""
        return (
            f"{name:<28} {self.cases:>6} {self.r2:>8.3f} {self.near:>6} {self.near_right:>8.3f} {self.right:>8.3f}"
            f" {self.missed:>8.3f} {self.miss:>8.3f} {self.refused:>8.3f}"
        )


HEAD = (
    f"{'':<28} {'topics':>6} {'R2':>8} {'near':>6} {'right':>8} {'right':>8} {'missed':>8} {'miss':>8} {'refused':>8}\n"
    f"{'':<28} {'':>6} {'log p90':>8} {'bound':>6} {'there':>8} {'of all':>8} {'of late':>8} {'of fine':>8}"
    f" {'of fine':>8}"
)


def judge(cases: Cases) -> Verdict:
    """Judges predictions."""
    predicted, measured, bound = cases.predicted, cases.measured, cases.bound
    late, told = measured > bound, predicted > bound
    right = late == told
    near = (measured >= 0.5 * bound) & (measured <= 2.0 * bound)
    wrongly_fine = int((late & ~told).sum())

    def share(part: int, of: int) -> float:
        return part / max(of, 1)

    def log(p90: Floats) -> Floats:
        logs: Floats = np.log(np.clip(p90, 1e-9, SAME * bound))
        return logs

    spread = float(((log(measured) - log(measured).mean()) ** 2).sum())
    left = float(((log(predicted) - log(measured)) ** 2).sum())
    return Verdict(
        cases=len(measured),
        r2=1.0 - left / spread if spread > 0 else float("nan"),
        near=int(near.sum()),
        near_right=share(int((near & right).sum()), int(near.sum())),
        right=share(int(right.sum()), len(right)),
        missed=share(wrongly_fine, int(late.sum())),
        miss=share(wrongly_fine, int((~told).sum())),
        refused=share(int((~late & told).sum()), int((~late).sum())),
    )


def ceiling(measurements: Sequence[Measurement]) -> Cases | None:
    """What a configuration's first run says of its second one: no model can be expected to do better."""
    first: dict[str, Measurement] = {}
    pairs = []
    for one in measurements:
        before = first.setdefault(one.configuration, one)
        if before is not one:
            pairs.append((before, one))
    if not pairs:
        return None
    said, came = (Batch.of([pair[place] for pair in pairs]) for place in (0, 1))
    return Cases.of(said.measured, came)
