"""Logistic regression on rows that do not return: an exact fit to all of them, or online steps in O(d²)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rankloop.belief.linear import Linear, LogisticLinearState, blend_estimate, blend_precision, remove_rows
from rankloop.errors import Unsupported
from rankloop.math import factor, logistic
from rankloop.math.linear import features_of
from rankloop.types import BoolArray, Decision, Evidence, FloatArray, IntArray

MAX_ROWS = 2**20
"""Number of rows that an exact fit stores at most."""


@dataclass
class RowsState(LogisticLinearState):
    """θ̂ of M models, V = v_ridge·I + Σ w xxᵀ of each, and the stored rows."""

    x: FloatArray  # [B, M, R, d]
    y: FloatArray  # [B, M, R]
    w: FloatArray  # [B, M, R] weights: 1 of an observation, less where it is being forgotten, more of a prior
    prior: BoolArray  # [B, M, R] rows of priors, which are not forgotten
    n: IntArray  # [B, M] rows seen; the last R of them are kept

    def of_models(self, models: IntArray) -> RowsState:
        """Return the estimates of these models [n], without the stored rows, which no score reads."""
        none: dict[str, Any] = {name: getattr(self, name)[:, :, :0] for name in ("x", "y", "w", "prior")}
        return super(RowsState, replace(self, **none)).of_models(models)


@dataclass(frozen=True)
class LogisticRows(Linear[RowsState]):
    """Exact ridge logistic regression on all rows, refitted from the last estimate whenever a row arrives.

    The cost of a round grows with the number of rows. Each model has memory for `capacity` rows, as many as its horizon
    needs; beyond the horizon the newest row replaces the oldest, and the fit is that of the last `capacity` rows.
    """

    dim: int
    models: int
    capacity: int  # R
    ridge: float = 1.0
    v_ridge: float = 1.0
    binary = True
    fractional = False

    def __post_init__(self) -> None:
        """Refuse a memory of more rows than an exact fit may store."""
        if self.capacity > MAX_ROWS:
            raise Unsupported(
                f"an exact fit stores at most {MAX_ROWS:,} rows of a model, and {self.capacity:,} were asked for; "
                "choose an online fit, which stores none, or a shorter horizon."
            )

    def init(self, learners: int) -> RowsState:
        """Return θ = 0, V = v_ridge·I and no rows."""
        shape = (learners, self.models)
        return RowsState(
            F=factor.initial(learners, self.models, self.dim, self.v_ridge),
            theta=np.zeros((*shape, self.dim)),
            x=np.zeros((*shape, self.capacity, self.dim)),
            y=np.zeros((*shape, self.capacity)),
            w=np.zeros((*shape, self.capacity)),
            prior=np.zeros((*shape, self.capacity), dtype=np.bool_),
            n=np.zeros(shape, dtype=np.int64),
        )

    def update(self, state: RowsState, decision: Decision, evidence: Evidence) -> None:
        """Store the observed rows and refit the models that they feed."""
        x = features_of(decision.rows)
        models = factor.slot_models(decision.rows.model, evidence.y.shape)
        seen = evidence.exposure > 0
        for k in range(x.shape[1]):
            b = np.flatnonzero(seen[:, k])
            self._keep(state, b, models[b, k], x[b, k], evidence.y[b, k], 1.0, prior=False)
        factor.add_rows(state.F, np.where(seen, models, 0), x * seen[:, :, None])
        fed = np.zeros(state.n.shape, dtype=np.bool_)
        fed[np.nonzero(seen)[0], models[seen]] = True
        self._refit(state, fed)

    def _keep(
        self,
        state: RowsState,
        b: IntArray,
        m: IntArray,
        x: FloatArray,
        y: FloatArray | float,
        w: float,
        *,
        prior: bool,
    ) -> None:
        """Store a row [n, d] for each of these learners [n] and models [n]; it replaces the oldest in a full memory."""
        at = state.n[b, m] % self.capacity
        state.x[b, m, at], state.y[b, m, at], state.w[b, m, at], state.prior[b, m, at] = x, y, w, prior
        state.n[b, m] += 1

    def _refit(self, state: RowsState, fed: BoolArray) -> None:
        """Refit θ̂ of the learners and models [B, M] whose rows changed."""
        rows = np.nonzero(fed)
        most = min(int(state.n[rows].max(initial=0)), self.capacity)
        xs, ys, ws = (array[:, :, :most][rows] for array in (state.x, state.y, state.w))
        state.theta[rows], _ = logistic.fit(state.theta[rows], xs, ws, ws * ys, self.ridge)

    def forget(self, state: RowsState, prior: RowsState, share: float) -> None:
        """Multiply the weights of rows by this share, except rows of priors, then refit."""
        state.w[~state.prior] *= share
        blend_precision(state.F, prior.F, share)
        self._refit(state, np.ones(state.n.shape, dtype=np.bool_))

    def believe(self, state: RowsState, decision: Decision, score: float, strength: float) -> None:
        """Store a row of this weight for each model that the item feeds, then refit."""
        B, fed = len(state.n), np.zeros(state.n.shape, dtype=np.bool_)
        for model, x in zip(*models_and_rows(decision), strict=True):
            m = np.full(B, model)
            self._keep(state, np.arange(B), m, np.broadcast_to(x, (B, self.dim)), score, strength, prior=True)
            factor.add_rows(state.F, m[:, None], np.broadcast_to(strength**0.5 * x, (B, 1, self.dim)))
            fed[:, model] = True
        self._refit(state, fed)

    def disbelieve(self, state: RowsState, decision: Decision, score: float, strength: float) -> None:
        """Set the weight of the prior's rows to 0 where they are still stored, then refit."""
        fed = np.zeros(state.n.shape, dtype=np.bool_)
        for model, x in zip(*models_and_rows(decision), strict=True):
            same = state.prior[:, model] & (state.y[:, model] == score) & (state.w[:, model] == strength)
            same &= (state.x[:, model] == x).all(axis=-1)
            b = np.flatnonzero(same.any(axis=1))
            at = same[b].argmax(axis=1)
            state.w[b, model, at], state.prior[b, model, at] = 0.0, False
            without = state.F[b]
            remove_rows(without, np.array([model]), strength**0.5 * x[None])
            state.F[b] = without
            fed[b, model] = True
        self._refit(state, fed)


@dataclass
class OnlineState(LogisticLinearState):
    """θ̂ of M models, V = v_ridge·I + Σ xxᵀ of each, and the curvature H that an update divides by."""

    H: FloatArray  # [B, M, d, d], H Hᵀ = (ridge·I + Σ σ′ xxᵀ)⁻¹


@dataclass(frozen=True)
class OnlineLogistic(Linear[OnlineState]):
    """Recursive Laplace approximation: H += σ′(θᵀx)xxᵀ, then θ += H⁻¹x(y - σ(θᵀx)). O(d²) for a row."""

    dim: int
    models: int
    ridge: float = 1.0
    v_ridge: float = 1.0
    binary = True
    fractional = False

    def init(self, learners: int) -> OnlineState:
        """Return θ = 0, V = v_ridge·I and H = ridge·I."""
        return OnlineState(
            F=factor.initial(learners, self.models, self.dim, self.v_ridge),
            theta=np.zeros((learners, self.models, self.dim)),
            H=factor.initial(learners, self.models, self.dim, self.ridge),
        )

    def update(self, state: OnlineState, decision: Decision, evidence: Evidence) -> None:
        """Take one step for each observed slot."""
        x = features_of(decision.rows)
        models = factor.slot_models(decision.rows.model, evidence.y.shape)
        seen = evidence.exposure > 0
        models = np.where(seen, models, 0)
        x = x * seen[:, :, None]
        factor.add_rows(state.F, models, x)
        b = np.arange(len(x))
        for k in range(x.shape[1]):
            m, xk = models[:, k], x[:, k]
            z = np.vecdot(state.theta[b, m], xk)
            root = np.sqrt(logistic.curvature(z))[:, None]
            gain = factor.add_rows(state.H, m[:, None], (root * xk)[:, None, :])[:, 0] / np.maximum(root, 1e-150)
            error = np.where(seen[:, k], evidence.y[:, k] - logistic.sigmoid(z), 0.0)
            state.theta[b, m] += error[:, None] * gain

    def forget(self, state: OnlineState, prior: OnlineState, share: float) -> None:
        """Keep this share of what was added to the prior's V, H and Hθ."""
        blend_precision(state.F, prior.F, share)
        blend_estimate(state.H, state.theta, (prior.H, prior.theta), share)

    def believe(self, state: OnlineState, decision: Decision, score: float, strength: float) -> None:
        """Apply pseudo-observations as one exact step in the norm of H, then add their curvature to H."""
        B = len(state.theta)
        for model, row in zip(*models_and_rows(decision), strict=True):
            x = np.broadcast_to(row, (B, self.dim))
            theta, m = state.theta[:, model], np.full((B, 1), model)
            toward = factor.solve(state.H[:, model], x)
            theta += logistic.pull(np.vecdot(theta, x), np.vecdot(toward, x), score, strength)[:, None] * toward
            root = np.sqrt(strength * logistic.curvature(np.vecdot(theta, x)))
            factor.add_rows(state.H, m, (root[:, None] * x)[:, None, :])
            factor.add_rows(state.F, m, strength**0.5 * x[:, None, :])


def models_and_rows(decision: Decision) -> tuple[list[int], FloatArray]:
    """Return model and features of each row of a prior's list."""
    x = features_of(decision.rows)[0]
    return factor.slot_models(decision.rows.model, (1, len(x)))[0].tolist(), x
