"""One policy's curves in a simulation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from rankloop.simulator import stats
from rankloop.types import FloatArray, IntArray


class CurveJson(TypedDict):
    """Means and standard errors over replications at the checkpoints; the error of a single replication is null."""

    round: list[int]
    mean: list[float]
    sem: list[float | None]


class TraceJson(TypedDict):
    """One policy's entry in `result.json`."""

    id: str
    label: str
    params: dict[str, object]
    regret: CurveJson
    reward: CurveJson
    seconds: float
    rounds_per_second: float


@dataclass(frozen=True)
class Trace:
    """One policy's cumulative curves at C checkpoints, for R replications."""

    id: str
    label: str
    params: Mapping[str, object]
    regret: FloatArray  # [C, R] expected regret
    reward: FloatArray  # [C, R] realised reward
    seconds: float
    rounds: IntArray  # [C]

    @property
    def final(self) -> FloatArray:
        """Return the regret after the last round, [R]."""
        return np.asarray(self.regret[-1])

    @property
    def rounds_per_second(self) -> float:
        """Return the replication-rounds per second of one process."""
        return float(self.rounds[-1] * self.regret.shape[1] / self.seconds)

    def as_json(self) -> TraceJson:
        """Return means and standard errors as plain numbers."""
        return {
            "id": self.id,
            "label": self.label,
            "params": plain_fields(self.params),
            "regret": self._curve(self.regret),
            "reward": self._curve(self.reward),
            "seconds": self.seconds,
            "rounds_per_second": self.rounds_per_second,
        }

    def _curve(self, values: FloatArray) -> CurveJson:
        return {
            "round": self.rounds.tolist(),
            "mean": values.mean(axis=1).tolist(),
            "sem": [None if np.isnan(v) else v for v in stats.sem(values).tolist()],
        }


def plain_fields(given: Mapping[str, object]) -> dict[str, object]:
    """Return a mapping with values of JSON types."""
    return {str(key): _plain(value) for key, value in given.items()}


def _plain(value: object) -> object:
    """Return a value of JSON types: arrays become lists, any other object becomes its name."""
    if isinstance(value, Mapping):
        return plain_fields(value)
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return getattr(value, "__name__", type(value).__name__)
