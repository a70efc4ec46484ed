"""Ridge regression whose observations are weighted by its own upper bound on their variance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankloop.belief.base import SummaryState
from rankloop.belief.linear import Linear, Ridge, RidgeState, add_rows, pseudo
from rankloop.math import factor
from rankloop.math.linear import features_of
from rankloop.types import Decision, Evidence, FloatArray, Rows


@dataclass
class SelfWeightedState(SummaryState):
    """A Hoeffding ridge regression that sets the weights, and the Bernstein ridge regression that scores items."""

    hoeffding: RidgeState
    bernstein: RidgeState
    observations: FloatArray  # [B]

    def mean(self, rows: Rows) -> FloatArray:
        """Return xᵀθ_B."""
        return self.bernstein.mean(rows)

    def width(self, rows: Rows) -> FloatArray:
        """Return ‖x‖ in the norm of the weighted V⁻¹."""
        return self.bernstein.width(rows)


@dataclass(frozen=True)
class SelfWeightedRidge(Linear[SelfWeightedState]):
    """CascadeWOFUL's pair of regressions (Vial et al. 2022).

    U_H = xᵀθ_H + α‖x‖ bounds the attraction of a shown item, hence its variance; an observation
    enters the second regression with weight 1/v, v = clip(U_H, 1/K, 1).
    """

    dim: int
    slots: int
    ridge: float
    norm: float  # S, bound on ‖θ‖
    delta: float
    binary = True
    fractional = False

    def init(self, learners: int) -> SelfWeightedState:
        """Return two regressions without observations."""
        ridge = Ridge(self.dim, self.ridge)
        return SelfWeightedState(ridge.init(learners), ridge.init(learners), np.zeros(learners))

    def alpha(self, observations: FloatArray) -> FloatArray:
        """Return the Hoeffding radius √λS + ½√(d log(1+m/(dλ)) + 2 log(1/δ)), [B]."""
        m = np.maximum(observations, 1.0)
        log_det = self.dim * np.log1p(m / (self.dim * self.ridge))
        return np.asarray(self.ridge**0.5 * self.norm + 0.5 * np.sqrt(log_det + 2.0 * np.log(1.0 / self.delta)))

    def beta(self, observations: FloatArray) -> FloatArray:
        """Return the Bernstein radius √λS + 8√(d log(1+Km/(dλ)) log(4m²/δ)) + 4√K log(4m²/δ), [B]."""
        m = np.maximum(observations, 1.0)
        log_det = self.dim * np.log1p(self.slots * m / (self.dim * self.ridge))
        log_delta = np.log(4.0 * m**2 / self.delta)
        return np.asarray(
            self.ridge**0.5 * self.norm + 8.0 * np.sqrt(log_det * log_delta) + 4.0 * self.slots**0.5 * log_delta
        )

    def update(self, state: SelfWeightedState, decision: Decision, evidence: Evidence) -> None:
        """Compute the weights from the Hoeffding regression before this round, then update both regressions."""
        v = self._variance(state, decision.rows)
        add_rows(state.hoeffding, decision.rows, evidence, 1.0)
        add_rows(state.bernstein, decision.rows, evidence, v**-0.5)
        state.observations += np.sign(evidence.exposure).sum(axis=1)

    def _variance(self, state: SelfWeightedState, rows: Rows) -> FloatArray:
        """Return v = clip(U_H, 1/K, 1) of the rows of a list, [B, K]."""
        x = features_of(rows)
        theta, F = state.hoeffding.centre()[:, 0], state.hoeffding.F[:, 0]
        U_H = np.matvec(x, theta) + self.alpha(state.observations)[:, None] * factor.width(F, x)
        return np.asarray(np.clip(U_H, 1.0 / self.slots, 1.0))

    def forget(self, state: SelfWeightedState, prior: SelfWeightedState, share: float) -> None:
        """Keep this share of both regressions and of the number of observations."""
        ridge = Ridge(self.dim, self.ridge)
        ridge.forget(state.hoeffding, prior.hoeffding, share)
        ridge.forget(state.bernstein, prior.bernstein, share)
        state.observations[...] = prior.observations + share * (state.observations - prior.observations)

    def believe(self, state: SelfWeightedState, decision: Decision, score: float, strength: float) -> None:
        """Add pseudo-observations to both regressions, with the present weights in the second."""
        v, once = self._variance(state, decision.rows), pseudo(state, decision, score)
        add_rows(state.hoeffding, decision.rows, once, strength**0.5)
        add_rows(state.bernstein, decision.rows, once, (strength / v) ** 0.5)
        state.observations += strength
