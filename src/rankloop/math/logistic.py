"""The logistic link and ridge-penalised logistic regression for a batch of learners."""

from __future__ import annotations

import numpy as np

from rankloop.math.factor import positive_eigen
from rankloop.math.kernels import gram
from rankloop.math.linear import dot, stacked
from rankloop.special_functions import expit as sigmoid
from rankloop.types import FloatArray

__all__ = ["curvature", "fit", "hessian", "pull", "sigmoid", "softplus"]


Quadratic = tuple[FloatArray, FloatArray]
"""P [B, d, d] and q [B, d] of the log-density qᵀθ - ½θᵀPθ."""


def softplus(z: FloatArray) -> FloatArray:
    """Return log(1 + eᶻ), which is also -log(1 - σ(z)), without overflow or saturation."""
    return np.logaddexp(0.0, z)


def curvature(z: FloatArray | float) -> FloatArray:
    """Return σ′(z) = σ(z)σ(-z)."""
    return np.asarray(sigmoid(z) * sigmoid(np.negative(z)))


def hessian(theta: FloatArray, x: FloatArray, n: FloatArray, ridge: float, P: FloatArray | None = None) -> FloatArray:
    """Return ridge·I + P + Σ_i n_i σ′(x_iᵀθ) x_i x_iᵀ, [B, d, d]; shapes as in `fit`."""
    B, d = theta.shape
    H = np.zeros((B, d, d)) if P is None else P.copy()
    H[:, np.arange(d), np.arange(d)] += ridge
    gram(stacked(x), n * curvature(dot(x, theta)), H)
    return H


def fit(
    theta: FloatArray,
    x: FloatArray,
    n: FloatArray,
    s: FloatArray,
    ridge: float,
    known: Quadratic | None = None,
    *,
    steps: int = 100,
    tolerance: float = 1e-9,
) -> tuple[FloatArray, FloatArray]:
    """Maximise Σ_i s_i log σ(x_iᵀθ) + (n_i - s_i) log σ(-x_iᵀθ) - ridge/2 ‖θ‖² by damped Newton steps.

    Args:
        theta: starting point, [B, d]; not changed.
        x: rows, [R, d] shared by all learners or [B, R, d].
        n: trials of each row, [B, R].
        s: successes of each row, [B, R].
        ridge: precision of the Gaussian prior, above 0.
        known: P [B, d, d] and q [B, d] of a term qᵀθ - ½θᵀPθ that is added to the likelihood; None for none.

    Returns:
        The maximiser [B, d] and the Hessian there [B, d, d].
    """
    theta = theta.copy()
    active = np.arange(theta.shape[0])
    loss = _loss(theta, x, n, s, ridge, known)
    for _ in range(steps):
        xa, na, sa, ta = (x if x.ndim == 2 else x[active]), n[active], s[active], theta[active]
        term = None if known is None else (known[0][active], known[1][active])
        z = dot(xa, ta)
        gradient = _rows_times(sa - na * sigmoid(z), xa) - ridge * ta
        if term is not None:
            gradient += term[1] - np.matvec(term[0], ta)
        H = hessian(ta, xa, na, ridge, None if term is None else term[0])
        step = _solve(H, gradient)
        theta[active], loss[active] = _damped(ta, step, loss[active], (xa, na, sa), ridge, term)
        active = active[np.abs(step).max(axis=1) > tolerance * (1.0 + np.abs(ta).max(axis=1))]
        if not active.size:
            break
    return theta, hessian(theta, x, n, ridge, None if known is None else known[0])


def _solve(H: FloatArray, gradient: FloatArray) -> FloatArray:
    """Return H⁻¹g, [B, d], even if rows that are long compared with the ridge make H singular up to rounding."""
    try:
        return np.asarray(np.linalg.solve(H, gradient[:, :, None])[:, :, 0], dtype=np.float64)
    except np.linalg.LinAlgError:
        values, vectors = positive_eigen(H)
        return np.asarray(np.matvec(vectors, np.vecmat(gradient, vectors) / values))


def _rows_times(weights: FloatArray, x: FloatArray) -> FloatArray:
    """Return Σ_i weights_i x_i, [B, d]."""
    return weights @ x if x.ndim == 2 else np.vecmat(weights, x)


def _loss(
    theta: FloatArray, x: FloatArray, n: FloatArray, s: FloatArray, ridge: float, known: Quadratic | None
) -> FloatArray:
    z = dot(x, theta)
    likelihood = n * softplus(z) - s * z
    loss = np.asarray(likelihood.sum(axis=1) + 0.5 * ridge * np.vecdot(theta, theta))
    if known is not None:
        loss += np.vecdot(theta, 0.5 * np.matvec(known[0], theta) - known[1])
    return loss


def _damped(
    theta: FloatArray,
    step: FloatArray,
    loss: FloatArray,
    data: tuple[FloatArray, FloatArray, FloatArray],
    ridge: float,
    known: Quadratic | None,
) -> tuple[FloatArray, FloatArray]:
    """Return θ + step, the step halved for the learners whose loss would rise (nearly separable data)."""
    size = np.ones(len(theta))
    for _ in range(30):
        proposal = theta + size[:, None] * step
        new = _loss(proposal, *data, ridge, known)
        worse = new > loss + 1e-12 * np.abs(loss)
        if not worse.any():
            break
        size[worse] *= 0.5
    return proposal, new


def pull(z: FloatArray, reach: FloatArray, score: float, strength: float) -> FloatArray:
    """Return how far pseudo-observations move an estimate along its row.

    The result is the root g of g = strength·(score - σ(z + g·reach)). It maximises
    strength·(score·log σ + (1-score)·log(1-σ)) of a row with log-odds z under a Gaussian prior whose
    covariance gives the row the variance `reach`; the estimate moves by g·V⁻¹x.

    Args:
        z: log-odds of the row before, [B].
        reach: xᵀV⁻¹x, [B], at least 0.
        score: mean outcome in [0, 1].
        strength: number of pseudo-observations.
    """
    low, high = np.full_like(z, -strength), np.full_like(z, strength)
    for _ in range(200):  # the right-hand side decreases in g, so bisection finds the only root
        middle = 0.5 * (low + high)
        above = middle > strength * (score - sigmoid(z + middle * reach))
        high, low = np.where(above, middle, high), np.where(above, low, middle)
        if (high - low <= 4.0 * np.spacing(np.maximum(np.abs(low), np.abs(high)))).all():
            break
    return np.asarray(0.5 * (low + high))
