"""The hybrid belief equals a dense regression with one coefficient for each item, and its parts keep their promises."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from rankloop.belief.hybrid import Hybrid
from rankloop.belief.hybrid_fit import PRIOR_SD, prior_mean, refresh
from rankloop.belief.hybrid_state import HybridState
from rankloop.design.hybrid_rows import HybridRows
from rankloop.types import Decision, Evidence, FloatArray, Request

L, K, D = 12, 3, 4
Q = HybridRows(D).row_features or 0


@dataclass
class DenseRegression:
    """A ridge regression with one coefficient for each item, from all observations."""

    tau2: float
    s2: float
    theta0: FloatArray
    X: list[FloatArray] = field(default_factory=list)
    y: list[float] = field(default_factory=list)
    weight: list[float] = field(default_factory=list)

    def add(self, item: int, x: FloatArray, y: float, lam: float) -> None:
        """Add an observation of exposure λ."""
        effect = np.zeros(L)
        effect[item] = 1.0
        self.X.append(lam * np.concatenate([x[1:], effect]))
        self.y.append(y - lam * x[0])
        self.weight.append(1.0)

    def posterior(self) -> tuple[FloatArray, FloatArray]:
        """Return mean and covariance of (θ, b)."""
        X, y, w = np.array(self.X), np.array(self.y), np.array(self.weight) / self.s2
        p = len(self.theta0)
        precision = np.diag(np.concatenate([np.full(p, PRIOR_SD**-2), np.full(L, 1.0 / self.tau2)]))
        shift = precision @ np.concatenate([self.theta0, np.zeros(L)])
        covariance = np.linalg.inv(precision + X.T @ (w[:, None] * X))
        return covariance @ (shift + X.T @ (w * y)), covariance


def joint(state: HybridState) -> tuple[FloatArray, FloatArray]:
    """Mean and covariance of (θ, b) that a state of one learner stands for."""
    theta, cov = state.coefficients()[0], state.F[0] @ state.F[0].T
    c = state.n[0] + state.s2[0] / state.tau2[0]
    slope = -state.S[0][:, 1:] / c[:, None]  # E[b | θ] is linear in θ
    mean = np.concatenate([theta[1:], (state.Y[0] - state.S[0] @ theta) / c])
    corner = slope @ cov
    own = slope @ cov @ slope.T + np.diag(state.s2[0] / c)
    return mean, np.block([[cov, corner.T], [corner, own]])


def request(rng: np.random.Generator, features: FloatArray) -> Request:
    """A request in which some items have scores, others ranks."""
    scores = np.where(np.arange(L) % 3 == 0, 0.1 + 0.01 * np.arange(L), np.nan)
    ranks = np.where(np.arange(L) % 3 == 1, np.arange(L), np.nan)
    return Request(1, L, K, features, scores=scores, ranks=ranks)


@pytest.mark.parametrize("rows", ["fixed", "changing", "mixed"])
@pytest.mark.parametrize("learns_bias", [False, True])
@pytest.mark.parametrize("rounds", [5, 10_000])
def test_posterior_equals_a_dense_regression(rows: str, learns_bias: bool, rounds: int) -> None:
    rng = np.random.default_rng(3)
    design, belief = HybridRows(D), Hybrid(L, K, Q, learns_bias=learns_bias, adapt=None)
    state = belief.init(1)
    bias = np.array([[1.0, 0.7, 0.4]])
    if learns_bias:
        state.bias[...] = bias
    dense = DenseRegression(belief.tau2, belief.s2, prior_mean(state)[0])
    fixed = rng.standard_normal((L, D))
    for _ in range(rounds):
        features = fixed.copy()
        changed = {"fixed": 0, "changing": L, "mixed": L // 2}[rows]
        features[:changed] = rng.standard_normal((changed, D))
        lists = rng.permutation(L)[None, :K]
        picked = design.pick(request(rng, features), lists)
        y = (rng.random((1, K)) < 0.3).astype(float)
        exposure = np.ones((1, K)) if learns_bias else bias * (rng.random((1, K)) < 0.8)
        belief.update(state, Decision(lists, picked, request(rng, features)), Evidence(y * (exposure > 0), exposure))
        assert picked.x is not None
        for k in range(K):
            lam = (bias if learns_bias else exposure)[0, k]
            if exposure[0, k] > 0.0:
                dense.add(lists[0, k], picked.x[0, k], y[0, k], lam)
    for got in (state, _refreshed(state)):
        for ours, theirs in zip(joint(got), dense.posterior(), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)
    assert rounds == 5 or state.varied.any() == (rows != "fixed")


def _refreshed(state: HybridState) -> HybridState:
    again = state.copy()
    refresh(again)
    return again
