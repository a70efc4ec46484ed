"""Logistic regression with a Gaussian approximation of its posterior."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankloop.belief.counts import add_at
from rankloop.belief.linear import Linear, LogisticLinearState, blend_estimate, pseudo, remove_rows
from rankloop.errors import Unsupported
from rankloop.math import factor, logistic
from rankloop.math.linear import features_of
from rankloop.types import Decision, Evidence, FloatArray


@dataclass
class LogisticState(LogisticLinearState):
    """The estimate and, since item features are fixed, its sufficient statistic: counts per item."""

    n: FloatArray  # [B, L] observations
    s: FloatArray  # [B, L] clicks


@dataclass(frozen=True)
class LogisticMAP(Linear[LogisticState]):
    """θ̂ maximises the likelihood with penalty ridge/2·‖θ‖²; V is the Hessian at θ̂ (Laplace)."""

    dim: int
    items: int
    ridge: float = 1.0
    binary = True
    fractional = False

    def init(self, learners: int) -> LogisticState:
        """Return θ = 0 and V = ridge·I."""
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
        """Refuse other items or other features than the state was built for: the counts belong to items."""
        x = decision.request.features
        if x is None or x.shape[-2:] != (self.items, self.dim):
            raise Unsupported(
                f"this policy was built for {self.items} items with {self.dim} features each; "
                "where items change from round to round, set lasting=False in its setting."
            )

    def forget(self, state: LogisticState, prior: LogisticState, share: float) -> None:
        """Keep this share of the counts; the estimate is blended, and exact again once the next update refits it."""
        blend_estimate(state.F, state.theta, (prior.F, prior.theta), share)
        state.n[...] = prior.n + share * (state.n - prior.n)
        state.s[...] = prior.s + share * (state.s - prior.s)

    def believe(self, state: LogisticState, decision: Decision, score: float, strength: float) -> None:
        """Add pseudo-observations of the item, then refit."""
        H = self._refit(state, decision, _times(strength, pseudo(state, decision, score)))
        state.F[:, 0] = factor.from_precision(H)

    def disbelieve(self, state: LogisticState, decision: Decision, score: float, strength: float) -> None:
        """Remove the pseudo-observations, then refit."""
        state.F[:, 0] = factor.from_precision(self._without(state, decision, score, strength))

    def _without(self, state: LogisticState, decision: Decision, score: float, strength: float) -> FloatArray:
        """Subtract pseudo-observations from the counts, at least 0 after rounding, and refit."""
        items = decision.items[0]
        state.n[:, items] = np.maximum(state.n[:, items] - strength, 0.0)
        state.s[:, items] = np.clip(state.s[:, items] - strength * score, 0.0, state.n[:, items])
        return self._refit(state, decision, _times(0.0, pseudo(state, decision, score)))

    def _refit(self, state: LogisticState, decision: Decision, evidence: Evidence) -> FloatArray:
        x = decision.request.features
        if x is None:
            raise TypeError("a logistic belief needs features; `check` refuses requests without them")
        items = np.broadcast_to(decision.items, evidence.y.shape)
        add_at(state.n, items, evidence.exposure)
        add_at(state.s, items, evidence.y)
        state.theta[:, 0], H = logistic.fit(state.theta[:, 0], x, state.n, state.s, self.ridge)
        return H


@dataclass(frozen=True)
class LogisticGram(LogisticMAP):
    """θ̂ as in LogisticMAP; V = ridge·I + Σ xxᵀ, as in the bounds of generalised linear bandits."""

    def update(self, state: LogisticState, decision: Decision, evidence: Evidence) -> None:
        """Add the rows to V, then count and refit."""
        factor.add_rows(state.F, decision.rows.model, features_of(decision.rows) * evidence.exposure[:, :, None])
        self._refit(state, decision, evidence)

    def believe(self, state: LogisticState, decision: Decision, score: float, strength: float) -> None:
        """Add pseudo-observations of the item to V and to the counts, then refit."""
        seen = _times(strength, pseudo(state, decision, score))
        x = features_of(decision.rows) * np.sqrt(seen.exposure)[:, :, None]
        factor.add_rows(state.F, decision.rows.model, x)
        self._refit(state, decision, seen)

    def disbelieve(self, state: LogisticState, decision: Decision, score: float, strength: float) -> None:
        """Remove the pseudo-observations, then refit."""
        x = features_of(decision.rows)[0] * strength**0.5
        remove_rows(state.F, factor.slot_models(decision.rows.model, (1, len(x)))[0], x)
        self._without(state, decision, score, strength)


@dataclass(frozen=True)
class LogisticFrozen(LogisticMAP):
    """θ̂ as in LogisticMAP; V adds σ′(xᵀθ̂)xxᵀ at the θ̂ of the round and is never refreshed.

    Algorithm 3, line 9 of paper `prior`, as printed.
    """

    def update(self, state: LogisticState, decision: Decision, evidence: Evidence) -> None:
        """Add the curvature at the estimate that chose the list, then count and refit."""
        x = features_of(decision.rows)
        root = np.sqrt(logistic.curvature(np.matvec(x, state.theta[:, 0]))) * evidence.exposure
        factor.add_rows(state.F, decision.rows.model, x * root[:, :, None])
        self._refit(state, decision, evidence)

    def believe(self, state: LogisticState, decision: Decision, score: float, strength: float) -> None:
        """Add pseudo-observations of the item: curvature at the present estimate and counts, then refit."""
        seen = _times(strength, pseudo(state, decision, score))
        x = features_of(decision.rows)
        root = np.sqrt(seen.exposure * logistic.curvature(np.matvec(x, state.theta[:, 0])))
        factor.add_rows(state.F, decision.rows.model, x * root[:, :, None])
        self._refit(state, decision, seen)


def _times(weight: float, evidence: Evidence) -> Evidence:
    return Evidence(weight * evidence.y, weight * evidence.exposure)
