"""Counts with exposure: the belief behind the UCB rules that need no distribution."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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


class Additive(ABC):
    """A belief per model to which every observation adds its numbers."""

    @abstractmethod
    def changes(self, evidence: Evidence) -> Mapping[str, FloatArray]:
        """What the slots of lists add to the state's arrays, each [B, K]."""

    def update(self, state: Any, decision: Decision, evidence: Evidence) -> None:
        """Add to the listed models."""
        model = model_index(decision.rows)
        for name, values in self.changes(evidence).items():
            add_at(getattr(state, name), model, values)

    def catch_up(self, state: Any, decisions: Decision, evidence: Evidence) -> None:
        """T lists [T, K] of one learner in their order: the same, bit for bit, as T updates."""
        model = model_index(decisions.rows)
        shown = model >= 0
        for name, values in self.changes(evidence).items():
            np.add.at(getattr(state, name)[0], model[shown], values[shown])


@dataclass(frozen=True)
class Counts(Additive):
    """How often each model was looked at, and with what result."""

    models: int
    binary = True
    fractional = True

    def init(self, learners: int) -> CountsState:
        """All counts 0."""
        return CountsState(*(np.zeros((learners, self.models)) for _ in range(3)))

    def changes(self, evidence: Evidence) -> Mapping[str, FloatArray]:
        """Outcomes and exposures."""
        return {"clicks": evidence.y, "exposure": evidence.exposure, "shown": np.sign(evidence.exposure)}


def model_index(rows: Rows) -> IntArray:
    """The models of a list, [B, K], for beliefs that keep numbers per model."""
    if not isinstance(rows.model, np.ndarray) or rows.model.ndim != 2:
        raise TypeError("a belief per item needs a design with one model for each learner and slot")
    return rows.model
