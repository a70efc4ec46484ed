"""Logistic regression by recursive Laplace approximation: O(d²) for an observation, no rows stored."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankloop.belief.linear import Linear, LogisticLinearState, blend_estimate
from rankloop.math import factor, logistic
from rankloop.math.linear import features_of
from rankloop.types import Decision, Evidence


@dataclass
class LaplaceState(LogisticLinearState):
    """N(θ̂, V⁻¹), θ̂ [B, 1, d]."""


@dataclass(frozen=True)
class RecursiveLaplace(Linear[LaplaceState]):
    """For the observed slots in order: V += σ′(θ̂ᵀx)xxᵀ, then θ̂ += V⁻¹x(y - σ(θ̂ᵀx)), from V = ridge·I and θ̂ = 0.

    Every step replaces the likelihood of a row by its Gaussian approximation at the present θ̂. It is the form that
    `LogisticMAP` takes where rows do not return.
    """

    dim: int
    ridge: float = 1.0
    binary = True
    fractional = False

    def init(self, learners: int) -> LaplaceState:
        """Return θ̂ = 0 and V = ridge·I."""
        return LaplaceState(factor.initial(learners, 1, self.dim, self.ridge), np.zeros((learners, 1, self.dim)))

    def update(self, state: LaplaceState, decision: Decision, evidence: Evidence) -> None:
        """Take one step for each observed slot."""
        x = features_of(decision.rows) * evidence.exposure[:, :, None]
        theta = state.theta[:, 0]
        for k in range(x.shape[1]):
            z = np.vecdot(theta, x[:, k])
            root = np.sqrt(logistic.curvature(z))[:, None]
            # The gain is V⁻¹ of the row √σ′·x; an unobserved row is 0, and so is its gain.
            gain = factor.add_rows(state.F, 0, (root * x[:, k])[:, None, :])[:, 0] / np.maximum(root, 1e-150)
            theta += (evidence.y[:, k] - logistic.sigmoid(z))[:, None] * gain

    def forget(self, state: LaplaceState, prior: LaplaceState, share: float) -> None:
        """Keep this share of what was added to the prior's V and Vθ̂."""
        blend_estimate(state.F, state.theta, (prior.F, prior.theta), share)

    def believe(self, state: LaplaceState, decision: Decision, score: float, strength: float) -> None:
        """Apply pseudo-observations as one exact step in the norm of V, then add their curvature to V."""
        theta = state.theta[:, 0]
        for row in features_of(decision.rows)[0]:
            x = np.broadcast_to(row, theta.shape)
            toward = factor.solve(state.F[:, 0], x)
            theta += logistic.pull(np.vecdot(theta, x), np.vecdot(toward, x), score, strength)[:, None] * toward
            root = np.sqrt(strength * logistic.curvature(np.vecdot(theta, x)))
            factor.add_rows(state.F, 0, (root[:, None] * x)[:, None, :])
