"""Compiled loops that compute posterior, biases and variances of the pooled hybrid belief from its sums.

See `rankloop.math.hybrid.pooled_kernels` for the symbols.
"""

from __future__ import annotations

import numpy as np

from rankloop.math.hybrid.pooled_kernels import Cells, Sums, cell_mean
from rankloop.math.kernels import compiled, inlined
from rankloop.types import BoolArray, FloatArray


def _recount(
    sums: Sums,
    cells: Cells,
    counts: tuple[FloatArray, FloatArray],
    pseudo: tuple[FloatArray, FloatArray, FloatArray],
    fixed: bool,
    bias: FloatArray,
    item: int,
    kappa_d: float,
    signature: FloatArray,
) -> None:
    """Compute the sums of an item again from its cells and pseudo-observations; arrays of one learner.

    Where its row never changed and there are counts by slot, first compute its cells again from the present biases.
    """
    n, Y, S, R = sums
    m, Z, T = cells
    N, C = counts
    q, K = S.shape[1], N.shape[2]
    seen, total = pseudo[0][item], pseudo[1][item]
    row = S[item] / n[item]
    S[item] = pseudo[2][item]
    for segment in range(len(m)):
        if m[segment, item] <= 0.0:
            continue
        if fixed and K > 0:
            weight, outcomes = 0.0, 0.0
            for k in range(K):
                weight += bias[k] * bias[k] * N[segment, item, k]
                outcomes += bias[k] * C[segment, item, k]
            m[segment, item], Z[segment, item] = weight, outcomes
            for j in range(q):
                T[segment, item, j] = weight * row[j]
        zeta = kappa_d / (m[segment, item] + kappa_d)
        seen += zeta * m[segment, item]
        total += zeta * Z[segment, item]
        for j in range(q):
            S[item, j] += zeta * T[segment, item, j]
    n[item], Y[item], R[item] = seen, total, 0.0
    for j in range(q):
        R[item] += signature[j] * S[item, j]


recount = inlined(_recount)


def _pooled_rebuild(
    sums: Sums,
    cells: Cells,
    counts: tuple[FloatArray, FloatArray],
    pseudo: tuple[FloatArray, FloatArray, FloatArray],
    varied: BoolArray,
    outer: tuple[FloatArray, FloatArray],
    bias: FloatArray,
    variances: tuple[FloatArray, FloatArray, FloatArray],
    signature: FloatArray,
    A: FloatArray,
    b: FloatArray,
) -> None:
    """Add what the sums say to A [B, p, p] and b [B, p], which hold the prior, after `recount` of all items.

    pseudo: P, Q [B, L] and their rows, Σ strength·x [B, L, q].
    """
    G, g = outer
    B, L, q = sums[2].shape
    for k0 in range(B):
        n, Y, S, R = sums[0][k0], sums[1][k0], sums[2][k0], sums[3][k0]
        m, Z, T = cells[0][k0], cells[1][k0], cells[2][k0]
        N, C = counts[0][k0], counts[1][k0]
        own = (pseudo[0][k0], pseudo[1][k0], pseudo[2][k0])
        s2 = variances[2][k0]
        kappa, kappa_d = s2 / variances[0][k0], s2 / variances[1][k0]
        for j in range(1, q):
            b[k0, j - 1] += (g[k0, j] - G[k0, j, 0]) / s2
            for other in range(1, j + 1):
                A[k0, j - 1, other - 1] += G[k0, j, other] / s2
        for i in range(L):
            if n[i] <= 0.0:
                continue
            recount((n, Y, S, R), (m, Z, T), (N, C), own, not varied[k0, i], bias[k0], i, kappa_d, signature)
            if n[i] <= 0.0:
                continue
            c = n[i] + kappa
            share = -1.0 / (c * s2) if varied[k0, i] else kappa / (n[i] * c * s2)
            add_outer(A[k0], b[k0], share, S[i], Y[i])
            for segment in range(len(m) if varied[k0, i] else 0):
                if m[segment, i] > 0.0:
                    share = -1.0 / ((m[segment, i] + kappa_d) * s2)
                    add_outer(A[k0], b[k0], share, T[segment, i], Z[segment, i])
        for j in range(q - 1):
            for other in range(j):
                A[k0, other, j] = A[k0, j, other]


def _add_outer(A: FloatArray, b: FloatArray, share: float, S: FloatArray, Y: float) -> None:
    """Add share·SSᵀ to the lower triangle of A and share·S(Y - S_0) to b, where S_0 is the sum of offsets."""
    for j in range(1, len(S)):
        b[j - 1] += share * (Y - S[0]) * S[j]
        scaled = share * S[j]
        for other in range(1, j + 1):
            A[j - 1, other - 1] += scaled * S[other]


add_outer = inlined(_add_outer)
pooled_rebuild = compiled(_pooled_rebuild, fastmath=True, nogil=True)


def _pooled_biases(
    theta: FloatArray,
    sums: Sums,
    counts: tuple[FloatArray, FloatArray],
    pseudo: tuple[FloatArray, FloatArray],
    by_slot: FloatArray,
    variances: tuple[FloatArray, FloatArray, FloatArray],
    limits: tuple[float, float],
    bias_limits: tuple[float, float],
    extra: float,
    alternations: int,
    bias: FloatArray,
    clicks: FloatArray,
) -> None:
    """Alternate between the estimates of cells given the biases and the biases λ [B, K] given the estimates.

    As `slot_biases` does for items: λ_k = (outcomes in slot k + extra)/(Σ μ̂ of what stood there + extra), divided by
    λ_1 and within limits; θ stays. The outcomes by slot with `extra` go into clicks [B, K].
    """
    n, _, S, _ = sums
    B, L, q = S.shape
    groups, K = counts[0].shape[1], counts[0].shape[3]
    fits, means, m, Z = np.empty(L), np.empty(K), np.empty(groups), np.empty(groups)
    for k0 in range(B):
        N, C, lam = counts[0][k0], counts[1][k0], bias[k0]
        kappa, kappa_d = variances[2][k0] / variances[0][k0], variances[2][k0] / variances[1][k0]
        clicks[k0] = by_slot[k0, 0] + extra
        for i in range(L):
            fits[i] = 0.0
            for j in range(q if n[k0, i] > 0.0 else 0):
                fits[i] += S[k0, i, j] * theta[k0, j] / n[k0, i]
            for segment in range(groups if n[k0, i] > 0.0 else 0):
                for k in range(K):
                    clicks[k0, k] += C[segment, i, k]
        for _ in range(alternations):
            means[:] = by_slot[k0, 1] + extra
            for i in range(L):
                if n[k0, i] <= 0.0:
                    continue
                seen, total = pseudo[0][k0, i], pseudo[1][k0, i]
                for segment in range(groups):
                    m[segment], Z[segment] = 0.0, 0.0
                    for k in range(K):
                        m[segment] += lam[k] * lam[k] * N[segment, i, k]
                        Z[segment] += lam[k] * C[segment, i, k]
                    zeta = kappa_d / (m[segment] + kappa_d)
                    seen += zeta * m[segment]
                    total += zeta * Z[segment]
                effect = (total - seen * fits[i]) / (seen + kappa)
                for segment in range(groups):
                    if m[segment] > 0.0:
                        left = Z[segment] - m[segment] * fits[i]
                        mean = cell_mean(fits[i], effect, m[segment], left, kappa_d)
                        mean = min(max(mean, limits[0]), limits[1])
                        for k in range(K):
                            means[k] += N[segment, i, k] * mean
            for k in range(K):
                means[k] = max(clicks[k0, k], bias_limits[0]) / means[k]
            for k in range(K):
                lam[k] = min(max(means[k] / means[0], bias_limits[0]), bias_limits[1])


pooled_biases = compiled(_pooled_biases, fastmath=True, nogil=True)


def _pooled_dispersion(
    theta: FloatArray,
    F: FloatArray,
    sums: Sums,
    cells: Cells,
    varied: BoolArray,
    variances: tuple[FloatArray, FloatArray, FloatArray],
    least: float,
    found: FloatArray,
) -> None:
    """Add to found [B, 5] the weighted squares and weights of items, those of cells, and residual squares.

    Items are counted as in `dispersion`. For a cell, r = Z/m - x̄ᵀθ - E[b] has the expectation ω² + s²/m of its square,
    less the variance uᵀA⁻¹u + s²/c of x̄ᵀθ + b, which are fitted to the same outcomes; u = x̄ - S/c.
    """
    n, Y, S, _ = sums
    m, Z, T = cells
    B, L, q = S.shape
    mean_row = np.empty(q)
    for k0 in range(B):
        tau2, omega2, s2 = variances[0][k0], variances[1][k0], variances[2][k0]
        for i in range(L):
            if n[k0, i] <= 0.0:
                continue
            c, fit = n[k0, i] + s2 / tau2, 0.0
            for j in range(q):
                fit += S[k0, i, j] * theta[k0, j]
            effect = (Y[k0, i] - fit) / c
            if n[k0, i] > least:
                noise, apart = s2 / n[k0, i], (Y[k0, i] - fit) / n[k0, i]
                weight = (tau2 + noise) ** -2.0
                for j in range(q):
                    mean_row[j] = S[k0, i, j] / n[k0, i]
                found[k0, 0] += weight * (apart * apart + leverage(F[k0], mean_row) - noise)
                found[k0, 1] += weight
            for segment in range(m.shape[1]):
                seen, outcomes = m[k0, segment, i], Z[k0, segment, i]
                if seen <= 0.0:
                    continue
                own = 0.0
                for j in range(q):
                    own += T[k0, segment, i, j] * theta[k0, j]
                both = effect + (outcomes - own - seen * effect) / (seen + s2 / omega2)
                if varied[k0, i]:
                    found[k0, 4] += both * (both * seen - 2.0 * (outcomes - own))
                else:
                    mean = own / seen + both
                    found[k0, 4] += mean * (mean * seen - 2.0 * outcomes)
                if seen > least:
                    noise, apart = s2 / seen, (outcomes - own) / seen - effect
                    weight = (omega2 + noise) ** -2.0
                    for j in range(q):
                        mean_row[j] = T[k0, segment, i, j] / seen - S[k0, i, j] / c
                    found[k0, 2] += weight * (apart * apart + leverage(F[k0], mean_row) + s2 / c - noise)
                    found[k0, 3] += weight


def _leverage(F: FloatArray, x: FloatArray) -> float:
    """Return xᵀA⁻¹x of a row [q] with its offset, for F Fᵀ = A⁻¹ [p, p]."""
    fitted = 0.0
    for j in range(len(x) - 1):
        total = 0.0
        for k in range(len(x) - 1):
            total += x[1 + k] * F[k, j]
        fitted += total * total
    return fitted


leverage = inlined(_leverage)
pooled_dispersion = compiled(_pooled_dispersion, fastmath=True, nogil=True)
