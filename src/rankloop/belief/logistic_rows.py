"""Logistic regressions on rows that do not return: exact on all of them, or online in O(d²)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankloop.belief.linear import LinearState
from rankloop.math import factor, logistic
from rankloop.math.linear import features_of
from rankloop.types import Decision, Evidence, FloatArray, IntArray, Rows


@dataclass
class RowsState(LinearState):
    """θ̂ of M models, V = v_ridge·I + Σ xxᵀ of each, and the rows that it has seen."""

    theta: FloatArray  # [B, M, d]
    x: FloatArray  # [B, M, R, d]
    y: FloatArray  # [B, M, R]
    n: IntArray  # [B, M] rows seen; the last R of them are kept

    def centre(self) -> FloatArray:
        """The maximisers of the penalised likelihoods."""
        return self.theta

    def expected(self, rows: Rows) -> FloatArray:
        """σ(xᵀθ̂): the probability of a click."""
        return np.asarray(logistic.sigmoid(self.mean(rows)))


@dataclass(frozen=True)
class LogisticRows:
    """Exact ridge logistic regression on all rows, refitted from the last estimate where rows came.

    The cost of a round grows with the rows, and `capacity` of them are set aside for each model: as many as its horizon
    needs. Beyond the horizon the oldest row makes room for the newest, and the fit is that of the last `capacity` rows.
    """

    dim: int
    models: int
    capacity: int  # R
    ridge: float = 1.0
    v_ridge: float = 1.0
    binary = True
    fractional = False

    def init(self, learners: int) -> RowsState:
        """θ = 0, V = v_ridge·I, no rows."""
        shape = (learners, self.models)
        return RowsState(
            F=factor.initial(learners, self.models, self.dim, self.v_ridge),
            theta=np.zeros((*shape, self.dim)),
            x=np.zeros((*shape, self.capacity, self.dim)),
            y=np.zeros((*shape, self.capacity)),
            n=np.zeros(shape, dtype=np.int64),
        )

    def update(self, state: RowsState, decision: Decision, evidence: Evidence) -> None:
        """Keep the observed rows and refit the models that they feed."""
        x = features_of(decision.rows)
        models = factor.slot_models(decision.rows.model, evidence.y.shape)
        seen = evidence.exposure > 0
        for k in range(x.shape[1]):
            b = np.flatnonzero(seen[:, k])
            m = models[b, k]
            at = state.n[b, m] % self.capacity
            state.x[b, m, at], state.y[b, m, at] = x[b, k], evidence.y[b, k]
            state.n[b, m] += 1
        factor.add_rows(state.F, np.where(seen, models, 0), x * seen[:, :, None])
        fed = np.zeros(state.n.shape, dtype=np.bool_)
        fed[np.nonzero(seen)[0], models[seen]] = True
        rows = np.nonzero(fed)
        most = min(int(state.n[rows].max(initial=0)), self.capacity)
        used = (np.arange(most) < state.n[rows][:, None]).astype(np.float64)
        xs, ys = state.x[:, :, :most][rows], state.y[:, :, :most][rows]
        state.theta[rows], _ = logistic.fit(state.theta[rows], xs, used, ys, self.ridge)


@dataclass
class OnlineState(LinearState):
    """θ̂ of M models, V = v_ridge·I + Σ xxᵀ of each, and the curvature that an update divides by."""

    theta: FloatArray  # [B, M, d]
    H: FloatArray  # [B, M, d, d], H Hᵀ = (ridge·I + Σ σ′ xxᵀ)⁻¹

    def centre(self) -> FloatArray:
        """The running estimates."""
        return self.theta

    def expected(self, rows: Rows) -> FloatArray:
        """σ(xᵀθ̂): the probability of a click."""
        return np.asarray(logistic.sigmoid(self.mean(rows)))


@dataclass(frozen=True)
class OnlineLogistic:
    """Recursive Laplace: curvature σ′(θᵀx)xxᵀ is added, then θ += H⁻¹x(y - σ(θᵀx)). O(d²) for a row."""

    dim: int
    models: int
    ridge: float = 1.0
    v_ridge: float = 1.0
    binary = True
    fractional = False

    def init(self, learners: int) -> OnlineState:
        """θ = 0, V = v_ridge·I, H = ridge·I."""
        return OnlineState(
            F=factor.initial(learners, self.models, self.dim, self.v_ridge),
            theta=np.zeros((learners, self.models, self.dim)),
            H=factor.initial(learners, self.models, self.dim, self.ridge),
        )

    def update(self, state: OnlineState, decision: Decision, evidence: Evidence) -> None:
        """One step for each observed slot."""
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
