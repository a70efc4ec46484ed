"""Estimates of the multinomial logit choice model from epoch counts, for a batch of problems.

In slot k item j was chosen N_kj times during S_kj epochs: N successes in N + S trials of a logistic regression
with logit log α_j + log λ_k, λ_1 = 1. Items and slots without a click stay at the floor.
"""

from __future__ import annotations

import numpy as np

from rankloop.math.kernels import compiled
from rankloop.types import BoolArray, FloatArray

FLOOR, CAP = 1e-3, 1e3
RIDGE = 1e-6
"""Ridge on the logarithms: the likelihood alone is flat where only products αλ are identified."""
DECIMALS = 10
"""Decimals of the logarithms that `fit_mle` returns. Its rounding errors are below 1e-14, and without them items with
equal records have equal estimates: a tie, and not an order that depends on the processor."""


def fit_mle(
    N: FloatArray, S: FloatArray, alpha: FloatArray, lam: FloatArray, *, steps: int = 200, tolerance: float = 1e-9
) -> tuple[FloatArray, FloatArray]:
    """Return the maximisers of P likelihoods in the box [FLOOR, CAP], from counts N and S [P, K, J].

    Newton's method on the logarithms, projected on the box. The Hessian is diagonal except for the block between
    items and slots, so a step solves K x K systems.

    Args:
        N: clicks, [P, K, J].
        S: epochs, [P, K, J].
        alpha: starting point, [P, J].
        lam: starting point, [P, K].
        steps: maximum number of Newton steps.
        tolerance: the largest change of a logarithm at which the iteration stops.

    Returns:
        α [P, J] and λ [P, K].
    """
    free_a, free_l = _clicked(N)
    free_l[:, 0] = False
    a = np.log(np.where(free_a, np.clip(alpha, FLOOR, CAP), FLOOR))
    v = np.log(np.where(free_l, np.clip(lam, FLOOR, CAP), FLOOR))
    v[:, 0] = 0.0
    _newton(N, S, a, v, free_a, free_l, steps, tolerance)
    alpha, lam = (np.clip(np.exp(x.round(DECIMALS)), FLOOR, CAP) for x in (a, v))
    return alpha, lam


def _solve_in_place_loop(A: FloatArray, b: FloatArray) -> None:
    """Solve A x = b for a small positive definite A, leaving x in b and a Cholesky factor in A.

    LAPACK would do it in another order on each processor. Where the likelihood is nearly flat, the last bits decide
    the estimate, and so the lists of a simulation.
    """
    n = len(b)
    for i in range(n):
        for j in range(i + 1):
            total = A[i, j]
            for k in range(j):
                total -= A[i, k] * A[j, k]
            A[i, j] = np.sqrt(total) if i == j else total / A[j, j]
    for i in range(n):
        for k in range(i):
            b[i] -= A[i, k] * b[k]
        b[i] /= A[i, i]
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            b[i] -= A[k, i] * b[k]
        b[i] /= A[i, i]


_solve_in_place = compiled(_solve_in_place_loop, nogil=True)


def _newton_loop(
    N: FloatArray,
    S: FloatArray,
    a: FloatArray,
    v: FloatArray,
    free_a: BoolArray,
    free_l: BoolArray,
    steps: int,
    tolerance: float,
) -> None:
    """Run Newton's method for each problem, on a = log α [P, J] and v = log λ [P, K] in place.

    A step changes no logarithm by more than 1, so that it does not overshoot where the likelihood is
    flat; a coordinate stays at a bound of the box while the gradient points outside.
    """
    P, K, J = N.shape
    low, high = np.log(FLOOR), np.log(CAP)
    W = np.empty((K, J))
    ga, Da, go_a = np.empty(J), np.empty(J), np.empty(J, dtype=np.bool_)
    gv, go_l = np.empty(K), np.empty(K, dtype=np.bool_)
    schur = np.empty((K, K))
    for n in range(P):
        for _ in range(steps):
            for j in range(J):
                ga[j], Da[j] = RIDGE * a[n, j], RIDGE
            for k in range(K):
                gv[k], schur[k, k] = RIDGE * v[n, k], RIDGE
                for j in range(J):
                    trials = N[n, k, j] + S[n, k, j]
                    if trials == 0.0:
                        W[k, j] = 0.0
                        continue
                    p = 1.0 / (1.0 + np.exp(-v[n, k] - a[n, j]))
                    error = trials * p - N[n, k, j]
                    W[k, j] = trials * p * (1.0 - p)
                    ga[j] += error
                    Da[j] += W[k, j]
                    gv[k] += error
                    schur[k, k] += W[k, j]
            for j in range(J):
                wall = (a[n, j] <= low and ga[j] > 0.0) or (a[n, j] >= high and ga[j] < 0.0)
                go_a[j] = free_a[n, j] and not wall
            for k in range(K):
                wall = (v[n, k] <= low and gv[k] > 0.0) or (v[n, k] >= high and gv[k] < 0.0)
                go_l[k] = free_l[n, k] and not wall
            # Eliminate the items, whose block is diagonal; the rest is a system in the slots.
            for k in range(K):
                if not go_l[k]:
                    gv[k], schur[k, k] = 0.0, 1.0
                    for i in range(K):
                        if i != k:
                            schur[k, i] = schur[i, k] = 0.0
                    continue
                for i in range(k):
                    schur[k, i] = schur[i, k] = 0.0
                for j in range(J):
                    if go_a[j] and W[k, j] != 0.0:
                        scaled = W[k, j] / Da[j]
                        gv[k] -= scaled * ga[j]
                        schur[k, k] -= scaled * W[k, j]
                        for i in range(k):
                            if go_l[i]:
                                schur[k, i] -= scaled * W[i, j]
                                schur[i, k] = schur[k, i]
            _solve_in_place(schur, gv)
            largest = 0.0
            for j in range(J):
                if go_a[j]:
                    step = ga[j]
                    for k in range(K):
                        if go_l[k]:
                            step -= W[k, j] * gv[k]
                    ga[j] = step / Da[j]
                    largest = max(largest, abs(ga[j]))
                else:
                    ga[j] = 0.0
            for k in range(K):
                largest = max(largest, abs(gv[k]))
            size = min(1.0, 1.0 / largest) if largest > 0.0 else 1.0
            moved = 0.0
            for j in range(J):
                if go_a[j]:
                    new = min(max(a[n, j] - size * ga[j], low), high)
                    moved = max(moved, abs(new - a[n, j]))
                    a[n, j] = new
            for k in range(K):
                if go_l[k]:
                    new = min(max(v[n, k] - size * gv[k], low), high)
                    moved = max(moved, abs(new - v[n, k]))
                    v[n, k] = new
            if moved < tolerance:
                break


_newton = compiled(_newton_loop, nogil=True)


def log_errors(N: FloatArray, S: FloatArray, alpha: FloatArray, lam: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the standard errors of log α [P, J] and log λ [P, K] at the maximum of the likelihood.

    They follow from the observed information of the logistic regression, W = (N + S) p (1 - p) for each item and slot,
    and the ridge of the fit. The items are eliminated, since their block is diagonal. Coordinates at a bound of the
    box and items without a click are fixed and have no error (NaN); that of λ_1 = 1 is 0.
    """
    weight = lam[:, :, None] * alpha[:, None, :]
    W = (N + S) * weight / (1.0 + weight) ** 2  # [P, K, J]
    inside_a, inside_l = ((x > FLOOR * (1 + 1e-9)) & (x < CAP * (1 - 1e-9)) for x in (alpha, lam))
    clicked_a, clicked_l = _clicked(N)
    free_a, free_l = inside_a & clicked_a, inside_l & clicked_l
    free_l[:, 0] = False
    A = np.where(free_a, W.sum(axis=1) + RIDGE, np.inf)  # a fixed item takes no part in the elimination
    C = -np.einsum("pkj,pij->pki", W / A[:, None, :], W)
    at = np.arange(lam.shape[1])
    C[:, at, at] += W.sum(axis=2) + RIDGE
    C = np.where(free_l[:, :, None] & free_l[:, None, :], C, np.eye(lam.shape[1]))
    covariance = np.linalg.inv(C) * (free_l[:, :, None] & free_l[:, None, :])
    variance = 1.0 / A + np.einsum("pkj,pki,pij->pj", W, covariance, W) / A**2
    slots = np.where(free_l, np.sqrt(np.einsum("pkk->pk", covariance)), np.nan)
    slots[:, 0] = 0.0
    return np.where(free_a, np.sqrt(variance), np.nan), slots


def fit_exclude(
    N: FloatArray, S: FloatArray, alpha: FloatArray, lam: FloatArray, *, steps: int = 5000, tolerance: float = 1e-12
) -> tuple[FloatArray, FloatArray]:
    """Iterate equations (5) and (6) without items and slots that have no clicks; shapes as in `fit_mle`.

    λ_k = Σ_j N_kj/α_j / Σ_j S_kj over items with clicks, α_j = Σ_k N_kj/λ_k / Σ_k S_kj over slots with clicks.
    """
    return _iterate(N, S, alpha, lam, *_clicked(N), steps, tolerance)


def fit_printed(
    N: FloatArray, S: FloatArray, alpha: FloatArray, lam: FloatArray, *, steps: int = 500, tolerance: float = 1e-12
) -> tuple[FloatArray, FloatArray]:
    """Iterate equations (5) and (6) as printed, over all items and slots, between the floor and the cap."""
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
    """Return which items [P, J] and which slots [P, K] have clicks."""
    return np.asarray(N.any(axis=1)), np.asarray(N.any(axis=2))


def _ratio(top: FloatArray, bottom: FloatArray) -> FloatArray:
    return np.asarray(np.divide(top, bottom, out=np.full(top.shape, FLOOR), where=bottom > 0))
