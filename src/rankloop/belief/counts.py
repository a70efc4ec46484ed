"""Counts with exposure: the belief behind the UCB rules that need no distribution."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankloop.belief.base import Tally
from rankloop.math.arrays import add_at
from rankloop.state import State
from rankloop.types import Decision, Evidence, FloatArray, IntArray, Rows


@dataclass
class CountsState(State):
    """Sums per model, each [B, M]."""

    clicks: FloatArray
    exposure: FloatArray
    shown: FloatArray

    def tally(self, rows: Rows) -> Tally:
        """Counts of these rows."""
        m = rows.model
        return Tally(self.clicks[:, m], self.exposure[:, m], self.shown[:, m])

    def mean(self, rows: Rows) -> FloatArray:
        """Clicks / exposure, 0 where nothing was observed."""
        return self.tally(rows).mean


@dataclass(frozen=True)
class Counts:
    """How often each model was looked at, and with what result."""

    models: int
    binary = True
    fractional = True

    def init(self, learners: int) -> CountsState:
        """All counts 0."""
        return CountsState(*(np.zeros((learners, self.models)) for _ in range(3)))

    def update(self, state: CountsState, decision: Decision, evidence: Evidence) -> None:
        """Add outcomes and exposures to the listed models."""
        model = model_index(decision.rows)
        add_at(state.clicks, model, evidence.y)
        add_at(state.exposure, model, evidence.exposure)
        add_at(state.shown, model, np.sign(evidence.exposure))


def model_index(rows: Rows) -> IntArray:
    """The models of a list, [B, K], for beliefs that keep numbers per model."""
    if not isinstance(rows.model, np.ndarray) or rows.model.ndim != 2:
        raise TypeError("a belief per item needs a design with one model for each learner and slot")
    return rows.model
