"""The Beta posterior of a Bernoulli outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rankloop.belief.alike import EVERYTHING
from rankloop.belief.base import ByItemState, Summarising, SummaryState
from rankloop.belief.counts import Additive
from rankloop.shortlist import Search, Shortlist
from rankloop.special_functions import betaincinv
from rankloop.types import BetaPrior, Evidence, FloatArray, Rows, Score


@dataclass
class BetaState(ByItemState, SummaryState):
    """Beta(a, b) for every model, each [B, M]."""

    a: FloatArray
    b: FloatArray

    def mean(self, rows: Rows) -> FloatArray:
        """Return the posterior means a/(a+b)."""
        a, b = self.a[:, rows.model], self.b[:, rows.model]
        return a / (a + b)

    def width(self, rows: Rows) -> FloatArray:
        """Return the posterior standard deviations."""
        a, b = self.a[:, rows.model], self.b[:, rows.model]
        return np.sqrt(a * b / (a + b + 1.0)) / (a + b)

    def draw(self, scale: FloatArray | float, rng: np.random.Generator) -> Score:
        """Return one Beta draw per model; the scale multiplies its distance from the mean."""
        sample = rng.beta(self.a, self.b)
        if (scale == 1.0) is not True:  # an array is never True, whatever its values
            mean = self.a / (self.a + self.b)
            sample = mean + np.reshape(scale, (-1, 1)) * (sample - mean)
        return lambda rows: sample[:, rows.model]

    def draw_largest(self, scale: FloatArray | float, search: Search, rng: np.random.Generator) -> Shortlist | None:
        """Return the largest scores of such a draw, in distribution: of equal posteriors only the largest are drawn."""
        split = self.split(search) if np.min(scale) > 0.0 else None
        if split is None:
            return None
        found, state = split
        sample = state.draw(scale, rng)(EVERYTHING)[:, :-1]
        a, b = float(state.a[0, -1]), float(state.b[0, -1])
        mean = a / (a + b)
        largest = 1.0 - betaincinv(b, a, found.largest_tails(rng))
        return found.drawn(sample, mean + np.reshape(scale, -1) * (largest - mean), rng)

    def quantile(self, rows: Rows, q: FloatArray) -> FloatArray:
        """Return the quantiles q [B] of the posteriors; their means where a quantile cannot be computed."""
        found = betaincinv(self.a[:, rows.model], self.b[:, rows.model], q[:, None])
        return np.asarray(np.where(np.isnan(found), self.mean(rows), found), dtype=np.float64)


@dataclass(frozen=True)
class Beta(Additive[BetaState], Summarising[BetaState]):
    """Independent Beta priors, updated by Bayes' rule: a += y, b += 1 - y."""

    FLOORED = ("a", "b")

    prior: BetaPrior
    models: int
    binary = True
    fractional = False

    def init(self, learners: int) -> BetaState:
        """Return the prior of every learner."""
        shape = (learners, self.models)
        return BetaState(*(np.array(np.broadcast_to(p, shape)) for p in (self.prior.a, self.prior.b)))

    def changes(self, evidence: Evidence) -> Mapping[str, FloatArray]:
        """Return successes for a and failures for b."""
        return {"a": evidence.y, "b": evidence.exposure - evidence.y}
