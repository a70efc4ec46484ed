"""Compiled loops of the pooled hybrid belief, μ_ig = x_iᵀθ + b_i + d_ig, with an effect d_ig of item i in segment g.

The symbols of `hybrid_kernels` hold, with one level more. The sums of a cell (g, i) over its observations are m = Σλ²,
Z = Σλy, T = Σλ²x; κ_d = s²/ω², c_g = m + κ_d and ζ = κ_d/c_g. Once d_ig is eliminated, an observation is one of
x̃ᵀθ + ζ·b_i, so that the sums of an item are those of what is left: n = Σ ζm, Y = Σ ζZ, S = Σ ζT over its cells, plus
pseudo-observations, which belong to no segment. Given θ and b_i, d_ig ~ N((Z - Tᵀ(1, θ) - m·b_i)/c_g, s²/c_g).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rankloop.math.hybrid.kernels import HEAD, add_row, centre, differs
from rankloop.math.hybrid.scores import UNCHANGED_WITHIN
from rankloop.math.item_normals import BLOCK, normals
from rankloop.math.kernels import compiled, inlined
from rankloop.types import BoolArray, FloatArray, IntArray

Sums = tuple[FloatArray, FloatArray, FloatArray, FloatArray]
Cells = tuple[FloatArray, FloatArray, FloatArray]


def _cell_mean(fit: float, effect: float, m: float, left: float, kappa_d: float) -> float:
    """Return xᵀθ + E[b + d] of a row with xᵀθ = fit, for E[b] = effect and left = Z - Tᵀθ of its cell."""
    return fit + (kappa_d * effect + left) / (m + kappa_d)


cell_mean = inlined(_cell_mean)


def _absorb(
    F: FloatArray,
    b: FloatArray,
    sums: Sums,
    item: int,
    x: FloatArray,
    zeta: float,
    weight: float,
    product: float,
    variances: tuple[float, float],
    signature: FloatArray,
    work: FloatArray,
) -> None:
    """Learn an observation of x̃ᵀθ + ζ·b of weight w, with w·ρ = `product`, by eliminating the item's effect.

    u = x̃ - ζS/c; A += (wc/(c+wζ²))·uuᵀ/s²; b += (c/(c+wζ²))·u·(wρ - wζY/c)/s²; then n += wζ², Y += ζwρ, S += wζx̃.
    sums: n, Y, R [L], S [L, q] of one learner; variances τ², s²; work [2, q].
    """
    n, Y, S, R = sums
    tau2, s2 = variances
    q = len(x)
    u, f = work[0, : q - 1], work[1, : q - 1]
    c = n[item] + s2 / tau2
    left = (product - weight * x[0]) - weight * zeta * (Y[item] - S[item, 0]) / c
    share = c / (c + weight * zeta * zeta) / s2
    root = np.sqrt(weight * share)
    for j in range(q - 1):
        u[j] = x[1 + j] - zeta * S[item, 1 + j] / c
        b[j] += share * left * u[j]
        u[j] *= root
    add_row(F, u, f)
    n[item] += weight * zeta * zeta
    Y[item] += zeta * product
    for j in range(q):
        S[item, j] += weight * zeta * x[j]
        R[item] += weight * zeta * signature[j] * x[j]


absorb = inlined(_absorb)


def _set_apart(
    sums: Sums,
    cells: Cells,
    counts: tuple[FloatArray, FloatArray],
    pseudo: tuple[FloatArray, FloatArray],
    outer: tuple[FloatArray, FloatArray],
    by_slot: FloatArray,
    theta: FloatArray,
    item: int,
    kappa: float,
    kappa_d: float,
    limits: tuple[float, float],
) -> None:
    """Move what is known of an item, whose row changes for the first time, to the sums of varied items.

    Arrays of one learner: G and g get its raw observations, and by_slot the outcomes and estimates of its cells.
    """
    n, Y, S, _ = sums
    m, Z, _ = cells
    N, C = counts
    G, g = outer
    q = S.shape[1]
    seen, total, fit = pseudo[0][item], pseudo[1][item], 0.0
    for j in range(q):
        fit += S[item, j] * theta[j] / n[item]
    effect = (Y[item] - n[item] * fit) / (n[item] + kappa)
    for segment in range(len(m)):
        seen += m[segment, item]
        total += Z[segment, item]
        left = Z[segment, item] - m[segment, item] * fit
        mean = cell_mean(fit, effect, m[segment, item], left, kappa_d)
        mean = min(max(mean, limits[0]), limits[1])
        for slot in range(N.shape[2]):
            by_slot[0, slot] += C[segment, item, slot]
            by_slot[1, slot] += N[segment, item, slot] * mean
            N[segment, item, slot] = C[segment, item, slot] = 0.0
    for j in range(q):
        g[j] += total * S[item, j] / n[item]
        for k in range(q):
            G[j, k] += seen * S[item, j] * S[item, k] / (n[item] * n[item])


set_apart = inlined(_set_apart)


def _pooled_learn(
    posterior: tuple[FloatArray, FloatArray],
    sums: Sums,
    cells: Cells,
    counts: tuple[FloatArray, FloatArray],
    pseudo: tuple[FloatArray, FloatArray],
    varied: BoolArray,
    outer: tuple[FloatArray, FloatArray],
    by_slot: FloatArray,
    totals: FloatArray,
    bias: FloatArray,
    variances: tuple[FloatArray, FloatArray, FloatArray],
    limits: tuple[float, float],
    signature: FloatArray,
    segments: IntArray,
    lists: tuple[IntArray, FloatArray, FloatArray, FloatArray],
    one_learner: bool,
    strength: float,
) -> None:
    """Learn from the slots of lists in order, as `hybrid_kernels.learn` does, in the segment of each learner.

    cells m, Z [B, G, L], T [B, G, L, q]; counts N, C [B, G, L, K or 0]; pseudo P, Q [B, L]; variances τ², ω², s² [B];
    segments [B]. Pseudo-observations (a strength above 0) are of the item and belong to no segment.
    """
    items, x, y, exposure = lists
    q = x.shape[2]
    work, theta, shifted = np.empty((2, q)), np.empty(q), np.empty(q)
    for t in range(items.shape[0]):
        k0 = 0 if one_learner else t
        F, b = posterior[0][k0], posterior[1][k0]
        n, Y, S, R = sums[0][k0], sums[1][k0], sums[2][k0], sums[3][k0]
        m, Z, T = cells[0][k0], cells[1][k0], cells[2][k0]
        N, C, at = counts[0][k0], counts[1][k0], segments[k0]
        G, g = outer[0][k0], outer[1][k0]
        tau2, s2 = variances[0][k0], variances[2][k0]
        kappa, kappa_d = s2 / tau2, s2 / variances[1][k0]
        for k in range(items.shape[1]):
            i, e = items[t, k], exposure[t, k]
            if e == 0.0 or i < 0:
                continue
            row, outcome = x[t, k], y[t, k]
            lam = bias[k0, k] * e
            weight, product = lam * lam, lam * outcome
            if strength > 0.0:
                weight, product = strength, strength * outcome
            if not varied[k0, i] and n[i] > 0.0 and differs(row, n[i], S[i]):
                varied[k0, i] = True
                centre(F, b, theta)
                set_apart(
                    (n, Y, S, R), (m, Z, T), (N, C), (pseudo[0][k0], pseudo[1][k0]), (G, g), by_slot[k0], theta, i,
                    kappa, kappa_d, limits,
                )  # fmt: skip
            if varied[k0, i]:
                for j in range(q):
                    g[j] += product * row[j]
                    for other in range(q):
                        G[j, other] += weight * row[j] * row[other]
                if strength == 0.0:
                    centre(F, b, theta)
                    fit, past, own = 0.0, Y[i], Z[at, i]
                    for j in range(q):
                        fit += row[j] * theta[j]
                        past -= S[i, j] * theta[j]
                        own -= T[at, i, j] * theta[j]
                    mean = cell_mean(fit, past / (n[i] + kappa), m[at, i], own, kappa_d)
                    by_slot[k0, 0, k] += outcome
                    by_slot[k0, 1, k] += min(max(mean, limits[0]), limits[1])
            elif N.shape[2] > 0 and strength == 0.0:
                N[at, i, k] += 1.0
                C[at, i, k] += outcome
            if strength > 0.0:
                absorb(F, b, (n, Y, S, R), i, row, 1.0, weight, product, (tau2, s2), signature, work)
                continue
            if row[3] > 0.0:
                by_slot[k0, 2, k] += outcome
                by_slot[k0, 3, k] += e * row[3]
            by_slot[k0, 4, k] += 1.0
            totals[k0, 0] += outcome * outcome
            totals[k0, 1] += 1.0
            # Eliminate d: what is left is an observation of x̃ᵀθ + ζb of weight λ²c/(c+λ²).
            c = m[at, i] + kappa_d
            share = c / (c + weight)
            for j in range(q):
                shifted[j] = row[j] - T[at, i, j] / c
            rest = share * (product - weight * Z[at, i] / c)
            absorb(F, b, (n, Y, S, R), i, shifted, kappa_d / c, weight * share, rest, (tau2, s2), signature, work)
            m[at, i] += weight
            Z[at, i] += product
            for j in range(q):
                T[at, i, j] += weight * row[j]


pooled_learn = compiled(_pooled_learn, fastmath=True, nogil=True)


def _pooled_scores(
    x: FloatArray,
    head: FloatArray,
    factor: float,
    signature: FloatArray,
    index: IntArray,
    theta: FloatArray,
    sums: Sums,
    cells: Cells,
    segments: IntArray,
    variances: tuple[FloatArray, FloatArray, FloatArray],
    scale: FloatArray,
    keys: NDArray[np.uint64],
    tables: tuple[FloatArray, FloatArray],
    out: FloatArray,
) -> None:
    """Set out[b, i] = xᵀθ + ζ(Y - Sᵀθ)/c + (Z - Tᵀθ)/c_g + e·√(s²(ζ²/c + 1/c_g))·z_i for the learner's segment g.

    Rows, index, theta, scale and keys are those of `hybrid_scores`. A segment below 0 has no observations.
    """
    n, Y, S, R = sums
    m, Z, T = cells
    B, L = out.shape
    d, q = x.shape[2], theta.shape[1]
    z, buffer, edges = np.zeros(BLOCK), np.empty(BLOCK // 2, dtype=np.uint64), np.empty(BLOCK + 1, dtype=np.uint32)
    first_field = 0 if factor == 0.0 else HEAD
    times, first = 1.0 if factor == 0.0 else factor, np.zeros(HEAD)
    for b in range(B):
        rows, columns, at = x[b if len(x) > 1 else 0], head[b if len(head) > 1 else 0], segments[b]
        s2 = variances[2][b]
        kappa, kappa_d = s2 / variances[0][b], s2 / variances[1][b]
        for i in range(L):
            if i % BLOCK == 0 and scale[b] > 0.0:
                normals(keys[b], i // BLOCK, buffer, tables[0], tables[1], edges, z)
            fit, sign = 0.0, 0.0
            if first_field > 0:
                where = 0 if columns.shape[1] == 1 else i
                first[1] = 1.0
                if len(columns) == 1:
                    first[2] = columns[0, where]
                else:
                    first[0], first[2], first[3] = columns[0, where], columns[1, where], columns[2, where]
                for j in range(HEAD):
                    fit += first[j] * theta[b, j]
                    sign += first[j] * signature[j]
            for j in range(d):
                fit += times * rows[i, j] * theta[b, first_field + j]
                sign += times * rows[i, j] * signature[first_field + j]
            item = index[i] if len(index) > 0 else i
            seen = n[b, item]
            effect, own, zeta, c = 0.0, 0.0, 1.0, kappa_d
            if seen > 0.0:
                unchanged = abs(seen * sign - R[b, item]) <= UNCHANGED_WITHIN * seen
                past = seen * fit
                if not unchanged:
                    past = 0.0
                    for j in range(q):
                        past += S[b, item, j] * theta[b, j]
                effect = (Y[b, item] - past) / (seen + kappa)
                if at >= 0 and m[b, at, item] > 0.0:
                    c = m[b, at, item] + kappa_d
                    zeta = kappa_d / c
                    past = m[b, at, item] * fit
                    if not unchanged:
                        past = 0.0
                        for j in range(q):
                            past += T[b, at, item, j] * theta[b, j]
                    own = (Z[b, at, item] - past) / c
            spread = scale[b] * np.sqrt(s2 * (zeta * zeta / (seen + kappa) + 1.0 / c))
            out[b, i] = fit + zeta * effect + own + spread * z[i % BLOCK]


pooled_scores = compiled(_pooled_scores, fastmath=True, nogil=True)
