"""Compiled loops that compute posterior, biases and variances of the hybrid belief from its sums.

See `rankloop.math.hybrid.kernels` for the symbols.
"""

from __future__ import annotations

import numpy as np

from rankloop.math.kernels import compiled
from rankloop.types import BoolArray, FloatArray


def _rebuild(
    sums: tuple[FloatArray, FloatArray, FloatArray, FloatArray],
    counts: tuple[FloatArray, FloatArray],
    pseudo: tuple[FloatArray, FloatArray],
    varied: BoolArray,
    outer: tuple[FloatArray, FloatArray],
    bias: FloatArray,
    variances: tuple[FloatArray, FloatArray],
    A: FloatArray,
    b: FloatArray,
) -> None:
    """Add what the sums say to A [B, p, p] and b [B, p], which hold the prior.

    First n, Y and S of items with fixed rows are computed again from their counts by slot and the present biases, and
    from pseudo-observations P, Q [B, L] of exposure 1, if there are counts.
    """
    n, Y, S, R = sums
    N, C = counts
    G, g = outer
    B, L, q = S.shape
    K = N.shape[2]
    for k0 in range(B):
        s2, kappa = variances[1][k0], variances[1][k0] / variances[0][k0]
        for j in range(1, q):
            b[k0, j - 1] += (g[k0, j] - G[k0, j, 0]) / s2
            for m in range(1, q):
                A[k0, j - 1, m - 1] += G[k0, j, m] / s2
        for i in range(L):
            if n[k0, i] <= 0.0:
                continue
            if K > 0 and not varied[k0, i]:
                weight, total = pseudo[0][k0, i], pseudo[1][k0, i]
                for k in range(K):
                    weight += bias[k0, k] * bias[k0, k] * N[k0, i, k]
                    total += bias[k0, k] * C[k0, i, k]
                change = weight / n[k0, i]
                n[k0, i], Y[k0, i] = weight, total
                R[k0, i] *= change
                for j in range(q):
                    S[k0, i, j] *= change
                if weight <= 0.0:
                    continue
            c = n[k0, i] + kappa
            share = -1.0 / (c * s2) if varied[k0, i] else kappa / (n[k0, i] * c * s2)
            left = share * (Y[k0, i] - S[k0, i, 0])
            for j in range(1, q):
                b[k0, j - 1] += left * S[k0, i, j]
                scaled = share * S[k0, i, j]
                for m in range(1, j + 1):
                    A[k0, j - 1, m - 1] += scaled * S[k0, i, m]
        for j in range(q - 1):
            for m in range(j):
                A[k0, m, j] = A[k0, j, m]


rebuild = compiled(_rebuild, fastmath=True, nogil=True)


def _slot_biases(
    theta: FloatArray,
    sums: tuple[FloatArray, FloatArray, FloatArray, FloatArray],
    counts: tuple[FloatArray, FloatArray],
    pseudo: tuple[FloatArray, FloatArray],
    by_slot: FloatArray,
    variances: tuple[FloatArray, FloatArray],
    limits: tuple[float, float],
    bias_limits: tuple[float, float],
    extra: float,
    alternations: int,
    bias: FloatArray,
    clicks: FloatArray,
) -> None:
    """Alternate between the items' estimates μ̂_i given the biases and the biases λ [B, K] given the estimates.

    λ_k = (outcomes in slot k + extra)/(Σ μ̂ of what stood there + extra), divided by λ_1 and within limits. θ stays. The
    outcomes by slot with `extra` go into clicks [B, K].
    """
    n, _, S, _ = sums
    N, C = counts
    B, L, q = S.shape
    K = N.shape[2]
    fits, means = np.empty(L), np.empty(K)
    for k0 in range(B):
        kappa = variances[1][k0] / variances[0][k0]
        clicks[k0] = by_slot[k0, 0] + extra
        for i in range(L):
            if n[k0, i] > 0.0:
                fits[i] = 0.0
                for j in range(q):
                    fits[i] += S[k0, i, j] * theta[k0, j]
                fits[i] /= n[k0, i]
                for k in range(K):
                    clicks[k0, k] += C[k0, i, k]
        for _ in range(alternations):
            means[:] = by_slot[k0, 1] + extra
            for i in range(L):
                if n[k0, i] > 0.0:
                    seen, total = pseudo[0][k0, i], pseudo[1][k0, i]
                    for k in range(K):
                        seen += bias[k0, k] * bias[k0, k] * N[k0, i, k]
                        total += bias[k0, k] * C[k0, i, k]
                    mean = fits[i] + (total - seen * fits[i]) / (seen + kappa)
                    mean = min(max(mean, limits[0]), limits[1])
                    for k in range(K):
                        means[k] += N[k0, i, k] * mean
            for k in range(K):
                means[k] = max(clicks[k0, k], bias_limits[0]) / means[k]
            for k in range(K):
                bias[k0, k] = min(max(means[k] / means[0], bias_limits[0]), bias_limits[1])


slot_biases = compiled(_slot_biases, fastmath=True, nogil=True)


def _dispersion(
    theta: FloatArray,
    F: FloatArray,
    sums: tuple[FloatArray, FloatArray, FloatArray, FloatArray],
    pseudo: tuple[FloatArray, FloatArray],
    varied: BoolArray,
    variances: tuple[FloatArray, FloatArray],
    least: float,
    found: FloatArray,
) -> None:
    """Add to found [B, 3] the weighted sum of r² + x̄ᵀA⁻¹x̄ - s²/n, its weights 1/(τ² + s²/n)², and residual squares.

    The first two are over items with n > least, r = Y/n - x̄ᵀθ, x̄ = S/n. θ is fitted to the same outcomes, which makes
    the expectation of r² τ² + s²/n - x̄ᵀA⁻¹x̄; F Fᵀ = A⁻¹. The residual squares lack Σy² and, for varied items, the terms
    in G, g.
    """
    n, Y, S, _ = sums
    B, L, q = S.shape
    for k0 in range(B):
        tau2, s2 = variances[0][k0], variances[1][k0]
        for i in range(L):
            if n[k0, i] <= 0.0:
                continue
            fit = 0.0
            for j in range(q):
                fit += S[k0, i, j] * theta[k0, j]
            effect = (Y[k0, i] - fit) / (n[k0, i] + s2 / tau2)
            if varied[k0, i]:
                found[k0, 2] += 2.0 * effect * (fit - Y[k0, i]) + effect * effect * n[k0, i]
            else:
                mean = fit / n[k0, i] + effect
                seen, outcomes = n[k0, i] - pseudo[0][k0, i], Y[k0, i] - pseudo[1][k0, i]
                found[k0, 2] += mean * (mean * seen - 2.0 * outcomes)
            if n[k0, i] > least:
                noise = s2 / n[k0, i]
                apart = (Y[k0, i] - fit) / n[k0, i]
                fitted = 0.0
                for j in range(q - 1):
                    total = 0.0
                    for m in range(q - 1):
                        total += S[k0, i, 1 + m] * F[k0, m, j]
                    fitted += total * total
                weight = (tau2 + noise) ** -2.0
                found[k0, 0] += weight * (apart * apart + fitted / (n[k0, i] * n[k0, i]) - noise)
                found[k0, 1] += weight


dispersion = compiled(_dispersion, fastmath=True, nogil=True)
