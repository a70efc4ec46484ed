"""Compiled loops of the hybrid belief, μ_i = x_iᵀθ + b_i with one effect b_i for each item.

A row x [q] has a known offset in column 0, whose coefficient is 1, and p = q - 1 columns with the coefficients θ. Sums
of item i over its observations (x, y, λ): n = Σλ², Y = Σλy, S = Σλ²x and R, the same sum of
signatures; κ = s²/τ² and c = n + κ. Given θ,
b_i ~ N((Y - Sᵀ(1, θ))/c, s²/c).
"""

from __future__ import annotations

import numpy as np

from rankloop.math.kernels import compiled, inlined
from rankloop.types import BoolArray, FloatArray, IntArray

HEAD = 4
"""Columns of a row before the fields: offset, intercept, score, order."""
FIELD_SCALE = 0.1
"""Factor of the fields in a row."""
VARIED_BEYOND = 1e-10
"""Relative difference of a row from the item's earlier row from which rows of the item count as changing."""


def _head_of(score: float, rank: float, offset: float) -> tuple[float, float, float]:
    """Return offset, score and order of an item: a score, else the order 1/√(1+rank), else the offset."""
    if not np.isnan(score):
        return 0.0, score, 0.0
    return (offset, 0.0, 0.0) if np.isnan(rank) else (0.0, 0.0, 1.0 / np.sqrt(1.0 + rank))


head_of = inlined(_head_of)


def _head_columns(scores: FloatArray, ranks: FloatArray, offset: float, head: FloatArray) -> None:
    """Write offset, score and order of scores and ranks [1 or B, 1 or L] into head [B, 3, L]."""
    one_score, one_rank = scores.shape[1] == 1, ranks.shape[1] == 1
    for b in range(head.shape[0]):
        s, r = scores[b if len(scores) > 1 else 0], ranks[b if len(ranks) > 1 else 0]
        for i in range(head.shape[2]):
            found = head_of(s[0 if one_score else i], r[0 if one_rank else i], offset)
            head[b, 0, i], head[b, 1, i], head[b, 2, i] = found


head_columns = compiled(_head_columns)


def _complete_rows(scores: FloatArray, ranks: FloatArray, offset: float, fields: FloatArray, out: FloatArray) -> None:
    """Write rows of scores and ranks [B or 1, K or 1] and fields [B, K, d] into out [B, K, 4 + d]."""
    one_score, one_rank = scores.shape[1] == 1, ranks.shape[1] == 1
    for b in range(out.shape[0]):
        s, r = scores[b if len(scores) > 1 else 0], ranks[b if len(ranks) > 1 else 0]
        for k in range(out.shape[1]):
            row = out[b, k]
            row[0], row[2], row[3] = head_of(s[0 if one_score else k], r[0 if one_rank else k], offset)
            row[1] = 1.0
            for j in range(fields.shape[2]):
                row[HEAD + j] = fields[b, k, j] * FIELD_SCALE


complete_rows = compiled(_complete_rows)


def _has_nan(table: FloatArray) -> bool:
    """Return whether a table [n, m] has a NaN."""
    found = 0
    for i in range(table.shape[0]):
        for j in range(table.shape[1]):
            found += int(table[i, j] != table[i, j])
    return found > 0


has_nan = compiled(_has_nan)


def _add_row(F: FloatArray, x: FloatArray, f: FloatArray) -> None:
    """Update F Fᵀ = A⁻¹ [p, p] for A += xxᵀ by Potter's rule, with work space f [p]."""
    p = len(x)
    for j in range(p):
        f[j] = 0.0
    for i in range(p):
        for j in range(p):
            f[j] += x[i] * F[i, j]
    norm = 0.0
    for j in range(p):
        norm += f[j] * f[j]
    a = 1.0 / (1.0 + norm)
    step = a / (1.0 + np.sqrt(a))
    for i in range(p):
        total = 0.0
        for j in range(p):
            total += F[i, j] * f[j]
        total *= step
        for j in range(p):
            F[i, j] -= total * f[j]


add_row = inlined(_add_row)


def _drawn(F: FloatArray, b: FloatArray, z: FloatArray, scale: FloatArray, theta: FloatArray) -> None:
    """Write (1, F(Fᵀb + e·z)) into theta [B, q], for F [B, p, p], b and z [B, p] and the scale e [B]."""
    B, p = b.shape
    f = np.empty(p)
    for k in range(B):
        for j in range(p):
            f[j] = scale[k] * z[k, j]
        for i in range(p):
            for j in range(p):
                f[j] += b[k, i] * F[k, i, j]
        theta[k, 0] = 1.0
        for i in range(p):
            total = 0.0
            for j in range(p):
                total += F[k, i, j] * f[j]
            theta[k, 1 + i] = total


drawn = compiled(_drawn, fastmath=True)


def _centre(F: FloatArray, b: FloatArray, theta: FloatArray) -> None:
    """Write (1, A⁻¹b) into theta [q]."""
    p = len(b)
    theta[0] = 1.0
    theta[1:] = 0.0
    for j in range(p):
        f = 0.0
        for i in range(p):
            f += b[i] * F[i, j]
        for i in range(p):
            theta[1 + i] += F[i, j] * f


centre = inlined(_centre)


def _absorb(
    F: FloatArray,
    b: FloatArray,
    n: FloatArray,
    Y: FloatArray,
    S: FloatArray,
    R: FloatArray,
    item: int,
    x: FloatArray,
    y: float,
    weight: float,
    tau2: float,
    s2: float,
    signature: FloatArray,
    work: FloatArray,
) -> None:
    """Learn one observation of weight λ² with λy = `y` by eliminating the item's effect; one learner's arrays.

    u = x - S/c; A += (λ²c/(c+λ²))·uuᵀ/s²; b += (c/(c+λ²))·u·(λy - λ²Y/c)/s²; then n += λ², Y += λy, S += λ²x. Outcomes
    are taken without the known offset of their rows. work [2, q].
    """
    q = len(x)
    u, f = work[0, : q - 1], work[1, : q - 1]
    c = n[item] + s2 / tau2
    left = (y - weight * x[0]) - weight * (Y[item] - S[item, 0]) / c
    share = c / (c + weight) / s2
    root = np.sqrt(weight * share)
    for j in range(q - 1):
        u[j] = x[1 + j] - S[item, 1 + j] / c
        b[j] += share * left * u[j]
        u[j] *= root
    add_row(F, u, f)
    n[item] += weight
    Y[item] += y
    for j in range(q):
        S[item, j] += weight * x[j]
    total = 0.0
    for j in range(q):
        total += signature[j] * x[j]
    R[item] += weight * total


absorb = inlined(_absorb)


def _differs(x: FloatArray, n: float, S: FloatArray) -> bool:
    """Return whether a row differs from the row S/n of all earlier observations."""
    most, apart = 0.0, 0.0
    for j in range(len(x)):
        most = max(most, abs(S[j]))
        apart = max(apart, abs(x[j] * n - S[j]))
    return apart > VARIED_BEYOND * most


differs = inlined(_differs)


def _learn(
    posterior: tuple[FloatArray, FloatArray],
    sums: tuple[FloatArray, FloatArray, FloatArray, FloatArray],
    counts: tuple[FloatArray, FloatArray],
    varied: BoolArray,
    outer: tuple[FloatArray, FloatArray],
    by_slot: FloatArray,
    totals: FloatArray,
    bias: FloatArray,
    variances: tuple[FloatArray, FloatArray],
    limits: tuple[float, float],
    signature: FloatArray,
    lists: tuple[IntArray, FloatArray, FloatArray, FloatArray],
    one_learner: bool,
    strength: float,
) -> None:
    """Learn from the slots of lists in order: one list for each learner, or T lists of one learner.

    posterior: F [B, p, p], b [B, p]; sums n, Y, S, R; counts N, C [B, L, K or 0]; outer: G [B, q, q] and
    g [B, q] of the varied items; by_slot [B, 5, K]: outcomes and Σμ̂ of varied items, outcomes and exposure·order of
    items with an order, observations; totals [B, 2]: Σy², observations; bias λ [B, K]; limits of μ̂; signature
    [q], the weights of columns in R; lists: items [T, K], x [T, K, q], outcomes and exposures [T, K]. A strength above
    0 replaces λ² by the weight of pseudo-observations, which are not counted.
    """
    items, x, y, exposure = lists
    N, C = counts
    T, K = items.shape
    q = x.shape[2]
    work, theta = np.empty((2, q)), np.empty(q)
    for t in range(T):
        k0 = 0 if one_learner else t
        F, b = posterior[0][k0], posterior[1][k0]
        n, Y, S, R = sums[0][k0], sums[1][k0], sums[2][k0], sums[3][k0]
        G, g = outer[0][k0], outer[1][k0]
        for k in range(K):
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
                mean = 0.0
                for j in range(q):
                    mean += S[i, j] * theta[j]
                mean = (mean + (Y[i] - mean) * n[i] / (n[i] + variances[1][k0] / variances[0][k0])) / n[i]
                mean = min(max(mean, limits[0]), limits[1])
                for j in range(q):
                    g[j] += S[i, j] * Y[i] / n[i]
                    for m in range(q):
                        G[j, m] += S[i, j] * S[i, m] / n[i]
                for slot in range(N.shape[2]):
                    by_slot[k0, 0, slot] += C[k0, i, slot]
                    by_slot[k0, 1, slot] += N[k0, i, slot] * mean
                    N[k0, i, slot] = C[k0, i, slot] = 0.0
            if varied[k0, i]:
                centre(F, b, theta)
                mean, left = 0.0, Y[i]
                for j in range(q):
                    mean += row[j] * theta[j]
                    left -= S[i, j] * theta[j]
                mean += left / (n[i] + variances[1][k0] / variances[0][k0])
                for j in range(q):
                    g[j] += product * row[j]
                    for m in range(q):
                        G[j, m] += weight * row[j] * row[m]
                if strength == 0.0:
                    by_slot[k0, 0, k] += outcome
                    by_slot[k0, 1, k] += min(max(mean, limits[0]), limits[1])
            elif N.shape[2] > 0 and strength == 0.0:
                N[k0, i, k] += 1.0
                C[k0, i, k] += outcome
            if strength == 0.0:
                if row[3] > 0.0:
                    by_slot[k0, 2, k] += outcome
                    by_slot[k0, 3, k] += e * row[3]
                by_slot[k0, 4, k] += 1.0
                totals[k0, 0] += outcome * outcome
                totals[k0, 1] += 1.0
            absorb(F, b, n, Y, S, R, i, row, product, weight, variances[0][k0], variances[1][k0], signature, work)


learn = compiled(_learn, fastmath=True, nogil=True)
