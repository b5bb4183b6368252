"""A model's file, and what it predicts; as `crates/cluster/src/place/model/mod.rs`."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import Any

import numpy as np

from ._measured import VERSION, Batch, Flags, Floats
from ._physics import FEATURES, Parameters, foresee

NAMES = ("learned", "physics", "paper")
"""Models of a file."""


@dataclasses.dataclass(frozen=True)
class Learned:
    """A latency model with all that it was trained for."""

    measured: str
    scheduler: str
    machine: Parameters
    spread: dict[str, list[float]]
    residual: dict[str, Any] | None = None
    paper: dict[str, Any] | None = None

    @staticmethod
    def read(file: str | pathlib.Path) -> Learned:
        """Reads a file. Raises `ValueError` for what is none of this version."""
        return Learned.of(json.loads(pathlib.Path(file).read_text()))

    @staticmethod
    def of(said: dict[str, Any]) -> Learned:
        """The same from what a file says."""
        said = dict(said)
        version = said.pop("version", None)
        if version != VERSION:
            raise ValueError(f"version {version}, and this program reads {VERSION}")
        machine = Parameters(**said.pop("machine"))
        return Learned(machine=machine, **said)

    def told(self) -> dict[str, Any]:
        """What a file says."""
        said = {"version": VERSION} | dataclasses.asdict(self)
        return {name: value for name, value in said.items() if value is not None}

    def write(self, file: str | pathlib.Path) -> None:
        """Writes the file that `tidegate plan --model` reads."""
        pathlib.Path(file).write_text(json.dumps(self.told()) + "\n")

    def p90(self, batch: Batch, by: str = "learned") -> Floats:
        """The 90th percentile of each topic, seconds; infinite where the machine cannot keep up."""
        if by == "paper":
            if self.paper is None:
                raise ValueError("the file has no model paper: it was not trained with it")
            return _paper(self.paper, batch)
        said = foresee(self.scheduler, self.machine, batch)
        if by == "physics" or self.residual is None:
            return said.p90
        inside, added = _residual(self.residual, said.features)
        added = np.where(inside, added, max(self.spread["outside"][1], 0.0))
        return said.p90 * np.exp(np.where(np.isfinite(said.p90), added, 0.0))


def _residual(residual: dict[str, Any], features: Floats) -> tuple[Flags, Floats]:
    """Whether each row is inside of the hull, and what the trees add."""
    if tuple(residual["features"]) != FEATURES:
        raise ValueError("its features are not those of this version")
    rows = features.reshape(-1, features.shape[-1])
    hair = 1e-9 * (1.0 + np.abs(rows))
    sides = (rows >= np.array(residual["low"]) - hair) & (rows <= np.array(residual["high"]) + hair)
    inside: Flags = np.all(sides, axis=1).reshape(features.shape[:-1])
    added = np.full(len(rows), float(residual["base"]))
    for tree in residual["trees"]:
        columns = [np.array(tree[name]) for name in ("feature", "threshold", "left", "right", "value")]
        feature, threshold, left, right, value = columns
        place = np.zeros(len(rows), int)
        for _ in range(len(feature)):
            goes_left = rows[np.arange(len(rows)), feature[place]] <= threshold[place]
            after = np.where(goes_left, left[place], right[place])
            if (after == place).all():
                break
            place = after
        added += value[place]
    return inside, added.reshape(features.shape[:-1])


def paper_features(batch: Batch) -> Floats:
    """The paper's six: p, r, d of a topic, and the sums of the others'."""
    own = np.stack([batch.work, batch.rate, batch.work * batch.rate], axis=-1)
    others = own.sum(axis=1, keepdims=True) - own
    return np.concatenate([own, others], axis=-1)


def _paper(paper: dict[str, Any], batch: Batch) -> Floats:
    answer = np.full(batch.there.shape, np.inf)
    features = paper_features(batch)
    for row, together in enumerate(batch.together):
        values = features[row, :together]
        polynomial, network = paper.get("polynomial"), paper["networks"].get(str(together))
        if together == 1 and polynomial:
            scaled = (values[:, :2] - polynomial["mean"]) / polynomial["scale"]
            terms = [c * scaled[:, 0] ** work * scaled[:, 1] ** rate for work, rate, c in polynomial["terms"]]
            answer[row, :1] = np.exp(np.sum(terms, axis=0))
        elif network:
            values = (values - network["mean"]) / network["scale"]
            for place, layer in enumerate(network["layers"]):
                values = values @ np.array(layer["weights"]).T + layer["bias"]
                if place + 1 < len(network["layers"]):
                    values = np.maximum(values, 0.0)
            answer[row, :together] = np.exp(values[:, 0])
    return answer
