"""Regression of amounts and counts on rows that do not return, in O(d²) for a row: identity and Poisson link."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankloop.belief.linear import Linear, LogisticLinearState, blend_estimate, blend_precision
from rankloop.belief.logistic_rows import models_and_rows
from rankloop.errors import InvalidInput
from rankloop.math import factor
from rankloop.math.linear import features_of
from rankloop.math.links import MAX_LOG_MEAN
from rankloop.special_functions import wrightomega
from rankloop.types import Decision, Evidence, FloatArray, IntArray, Rows


@dataclass
class AmountState(LogisticLinearState):
    """θ̂ of M models, V = v_ridge·I + Σ xxᵀ of each, and the information H that an update divides by."""

    H: FloatArray  # [B, M, d, d], H Hᵀ = (ridge·I + Σ μ′ xxᵀ)⁻¹

    def expected(self, rows: Rows) -> FloatArray:
        """Return xᵀθ̂, the expected amount."""
        return self.mean(rows)


@dataclass
class CountState(AmountState):
    """As `AmountState`, where a score is the logarithm of the expected count."""

    def expected(self, rows: Rows) -> FloatArray:
        """Return exp(xᵀθ̂), the expected count; the score is clipped to [-MAX_LOG_MEAN, MAX_LOG_MEAN]."""
        return np.asarray(np.exp(np.clip(self.mean(rows), -MAX_LOG_MEAN, MAX_LOG_MEAN)))


@dataclass(frozen=True)
class OnlineAmounts(Linear[AmountState]):
    """Ridge regression with the identity link, one row after the other: θ += H⁻¹x(y - xᵀθ), H += xxᵀ before.

    The result is exactly the ridge regression on all rows.
    """

    dim: int
    models: int
    ridge: float = 1.0
    v_ridge: float = 1.0
    binary = False
    fractional = False

    def init(self, learners: int) -> AmountState:
        """Return θ = 0, V = v_ridge·I and H = ridge·I."""
        return AmountState(*self._start(learners))

    def _start(self, learners: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        return (
            factor.initial(learners, self.models, self.dim, self.v_ridge),
            np.zeros((learners, self.models, self.dim)),
            factor.initial(learners, self.models, self.dim, self.ridge),
        )

    def update(self, state: AmountState, decision: Decision, evidence: Evidence) -> None:
        """Take one step for each observed slot."""
        x = features_of(decision.rows)
        models = factor.slot_models(decision.rows.model, evidence.y.shape)
        seen = evidence.exposure > 0
        models = np.where(seen, models, 0)
        x = x * seen[:, :, None]
        factor.add_rows(state.F, models, x)
        for k in range(x.shape[1]):
            self._step(state, models[:, k], x[:, k], np.where(seen[:, k], evidence.y[:, k], 0.0))

    def _step(self, state: AmountState, m: IntArray, x: FloatArray, y: FloatArray, weight: float = 1.0) -> None:
        """Learn one row x [B, d] of outcome y [B] in the models m [B]; rows of zeros change nothing.

        The step is the exact maximum of the row's likelihood under the present Gaussian belief, so that no outcome,
        however large, carries the estimate beyond it: θ += g·H⁻¹x with g = weight·(y - μ(xᵀθ + g·xᵀH⁻¹x)).
        """
        b = np.arange(len(x))
        H = state.H[b, m]
        toward = factor.solve(H, x)
        z, reach = np.vecdot(state.theta[b, m], x), np.vecdot(toward, x)
        g = self._pull(z, reach, y, weight)
        state.theta[b, m] += np.where(reach > 0.0, g, 0.0)[:, None] * toward
        root = np.sqrt(weight * self._curvature(z + g * reach))
        factor.add_rows(state.H, m[:, None], (root[:, None] * x)[:, None, :])

    def _pull(self, z: FloatArray, reach: FloatArray, y: FloatArray, weight: float) -> FloatArray:
        """Return the root g of g = weight·(y - (z + g·reach))."""
        return np.asarray(weight * (y - z) / (1.0 + weight * reach))

    def _curvature(self, z: FloatArray) -> FloatArray:
        """Return μ′ = 1."""
        return np.ones_like(z)

    def forget(self, state: AmountState, prior: AmountState, share: float) -> None:
        """Keep this share of what was added to the prior's V, H and Hθ."""
        blend_precision(state.F, prior.F, share)
        blend_estimate(state.H, state.theta, (prior.H, prior.theta), share)

    def believe(self, state: AmountState, decision: Decision, score: float, strength: float) -> None:
        """Apply pseudo-observations as one exact step, then add their information."""
        B = len(state.theta)
        for model, row in zip(*models_and_rows(decision), strict=True):
            x, m = np.broadcast_to(row, (B, self.dim)), np.full(B, model)
            self._step(state, m, x, np.full(B, score), strength)
            factor.add_rows(state.F, m[:, None], strength**0.5 * x[:, None, :])


@dataclass(frozen=True)
class OnlineCounts(OnlineAmounts):
    """Poisson regression with the log link: μ = eᵘ, information μ·xxᵀ. Outcomes are at least 0.

    Each row takes an implicit step (see `_step`), with the information at the new estimate. Scores beyond
    ±MAX_LOG_MEAN count as that.
    """

    def init(self, learners: int) -> CountState:
        """Return θ = 0, V = v_ridge·I and H = ridge·I."""
        return CountState(*self._start(learners))

    def check_outcomes(self, y: FloatArray) -> None:
        """Refuse outcomes below 0, which no count is."""
        if (y < 0.0).any():
            raise InvalidInput("clicks", y.tolist(), "numbers of at least 0, since the link is 'poisson'")

    def _pull(self, z: FloatArray, reach: FloatArray, y: FloatArray, weight: float) -> FloatArray:
        """Return the root g of g = weight·(y - exp(z + g·reach)).

        With r = weight·reach, v = r·exp(z + g·reach) solves v + log v = log r + z + r·y: v is Wright's ω.
        """
        r = np.maximum(weight * reach, 1e-300)
        v = wrightomega(np.log(r) + np.clip(z, -700.0, 700.0) + r * y)  # e⁷⁰⁰ is still a finite number
        return np.asarray(weight * (y - v / r))

    def _curvature(self, z: FloatArray) -> FloatArray:
        """Return μ′ = eᶻ, z clipped to [-MAX_LOG_MEAN, MAX_LOG_MEAN]."""
        return np.asarray(np.exp(np.clip(z, -MAX_LOG_MEAN, MAX_LOG_MEAN)))
