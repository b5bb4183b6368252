"""Trains latency models: a machine's parameters with boosted trees beside them, the paper's polynomial and networks."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge
from sklearn.neural_network import MLPRegressor
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from ._fit import counts, fit
from ._judge import SAME, Cases, judge
from ._learned import Learned, paper_features
from ._measured import Batch, Floats, Measurement
from ._physics import FEATURES, Parameters, foresee

FOLDS = 5
DEGREE = 4
"""Of the paper's polynomial."""
LAYERS = {5: (40, 40), 6: (100, 100)}
"""Hidden layers of the paper's networks, up to so many topics and from so many on (topic placement, section VI-B)."""
ALPHA = 0.1
"""Its factor of regularization."""
MAX_ITER = 1000
"""Steps of the solver; the paper does not tell, and at scikit-learn's 200 it has not converged."""
PAPER_MIN = 4
"""Configurations of so many topics below which there is no network for them."""
RISES = {"load": 1, "urgent_load": 1, "own_load": 1, "latency_over_bound": 0, "together": 0}
"""A prediction's correction never falls with these."""
NEAR = 3.0
"""How much more a topic near its bound counts."""


@dataclasses.dataclass(frozen=True)
class Options:
    """What is trained."""

    seed: int = 1
    has_paper: bool = True
    trees: int = 120
    leaves: int = 6
    layers: tuple[int, ...] | None = None
    """Of the paper's networks; the paper's if left out."""


def train(measurements: Sequence[Measurement], options: Options, machine: Parameters | None = None) -> Learned:
    """One model of everything; with `machine`, for that machine in place of the one that was measured."""
    first = measurements[0]
    errors = _held_out_errors(measurements, options)
    fitted, residual = ours(measurements, options)
    paper = _paper(measurements, options) if options.has_paper else None
    seconds = sum(one.seconds for one in measurements)
    measured = f"{len(measurements)} configurations, {seconds:.0f} s under load, {first.processors} processors"
    return Learned(
        measured=measured,
        scheduler=first.scheduler,
        machine=machine or fitted,
        spread={name: _spread(values) for name, values in errors.items()},
        residual=residual,
        paper=paper,
    )


def _spread(errors: Floats) -> list[float]:
    low, high = np.quantile(errors, [0.1, 0.9]) if len(errors) else (0.0, 0.0)
    return [float(low), float(high)]


def folds(measurements: Sequence[Measurement], seed: int) -> Iterator[tuple[list[Measurement], list[Measurement]]]:
    """Those to train with and those held out, in turn: topics and runs of one configuration stay together."""
    names = sorted({one.configuration for one in measurements})
    np.random.default_rng(seed).shuffle(names)
    for fold in range(min(FOLDS, len(names))):
        held = set(names[fold::FOLDS])
        yield (
            [one for one in measurements if one.configuration not in held],
            [one for one in measurements if one.configuration in held],
        )


def _held_out_errors(measurements: Sequence[Measurement], options: Options) -> dict[str, Floats]:
    """Logarithms of measured over predicted."""
    found: dict[str, list[Floats]] = {"inside": [], "outside": []}
    for some, held in folds(measurements, options.seed):
        machine, residual = ours(some, options)
        learned = Learned("", some[0].scheduler, machine, {"outside": [0.0, 0.0]}, residual)
        batch = Batch.of(held)
        used = counts(batch)
        for name, by in (("inside", "learned"), ("outside", "physics")):
            said = learned.p90(batch, by)
            usable = used & (said < SAME * batch.bound) & (batch.measured < SAME * batch.bound)
            found[name].append(np.log(batch.measured[usable] / said[usable]))
    return {name: np.concatenate(parts) if parts else np.array([]) for name, parts in found.items()}


def ours(measurements: Sequence[Measurement], options: Options) -> tuple[Parameters, dict[str, Any] | None]:
    """Parameters and trees."""
    first, batch = measurements[0], Batch.of(measurements)
    machine = fit(first.scheduler, first.processors, batch)
    said = foresee(first.scheduler, machine, batch)
    usable = counts(batch) & (said.p90 < SAME * batch.bound) & np.isfinite(said.p90)
    rows = said.features[usable]
    if len(rows) < 40:
        return machine, None
    ratio = batch.measured[usable] / batch.bound[usable]
    target = np.log(np.minimum(ratio, SAME)) - np.log(np.minimum(said.p90[usable] / batch.bound[usable], SAME))
    weights = 1.0 + NEAR * ((ratio > 0.4) & (ratio < 2.5))
    trees = HistGradientBoostingRegressor(
        loss="squared_error",
        learning_rate=0.06,
        max_iter=options.trees,
        max_leaf_nodes=options.leaves,
        min_samples_leaf=max(8, len(rows) // 100),
        l2_regularization=5.0,
        monotonic_cst=[RISES.get(name, 0) for name in FEATURES],
        early_stopping=False,
        random_state=options.seed,
    ).fit(rows, target, sample_weight=weights)
    return machine, _dumped(trees, rows)


def _dumped(trees: HistGradientBoostingRegressor, rows: Floats) -> dict[str, Any]:
    """The trees as the file has them: a leaf is its own child."""
    dumped = []
    for (tree,) in trees._predictors:
        nodes, own = tree.nodes, np.arange(len(tree.nodes))
        leaf = nodes["is_leaf"].astype(bool)
        dumped.append(
            {
                "feature": np.where(leaf, 0, nodes["feature_idx"]).tolist(),
                "threshold": np.where(leaf, 0.0, nodes["num_threshold"]).tolist(),
                "left": np.where(leaf, own, nodes["left"]).tolist(),
                "right": np.where(leaf, own, nodes["right"]).tolist(),
                "value": np.where(leaf, nodes["value"], 0.0).tolist(),
            }
        )
    return {
        "features": list(FEATURES),
        "low": rows.min(axis=0).tolist(),
        "high": rows.max(axis=0).tolist(),
        "base": float(np.ravel(trees._baseline_prediction)[0]),
        "trees": dumped,
    }


def _logs(batch: Batch) -> Floats:
    return np.log(np.minimum(batch.measured, SAME * batch.bound))


def layers_of(together: int) -> tuple[int, ...]:
    """Hidden layers of the paper's network for so many topics."""
    return LAYERS[5] if together <= 5 else LAYERS[6]


def _paper(measurements: Sequence[Measurement], options: Options) -> dict[str, Any]:
    """The paper's: a polynomial for one topic, a network for each number of them."""
    single: dict[str, Any] | None = None
    networks = {}
    for together in sorted({len(one.topics) for one in measurements}):
        runs = [one for one in measurements if len(one.topics) == together]
        if len(runs) < PAPER_MIN:
            continue
        if together == 1:
            single = polynomial(Batch.of(runs))
        else:
            networks[str(together)] = _network(runs, options.layers or layers_of(together), options)
    return {"networks": networks} | ({"polynomial": single} if single else {})


def polynomial(batch: Batch) -> dict[str, Any]:
    """The paper's, of degree 4 in work and rate."""
    features = np.stack([batch.work[:, 0], batch.rate[:, 0]], axis=-1)
    scaler = StandardScaler().fit(features)
    powers = PolynomialFeatures(DEGREE).fit(features)
    # A hair of a ridge: fifteen terms of few configurations.
    model = Ridge(alpha=1e-3, fit_intercept=False).fit(powers.transform(scaler.transform(features)), _logs(batch)[:, 0])
    terms = [[int(work), int(rate), float(c)] for (work, rate), c in zip(powers.powers_, model.coef_, strict=True)]
    return {"mean": scaler.mean_.tolist(), "scale": scaler.scale_.tolist(), "terms": terms}


def _network(runs: Sequence[Measurement], layers: tuple[int, ...], options: Options) -> dict[str, Any]:
    batch = Batch.of(runs)
    scaler, model = fitted(paper_features(batch).reshape(-1, 6), _logs(batch).reshape(-1), layers, options.seed)
    dumped = [
        {"weights": weights.T.tolist(), "bias": bias.tolist()}
        for weights, bias in zip(model.coefs_, model.intercepts_, strict=True)
    ]
    return {"mean": scaler.mean_.tolist(), "scale": scaler.scale_.tolist(), "layers": dumped}


def fitted(features: Floats, logs: Floats, layers: tuple[int, ...], seed: int) -> tuple[StandardScaler, MLPRegressor]:
    """One network of the paper's: rectified linear units, the solver lbfgs, logarithms of latencies."""
    scaler = StandardScaler().fit(features)
    model = MLPRegressor(hidden_layer_sizes=layers, alpha=ALPHA, solver="lbfgs", max_iter=MAX_ITER, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(scaler.transform(features), logs)
    return scaler, model


def held_out(measurements: Sequence[Measurement], options: Options) -> dict[str, Cases]:
    """What each model says of configurations that it was not trained with."""
    names = ("learned", "physics") + (("paper",) if options.has_paper else ())
    parts: dict[str, list[Cases]] = {name: [] for name in names}
    for some, held in folds(measurements, options.seed):
        machine, residual = ours(some, options)
        paper = _paper(some, options) if options.has_paper else None
        spread = {"inside": [0.0, 0.0], "outside": [0.0, 0.1]}
        learned = Learned("", some[0].scheduler, machine, spread, residual, paper)
        batch = Batch.of(held)
        for name in names:
            parts[name].append(Cases.of(learned.p90(batch, name), batch))
    return {name: joined(cases) for name, cases in parts.items()}


def joined(parts: Sequence[Cases]) -> Cases:
    """All cases of some."""
    columns = ([getattr(part, name) for part in parts] for name in ("predicted", "measured", "bound"))
    return Cases(*(np.concatenate(column) for column in columns))


def curve(measurements: Sequence[Measurement], options: Options) -> list[tuple[int, dict[str, tuple[float, float]]]]:
    """R2 and decisions near the bound by the number of configurations trained with, all judged on the same fifth."""
    some, held = next(folds(measurements, options.seed))
    batch = Batch.of(held)
    points = []
    size = 10
    while size <= len(some):
        part = some[:size]
        machine, residual = ours(part, options)
        paper = _paper(part, options) if options.has_paper else None
        learned = Learned("", part[0].scheduler, machine, {"outside": [0.0, 0.1]}, residual, paper)
        row = {}
        for name in ("learned", "physics") + (("paper",) if paper else ()):
            verdict = judge(Cases.of(learned.p90(batch, name), batch))
            row[name] = (verdict.r2, verdict.near_right)
        points.append((size, row))
        size *= 2
    return points
