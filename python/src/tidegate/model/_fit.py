"""Finds the parameters of a machine from measurements; `crates/cluster/src/place/model/fit.rs` uses another search."""

from __future__ import annotations

import numpy as np
from scipy.optimize import least_squares

from ._measured import Batch, Flags, Floats
from ._physics import Parameters, foresee

FAR = 0.3
PRIOR = 0.5
UNITS = np.array([0.4, 1.0, 0.4, 1.5, 1.5, 1.5])
COUNT_MIN = 20
ARRIVED_MIN = 0.98


def counts(batch: Batch) -> Flags:
    """Which topics have enough records to say something of a 90th percentile."""
    usable: Flags = batch.there & (batch.count >= COUNT_MIN) & (batch.arrived >= ARRIVED_MIN)
    return usable


def fit(scheduler: str, processors: int, batch: Batch) -> Parameters:
    """Least squares of the logarithm of the 90th percentile; far ones count by their size."""
    start = np.log(np.array(list(vars(Parameters.usual(processors)).values())))
    used = counts(batch)
    most = (batch.seconds / 2.0)[:, None]
    measured = np.minimum(batch.measured, most)

    def errors(point: Floats) -> Floats:
        said = foresee(scheduler, Parameters(*np.exp(point)), batch)
        left = np.log(measured[used] / np.minimum(said.p90, most)[used])
        held: Floats = np.sqrt(PRIOR) * (point - start) / UNITS
        return np.concatenate([left, held])

    if not used.any():
        return Parameters.usual(processors)
    found = least_squares(errors, start, loss="huber", f_scale=FAR, x_scale=UNITS, diff_step=1e-4, max_nfev=60)
    return Parameters(*(float(value) for value in np.exp(found.x)))
