"""Logistic regression by online Newton steps: O(d²) for an observation, no rows stored."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankloop.belief.linear import Linear, LogisticLinearState, blend_estimate
from rankloop.math import factor
from rankloop.math.linear import features_of
from rankloop.math.logistic import pull, sigmoid
from rankloop.types import Decision, Evidence


@dataclass
class NewtonState(LogisticLinearState):
    """The current iterate θ [B, 1, d]."""


@dataclass(frozen=True)
class OnlineNewton(Linear[NewtonState]):
    """For the observed slots in order, o = ±1: V += xxᵀ, θ += rate·σ(-o θᵀx)·o·V⁻¹x, from V = ridge·I.

    With a bound D, θ is first projected on {|θᵀx| ≤ D} in the norm of V before x is added.
    """

    dim: int
    ridge: float
    rate: float
    bound: float = np.inf  # D
    binary = True
    fractional = False

    def init(self, learners: int) -> NewtonState:
        """Return θ = 0 and V = ridge·I."""
        F = factor.initial(learners, 1, self.dim, self.ridge)
        return NewtonState(F, np.zeros((learners, 1, self.dim)))

    def update(self, state: NewtonState, decision: Decision, evidence: Evidence) -> None:
        """Take one Newton step for each observed slot."""
        x = features_of(decision.rows) * evidence.exposure[:, :, None]
        o = 2.0 * evidence.y - 1.0
        theta = state.theta[:, 0]
        gain = factor.add_rows(state.F, decision.rows.model, x)
        for k in range(x.shape[1]):
            z = np.vecdot(theta, x[:, k])
            if np.isfinite(self.bound):
                # V⁻¹x before and after x are parallel, so the projection moves θ along the gain.
                excess = z - np.clip(z, -self.bound, self.bound)
                reach = np.vecdot(gain[:, k], x[:, k])
                theta -= np.where(excess != 0.0, excess / np.where(reach > 0.0, reach, 1.0), 0.0)[:, None] * gain[:, k]
                z -= excess
            step = self.rate * o[:, k] * sigmoid(-o[:, k] * z)
            theta += step[:, None] * gain[:, k]

    def forget(self, state: NewtonState, prior: NewtonState, share: float) -> None:
        """Keep this share of what was added to the prior's V and Vθ."""
        blend_estimate(state.F, state.theta, (prior.F, prior.theta), share)

    def believe(self, state: NewtonState, decision: Decision, score: float, strength: float) -> None:
        """Apply pseudo-observations as one exact step in the norm of V, then add strength·xxᵀ to V."""
        theta = state.theta[:, 0]
        for row in features_of(decision.rows)[0]:
            x = np.broadcast_to(row, theta.shape)
            toward = factor.solve(state.F[:, 0], x)
            theta += pull(np.vecdot(theta, x), np.vecdot(toward, x), score, strength)[:, None] * toward
            factor.add_rows(state.F, 0, strength**0.5 * x[:, None, :])
