"""Estimates of the multinomial logit choice model from epoch counts, for many problems at once.

In slot k item j was chosen N_kj times during S_kj epochs: N successes in N + S trials of a logistic regression
with logit log α_j + log λ_k, λ_1 = 1. Items and slots without a click stay at the floor.
"""

from __future__ import annotations

import numpy as np

from rankloop.math.logistic import sigmoid
from rankloop.types import BoolArray, FloatArray

FLOOR, CAP = 1e-3, 1e3
RIDGE = 1e-6
"""On the logarithms: the likelihood alone is flat where only products αλ are identified."""


def fit_mle(
    N: FloatArray, S: FloatArray, alpha: FloatArray, lam: FloatArray, *, steps: int = 60, tolerance: float = 1e-10
) -> tuple[FloatArray, FloatArray]:
    """The maximisers of P likelihoods in the box [FLOOR, CAP], from counts N and S [P, K, J].

    Newton's method on the logarithms, projected on the box. The Hessian is diagonal but for the block between
    items and slots, so a step solves K x K systems.

    Args:
        N: clicks, [P, K, J].
        S: epochs, [P, K, J].
        alpha: where to start, [P, J].
        lam: where to start, [P, K].

    Returns:
        α [P, J] and λ [P, K].
    """
    free_a, free_l = _clicked(N)
    free_l[:, 0] = False
    a = np.log(np.where(free_a, np.clip(alpha, FLOOR, CAP), FLOOR))
    v = np.log(np.where(free_l, np.clip(lam, FLOOR, CAP), FLOOR))
    v[:, 0] = 0.0
    active = np.arange(len(N))
    loss = _loss(N, S, a, v)
    for _ in range(steps):
        moved, new = _newton_step(
            N[active], S[active], a[active], v[active], free_a[active], free_l[active], loss[active]
        )
        a[active], v[active], loss[active] = new
        active = active[moved > tolerance]
        if not active.size:
            break
    return np.exp(a), np.exp(v)


def _loss(N: FloatArray, S: FloatArray, a: FloatArray, v: FloatArray) -> FloatArray:
    eta = v[:, :, None] + a[:, None, :]
    likelihood = (N + S) * np.logaddexp(0.0, eta) - N * eta
    return np.asarray(likelihood.sum(axis=(1, 2)) + 0.5 * RIDGE * ((a**2).sum(axis=1) + (v**2).sum(axis=1)))


def _newton_step(
    N: FloatArray, S: FloatArray, a: FloatArray, v: FloatArray, free_a: BoolArray, free_l: BoolArray, loss: FloatArray
) -> tuple[FloatArray, tuple[FloatArray, FloatArray, FloatArray]]:
    """One projected and damped step: how far each problem moved, and where it is now."""
    p = sigmoid(v[:, :, None] + a[:, None, :])
    error = (N + S) * p - N
    W = (N + S) * p * (1.0 - p)
    ga, gv = error.sum(axis=1) + RIDGE * a, error.sum(axis=2) + RIDGE * v
    low, high = np.log(FLOOR), np.log(CAP)
    # A coordinate at a wall that the gradient pushes into stays there.
    free_a = free_a & ~((a <= low) & (ga > 0)) & ~((a >= high) & (ga < 0))
    free_l = free_l & ~((v <= low) & (gv > 0)) & ~((v >= high) & (gv < 0))
    ga, gv = np.where(free_a, ga, 0.0), np.where(free_l, gv, 0.0)
    Da = np.where(free_a, W.sum(axis=1) + RIDGE, 1.0)
    Dv = np.where(free_l, W.sum(axis=2) + RIDGE, 1.0)
    W = W * free_l[:, :, None] * free_a[:, None, :]
    scaled = W / Da[:, None, :]
    schur = -scaled @ W.swapaxes(1, 2)
    k = np.arange(N.shape[1])
    schur[:, k, k] += Dv
    dv = np.linalg.solve(schur, (gv - np.vecdot(scaled, ga[:, None, :]))[:, :, None])[:, :, 0]
    da = (ga - np.vecmat(dv, W)) / Da
    size = np.ones(len(N))
    for _ in range(40):
        new_a = np.clip(a - size[:, None] * da, low, high)
        new_v = np.clip(v - size[:, None] * dv, low, high)
        new_a, new_v = np.where(free_a, new_a, a), np.where(free_l, new_v, v)
        new_loss = _loss(N, S, new_a, new_v)
        worse = new_loss > loss + 1e-12 * (1.0 + np.abs(loss))
        if not worse.any():
            break
        size[worse] *= 0.5
    moved = np.maximum(np.abs(new_a - a).max(axis=1), np.abs(new_v - v).max(axis=1))
    return moved, (new_a, new_v, new_loss)


def fit_exclude(
    N: FloatArray, S: FloatArray, alpha: FloatArray, lam: FloatArray, *, steps: int = 5000, tolerance: float = 1e-12
) -> tuple[FloatArray, FloatArray]:
    """Equations (5) and (6) iterated, items and slots without clicks left out of the averages; shapes as in `fit_mle`.

    λ_k = Σ_j N_kj/α_j / Σ_j S_kj over items with clicks, α_j = Σ_k N_kj/λ_k / Σ_k S_kj over slots with clicks.
    """
    return _iterate(N, S, alpha, lam, *_clicked(N), steps, tolerance)


def fit_printed(
    N: FloatArray, S: FloatArray, alpha: FloatArray, lam: FloatArray, *, steps: int = 500, tolerance: float = 1e-12
) -> tuple[FloatArray, FloatArray]:
    """Equations (5) and (6) as printed, over all items and slots, between the floor and the cap."""
    P, K, J = N.shape
    return _iterate(
        N, S, alpha, lam, np.ones((P, J), dtype=np.bool_), np.ones((P, K), dtype=np.bool_), steps, tolerance
    )


def _iterate(
    N: FloatArray,
    S: FloatArray,
    alpha: FloatArray,
    lam: FloatArray,
    items: BoolArray,
    slots: BoolArray,
    steps: int,
    tolerance: float,
) -> tuple[FloatArray, FloatArray]:
    alpha, lam = np.where(items, alpha, FLOOR), np.where(slots, lam, FLOOR)
    lam[:, 0] = 1.0
    slots = slots.copy()
    slots[:, 0] = True
    active = np.arange(len(N))
    for _ in range(steps):
        n, s, al, la = N[active], S[active], alpha[active], lam[active]
        mine = items[active][:, None, :]
        new_l = _ratio((n / al[:, None, :] * mine).sum(axis=2), (s * mine).sum(axis=2))
        new_l = np.where(slots[active], np.clip(new_l, FLOOR, CAP), FLOOR)
        new_l[:, 0] = 1.0
        seen = slots[active][:, :, None]
        new_a = _ratio((n / new_l[:, :, None] * seen).sum(axis=1), (s * seen).sum(axis=1))
        new_a = np.where(items[active], np.clip(new_a, FLOOR, CAP), FLOOR)
        change = np.maximum(np.abs(new_a / al - 1.0).max(axis=1), np.abs(new_l / la - 1.0).max(axis=1))
        alpha[active], lam[active] = new_a, new_l
        active = active[change > tolerance]
        if not active.size:
            break
    return alpha, lam


def _clicked(N: FloatArray) -> tuple[BoolArray, BoolArray]:
    """Which items [P, J] and which slots [P, K] have clicks."""
    return np.asarray(N.any(axis=1)), np.asarray(N.any(axis=2))


def _ratio(top: FloatArray, bottom: FloatArray) -> FloatArray:
    return np.asarray(np.divide(top, bottom, out=np.full(top.shape, FLOOR), where=bottom > 0))
