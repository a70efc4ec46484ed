"""Counts with exposure: the belief of UCB rules that need no posterior distribution."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import ClassVar, Protocol

import numpy as np

from rankloop.belief.base import ByItemState, E, Estimating, Tally
from rankloop.types import Decision, Evidence, FloatArray, IntArray, Rows


@dataclass
class CountsState(ByItemState):
    """Sums per model, each [B, M]."""

    clicks: FloatArray
    exposure: FloatArray
    shown: FloatArray

    def tally(self, rows: Rows) -> Tally:
        """Return the counts of these rows."""
        m = rows.model
        return Tally(self.clicks[:, m], self.exposure[:, m], self.shown[:, m])

    def mean(self, rows: Rows) -> FloatArray:
        """Return clicks / exposure, 0 without observations."""
        return self.tally(rows).mean


def add_at(table: FloatArray, columns: IntArray, values: FloatArray) -> None:
    """Apply table[b, columns[b, k]] += values[b, k], values [B, K, ...].

    Columns of a row are distinct; -1 adds nothing.
    """
    rows = np.arange(columns.shape[0])[:, None]
    if columns.min(initial=0) < 0:
        # -1 and the last item are the same cell: a plain += would keep only one of the two additions.
        shown = (columns >= 0).reshape(columns.shape + (1,) * (values.ndim - 2))
        np.add.at(table, (rows, columns), np.where(shown, values, 0))
    else:
        table[rows, columns] += values


class Additive(Estimating[E], Protocol):
    """A belief per model whose state is a sum over observations."""

    FLOORED: ClassVar[tuple[str, ...]] = ()
    """Arrays that are never below the prior's, whatever rounding says."""

    @property
    def estimates_rates(self) -> bool:
        """True: the state sums an item's own outcomes."""
        return True

    @abstractmethod
    def changes(self, evidence: Evidence) -> Mapping[str, FloatArray]:
        """Return what the slots of lists add to the state's arrays, each [B, K]."""

    def update(self, state: E, decision: Decision, evidence: Evidence) -> None:
        """Add to the listed models."""
        model = decision.rows.models()
        for name, values in self.changes(evidence).items():
            add_at(getattr(state, name), model, values)

    def catch_up(self, state: E, decisions: Decision, evidence: Evidence) -> bool:
        """Learn from T lists [T, K] of one learner in order, with the same result as T updates, bit for bit."""
        model = decisions.rows.models()
        shown = model >= 0
        for name, values in self.changes(evidence).items():
            np.add.at(getattr(state, name)[0], model[shown], values[shown])
        return True

    def forget(self, state: E, prior: E, share: float) -> None:
        """Set the state to the prior plus this share of the sums."""
        for field in fields(state):
            now, before = getattr(state, field.name), getattr(prior, field.name)
            now[...] = before + share * (now - before)

    def amend(self, state: E, decision: Decision, before: FloatArray, evidence: Evidence) -> None:
        """Add what the outcomes add to the state now, without what they added before."""
        model, added = decision.rows.models(), self.changes(Evidence(before, evidence.exposure))
        for name, values in self.changes(evidence).items():
            add_at(getattr(state, name), model, values - added[name])

    def believe(self, state: E, decision: Decision, score: float, strength: float) -> None:
        """Add `strength` times what one observation of the score adds."""
        self._weigh(state, decision, score, strength)

    def disbelieve(self, state: E, decision: Decision, score: float, strength: float) -> None:
        """Subtract what `believe` added."""
        self._weigh(state, decision, score, -strength)
        least = self.init(1)
        for name in self.FLOORED:
            now = getattr(state, name)
            np.maximum(now, getattr(least, name), out=now)

    def _weigh(self, state: E, decision: Decision, score: float, weight: float) -> None:
        model = decision.rows.models()[0]
        once = Evidence(np.full((1, len(model)), score), np.ones((1, len(model))))
        for name, values in self.changes(once).items():
            getattr(state, name)[:, model] += weight * values


@dataclass(frozen=True)
class Counts(Additive[CountsState]):
    """How often each model was observed, and the sum of its outcomes."""

    FLOORED = ("clicks", "exposure", "shown")

    models: int
    binary = True
    fractional = True

    def init(self, learners: int) -> CountsState:
        """Return counts of 0."""
        return CountsState(*(np.zeros((learners, self.models)) for _ in range(3)))

    def changes(self, evidence: Evidence) -> Mapping[str, FloatArray]:
        """Return outcomes and exposures."""
        return {"clicks": evidence.y, "exposure": evidence.exposure, "shown": np.sign(evidence.exposure)}
