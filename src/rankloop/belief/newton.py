"""Logistic regression by online Newton steps: O(d²) for an observation, nothing kept."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankloop.belief.linear import LinearState
from rankloop.math import factor
from rankloop.math.linear import features_of
from rankloop.math.logistic import sigmoid
from rankloop.types import Decision, Evidence, FloatArray, Rows


@dataclass
class NewtonState(LinearState):
    """The current iterate."""

    theta: FloatArray  # [B, 1, d]

    def centre(self) -> FloatArray:
        """The current iterate."""
        return self.theta

    def expected(self, rows: Rows) -> FloatArray:
        """σ(xᵀθ̂): the probability of a click."""
        return np.asarray(sigmoid(self.mean(rows)))


@dataclass(frozen=True)
class OnlineNewton:
    """For the observed slots in order, o = ±1: V += xxᵀ, θ += rate·σ(-o θᵀx)·o·V⁻¹x, from V = ridge·I.

    With a bound D, θ is first projected on {|θᵀx| ≤ D} in the norm of V as it was before x.
    """

    dim: int
    ridge: float
    rate: float
    bound: float = np.inf  # D
    binary = True
    fractional = False

    def init(self, learners: int) -> NewtonState:
        """θ = 0 and V = ridge·I."""
        F = factor.initial(learners, 1, self.dim, self.ridge)
        return NewtonState(F, np.zeros((learners, 1, self.dim)))

    def update(self, state: NewtonState, decision: Decision, evidence: Evidence) -> None:
        """One Newton step for each observed slot."""
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
