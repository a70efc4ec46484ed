"""Logistic regression with a Gaussian approximation of its posterior."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankloop.belief.linear import LinearState
from rankloop.errors import Unsupported
from rankloop.math import factor, logistic
from rankloop.math.arrays import add_at
from rankloop.math.linear import features_of
from rankloop.types import Decision, Evidence, FloatArray, Rows


@dataclass
class LogisticState(LinearState):
    """The estimate and, since item features are fixed, its sufficient statistic: counts per item."""

    theta: FloatArray  # [B, 1, d]
    n: FloatArray  # [B, L] observations
    s: FloatArray  # [B, L] clicks

    def centre(self) -> FloatArray:
        """The maximiser of the penalised likelihood."""
        return self.theta

    def expected(self, rows: Rows) -> FloatArray:
        """σ(xᵀθ̂): the probability of a click."""
        return np.asarray(logistic.sigmoid(self.mean(rows)))


@dataclass(frozen=True)
class LogisticMAP:
    """θ̂ maximises the likelihood with penalty ridge/2·‖θ‖²; V is the Hessian at θ̂ (Laplace)."""

    dim: int
    items: int
    ridge: float = 1.0
    binary = True
    fractional = False

    def init(self, learners: int) -> LogisticState:
        """θ = 0 and V = ridge·I."""
        return LogisticState(
            F=factor.initial(learners, 1, self.dim, self.ridge),
            theta=np.zeros((learners, 1, self.dim)),
            n=np.zeros((learners, self.items)),
            s=np.zeros((learners, self.items)),
        )

    def update(self, state: LogisticState, decision: Decision, evidence: Evidence) -> None:
        """Count, then refit from the last estimate."""
        H = self._refit(state, decision, evidence)
        state.F[:, 0] = factor.from_precision(H)

    def check(self, decision: Decision) -> None:
        """Counts belong to items: other items, or other features, would be another problem."""
        x = decision.request.features
        if x is None or x.shape[-2:] != (self.items, self.dim):
            raise Unsupported(
                f"this policy needs {self.dim} features of {self.items} items, as when it was built; "
                "where items change from round to round, say so in its setting (lasting=False)."
            )

    def _refit(self, state: LogisticState, decision: Decision, evidence: Evidence) -> FloatArray:
        x = decision.request.features
        if x is None:
            raise TypeError("features are checked before")
        add_at(state.n, decision.items, evidence.exposure)
        add_at(state.s, decision.items, evidence.y)
        state.theta[:, 0], H = logistic.fit(state.theta[:, 0], x, state.n, state.s, self.ridge)
        return H


@dataclass(frozen=True)
class LogisticGram(LogisticMAP):
    """θ̂ as in LogisticMAP; V = ridge·I + Σ xxᵀ, as bounds of generalised linear bandits have it."""

    def update(self, state: LogisticState, decision: Decision, evidence: Evidence) -> None:
        """Rows as they are, then count and refit."""
        factor.add_rows(state.F, decision.rows.model, features_of(decision.rows) * evidence.exposure[:, :, None])
        self._refit(state, decision, evidence)


@dataclass(frozen=True)
class LogisticFrozen(LogisticMAP):
    """θ̂ as in LogisticMAP; V adds σ′(xᵀθ̂)xxᵀ at the θ̂ of the round and is never refreshed.

    Algorithm 3, line 9 of paper `prior`, as printed.
    """

    def update(self, state: LogisticState, decision: Decision, evidence: Evidence) -> None:
        """Curvature at the estimate that chose the list, then count and refit."""
        x = features_of(decision.rows)
        root = np.sqrt(logistic.curvature(np.matvec(x, state.theta[:, 0]))) * evidence.exposure
        factor.add_rows(state.F, decision.rows.model, x * root[:, :, None])
        self._refit(state, decision, evidence)
