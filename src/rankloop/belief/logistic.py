"""Logistic regression with a Gaussian approximation of its posterior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankloop.belief.counts import add_at
from rankloop.belief.linear import Linear, LinearState, LogisticLinearState, blend_estimate, pseudo, remove_rows
from rankloop.errors import Unsupported
from rankloop.math import factor, logistic
from rankloop.math.linear import features_of
from rankloop.types import BoolArray, Decision, Evidence, FloatArray, IntArray

FEW_ITEMS = 1024
"""Number of items up to which a fit reads the counts of all items; of more, it reads only those that were observed."""


@dataclass
class LogisticState(LogisticLinearState):
    """The estimate and its statistic: counts of each item at one row, and a Gaussian term of all other rows."""

    FEATURES: ClassVar = {**LinearState.FEATURES, "P": 2, "q": 1}

    n: FloatArray  # [B, L] observations
    s: FloatArray  # [B, L] clicks
    x: FloatArray  # [B, L, d] the row of each item that its counts belong to
    P: FloatArray  # [B, d, d] precision of former rows
    q: FloatArray  # [B, d] precision times mean of former rows


@dataclass(frozen=True)
class LogisticMAP(Linear[LogisticState]):
    """θ̂ maximises the likelihood with penalty ridge/2·‖θ‖²; V is the Hessian at θ̂ (Laplace).

    While an item keeps its row, its counts are a sufficient statistic and the fit is exact. When a list shows it with
    another row, what was counted at the former row becomes a Gaussian term, its Laplace approximation at θ̂.
    """

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
            x=np.zeros((learners, self.items, self.dim)),
            P=np.zeros((learners, self.dim, self.dim)),
            q=np.zeros((learners, self.dim)),
        )

    def update(self, state: LogisticState, decision: Decision, evidence: Evidence) -> None:
        """Count, then refit from the last estimate."""
        H = self._refit(state, decision, evidence)
        state.F[:, 0] = factor.from_precision(H)

    def check(self, decision: Decision) -> None:
        """Refuse other items or another number of features than the state was built for: the counts belong to items."""
        x, request = decision.rows.x, decision.request
        known = request.items == self.items if request.columns is None else request.columns.max() < self.items
        if x is None or x.shape[-1] != self.dim or not known:
            raise Unsupported(
                f"this policy was built for {self.items} items with {self.dim} features each; "
                "where items change from round to round, set lasting=False in its setting."
            )

    def forget(self, state: LogisticState, prior: LogisticState, share: float) -> None:
        """Keep this share of the counts; the estimate is blended, and exact again once the next update refits it."""
        blend_estimate(state.F, state.theta, (prior.F, prior.theta), share)
        state.n[...] = prior.n + share * (state.n - prior.n)
        state.s[...] = prior.s + share * (state.s - prior.s)
        state.P *= share
        state.q *= share

    def believe(self, state: LogisticState, decision: Decision, score: float, strength: float) -> None:
        """Add pseudo-observations of the item, then refit."""
        H = self._refit(state, decision, _times(strength, pseudo(state, decision, score)))
        state.F[:, 0] = factor.from_precision(H)

    def disbelieve(self, state: LogisticState, decision: Decision, score: float, strength: float) -> None:
        """Remove the pseudo-observations, then refit."""
        state.F[:, 0] = factor.from_precision(self._without(state, decision, score, strength))

    def _without(self, state: LogisticState, decision: Decision, score: float, strength: float) -> FloatArray:
        """Subtract pseudo-observations from the counts, at least 0 after rounding, and refit.

        Where the item was shown with another row since, they are part of the Gaussian term and are removed from it.
        """
        items, rows = decision.columns[0], features_of(decision.rows)[0]
        counted = (state.x[:, items] == rows).all(axis=-1)
        taken = np.where(counted, strength, 0.0)
        state.n[:, items] = np.maximum(state.n[:, items] - taken, 0.0)
        state.s[:, items] = np.clip(state.s[:, items] - taken * score, 0.0, state.n[:, items])
        if not counted.all():
            x = np.broadcast_to(rows, (*counted.shape, self.dim))
            _add_gaussian(state, x, taken - strength, (taken - strength) * score)
            values, vectors = np.linalg.eigh(state.P)
            state.P[...] = (vectors * np.maximum(values, 0.0)[:, None, :]) @ np.swapaxes(vectors, 1, 2)
        return self._refit(state, decision, _times(0.0, pseudo(state, decision, score)))

    def _refit(self, state: LogisticState, decision: Decision, evidence: Evidence) -> FloatArray:
        """Count the observed rows, fit θ̂ from the last estimate, and return the Hessian there."""
        items = np.broadcast_to(decision.columns, evidence.y.shape)
        _move(state, items, features_of(decision.rows), evidence.exposure > 0)
        add_at(state.n, items, evidence.exposure)
        add_at(state.s, items, evidence.y)
        x, n, s = state.x, state.n, state.s
        if self.items > FEW_ITEMS:
            observed = np.flatnonzero((n != 0.0).any(axis=0))
            x, n, s = x[:, observed], n[:, observed], s[:, observed]
        known = (state.P, state.q) if state.P.any() else None
        state.theta[:, 0], H = logistic.fit(state.theta[:, 0], x, n, s, self.ridge, known)
        return H


def _move(state: LogisticState, items: IntArray, x: FloatArray, seen: BoolArray) -> None:
    """Let the counts of the observed items of lists [B, K] belong to these rows x, [B or 1, K, d].

    What was counted at another row becomes part of the Gaussian term.
    """
    x = np.broadcast_to(x, (*items.shape, x.shape[-1]))
    rows = np.arange(len(items))[:, None]
    old, n = state.x[rows, items], state.n[rows, items]
    moved = seen & (n > 0.0) & (old != x).any(axis=2)
    if moved.any():
        _add_gaussian(state, old, np.where(moved, n, 0.0), np.where(moved, state.s[rows, items], 0.0))
        b, k = np.nonzero(moved)
        state.n[b, items[b, k]], state.s[b, items[b, k]] = 0.0, 0.0
    b, k = np.nonzero(seen)
    state.x[b, items[b, k]] = x[b, k]


def _add_gaussian(state: LogisticState, x: FloatArray, n: FloatArray, s: FloatArray) -> None:
    """Add the Laplace approximation, at θ̂, of n trials with s successes at rows x [B, K, d], each [B, K]."""
    z = np.matvec(x, state.theta[:, 0])
    weight = n * logistic.curvature(z)
    state.P += np.swapaxes(weight[:, :, None] * x, 1, 2) @ x
    state.q += np.vecmat(weight * z + s - n * logistic.sigmoid(z), x)


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
