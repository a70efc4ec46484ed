"""Beliefs about hashed sparse rows: N independent coefficients, at a cost that does not depend on their number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from rankloop.belief.base import Summarising, SummaryState
from rankloop.belief.linear import pseudo
from rankloop.math import factor
from rankloop.math.diagonal_kernels import (
    LAPLACE,
    LINEAR,
    NEWTON,
    TABLES,
    diagonal_draws,
    diagonal_means,
    diagonal_widths,
    learn_diagonal,
)
from rankloop.math.linear import features_of, stacked
from rankloop.math.logistic import curvature, pull, sigmoid
from rankloop.types import Decision, Evidence, FloatArray, IntArray, Rows, Score


@dataclass
class DiagonalState(SummaryState):
    """N(θ̂, diag(v)) for each of M parameter vectors."""

    theta: FloatArray  # [B, M, N]
    variance: FloatArray  # [B, M, N], v

    def mean(self, rows: Rows) -> FloatArray:
        """Return xᵀθ̂."""
        x, model = _given(rows)
        out = np.empty((len(self.theta), x.shape[1]))
        diagonal_means(self.theta, model, x, out)
        return out

    def width(self, rows: Rows) -> FloatArray:
        """Return √(Σ x_j²v_j)."""
        x, model = _given(rows)
        out = np.empty((len(self.theta), x.shape[1]))
        diagonal_widths(self.variance, model, x, hash_slots(x), out)
        return out

    def draw(self, scale: FloatArray | float, rng: np.random.Generator) -> Score:
        """Return xᵀθ̃ with one θ̃ ~ N(θ̂, scale²·diag(v)) per model; only the coefficients of the rows are drawn."""
        B = len(self.theta)
        keys = rng.integers(0, 2**64, size=B, dtype=np.uint64)
        spread = np.broadcast_to(np.asarray(scale, dtype=np.float64).reshape(-1), (B,)).copy()

        def score(rows: Rows) -> FloatArray:
            x, model = _given(rows)
            out = np.empty((B, x.shape[1]))
            diagonal_draws(self.theta, self.variance, spread, keys, TABLES, model, x, out)
            return out

        return score


@dataclass
class DiagonalLogisticState(DiagonalState):
    """An estimate of log-odds: P(click) = σ(xᵀθ̂)."""

    def expected(self, rows: Rows) -> FloatArray:
        """Return σ(xᵀθ̂), the probability of a click."""
        return np.asarray(sigmoid(self.mean(rows)))


@dataclass(frozen=True)
class Diagonal(Summarising[DiagonalState], Protocol):
    """N(θ̂, diag(v)), updated by assumed-density filtering.

    Every observation is learned exactly, given the independent coefficients before it; of the result, the mean and the
    variance of each coefficient are kept, and the covariances are dropped. Only the coefficients of the row change. The
    result depends on the order of the observations, so that an outcome cannot be amended later.
    """

    positions: int  # P of a row
    coefficients: int  # N, a power of two
    ridge: float = 1.0  # 1/v at first
    rate: float = 1.0  # precision of an outcome, or step size
    models: int = 1
    kind: ClassVar[int]

    @property
    def row_features(self) -> int:
        """The numbers of a row: values, and the coefficients that these belong to."""
        return 2 * self.positions

    def update(self, state: DiagonalState, decision: Decision, evidence: Evidence) -> None:
        """Learn from the observed slots in order."""
        self._learn(state, decision.rows, evidence, self.rate, one_learner=False)

    def catch_up(self, state: DiagonalState, decisions: Decision, evidence: Evidence) -> bool:
        """Learn from T lists [T, K] of one learner in order, with the same result as T updates, bit for bit."""
        self._learn(state, decisions.rows, evidence, self.rate, one_learner=True)
        return True

    def _learn(self, state: DiagonalState, rows: Rows, evidence: Evidence, rate: float, *, one_learner: bool) -> None:
        x = np.ascontiguousarray(features_of(rows))
        y, exposure = np.ascontiguousarray(evidence.y), np.ascontiguousarray(evidence.exposure)
        model = factor.slot_models(rows.model, y.shape)
        if x.shape != (*y.shape, self.row_features) or model.max(initial=0) >= self.models or model.min(initial=0) < -1:
            # Compiled loops do not check their bounds.
            raise ValueError(f"rows of shape {x.shape} do not fit {self.models} models and {y.shape} outcomes")
        learn_diagonal(state.theta, state.variance, self.kind, rate, model, x, y, exposure, hash_slots(x), one_learner)

    def forget(self, state: DiagonalState, prior: DiagonalState, share: float) -> None:
        """Keep this share of what was added to the prior's 1/v and θ/v."""
        theta, variance, first, before = state.theta, state.variance, prior.theta, prior.variance
        precision = share / variance + (1.0 - share) / before
        theta[...] = (share * theta / variance + (1.0 - share) * first / before) / precision
        variance[...] = 1.0 / precision


@dataclass(frozen=True)
class DiagonalRidge(Diagonal):
    """Linear regression with known noise variance 1/rate, as `Ridge`; an observation of exposure e has the row e·x."""

    kind: ClassVar[int] = LINEAR
    binary = False
    fractional = True

    def init(self, learners: int) -> DiagonalState:
        """Return θ̂ = 0 and v = 1/ridge."""
        shape = (learners, self.models, self.coefficients)
        return DiagonalState(np.zeros(shape), np.full(shape, 1.0 / self.ridge))

    def believe(self, state: DiagonalState, decision: Decision, score: float, strength: float) -> None:
        """Learn the score with `strength` times the precision of an outcome."""
        seen = pseudo(state, decision, score)
        self._learn(state, _for_each(decision.rows, seen), seen, self.rate * strength, one_learner=False)


class _Logistic(Diagonal, Protocol):
    """Logistic regression."""

    @property
    def binary(self) -> bool:
        """Outcomes are clicks."""
        return True

    @property
    def fractional(self) -> bool:
        """An exposure is 0 or 1."""
        return False

    def init(self, learners: int) -> DiagonalLogisticState:
        """Return θ̂ = 0 and v = 1/ridge."""
        shape = (learners, self.models, self.coefficients)
        return DiagonalLogisticState(np.zeros(shape), np.full(shape, 1.0 / self.ridge))


@dataclass(frozen=True)
class DiagonalLaplace(_Logistic):
    """Logistic regression by recursive Laplace approximation, as `RecursiveLaplace`."""

    kind: ClassVar[int] = LAPLACE

    def believe(self, state: DiagonalState, decision: Decision, score: float, strength: float) -> None:
        """Apply pseudo-observations as one exact step in the norm of 1/v, then add their curvature to 1/v."""
        _pull(state, decision, score, strength, curved=True)


@dataclass(frozen=True)
class DiagonalNewton(_Logistic):
    """Logistic regression by online Newton steps of size `rate`, as `OnlineNewton`."""

    kind: ClassVar[int] = NEWTON

    def believe(self, state: DiagonalState, decision: Decision, score: float, strength: float) -> None:
        """Apply pseudo-observations as one exact step in the norm of 1/v, then add `strength` observations to 1/v."""
        _pull(state, decision, score, strength, curved=False)


def _pull(state: DiagonalState, decision: Decision, score: float, strength: float, *, curved: bool) -> None:
    """Move the estimate of a row towards a score as `strength` observations do, in every learner."""
    mask = state.theta.shape[2] - 1
    for row in features_of(decision.rows)[0]:
        P = len(row) // 2
        at, of_position = np.unique(row[P:].astype(np.int64) & mask, return_inverse=True)
        x = np.bincount(of_position, weights=row[:P], minlength=len(at))
        theta, v = state.theta[:, 0, at], state.variance[:, 0, at]
        theta += pull(theta @ x, v @ x**2, score, strength)[:, None] * v * x
        weight = strength * curvature(theta @ x) if curved else np.full(len(theta), strength)
        own = x**2 * v
        rest = np.maximum(own.sum(axis=1, keepdims=True) - own, 0.0)
        state.theta[:, 0, at] = theta
        state.variance[:, 0, at] = v * (1.0 + weight[:, None] * rest) / (1.0 + weight * own.sum(axis=1))[:, None]


def hash_slots(x: FloatArray) -> IntArray:
    """Return an empty hash table for the coefficients of one row of x [..., 2·P]."""
    return np.full(1 << max(int(x.shape[-1]), 1).bit_length(), -1, dtype=np.int64)


def _given(rows: Rows) -> tuple[FloatArray, IntArray]:
    """Return sparse rows [1 or B, L, 2·P] and their models [L]."""
    x = stacked(features_of(rows))
    return x, np.ascontiguousarray(factor.slot_models(rows.model, (x.shape[1],)))


def _for_each(rows: Rows, evidence: Evidence) -> Rows:
    """Return a prior's rows [1, n, 2·P] for each learner."""
    x = features_of(rows)
    return Rows(rows.model, np.broadcast_to(x, (len(evidence.y), *x.shape[1:])))
