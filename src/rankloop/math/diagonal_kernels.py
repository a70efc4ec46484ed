"""Compiled loops over sparse rows, and over Gaussian beliefs with a diagonal covariance.

A sparse row of P positions has 2·P numbers: P values, then the coefficients that these belong to. A value of 0 is an
unused position. Of a coefficient only the lowest bits count, as many as N, a power of two, has: no row can reach beyond
the arrays.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rankloop.math.hashing import mixed
from rankloop.math.item_normals import TABLE, TAIL, quantiles
from rankloop.math.kernels import compiled, inlined
from rankloop.types import FloatArray, IntArray

TABLES = (TABLE, TAIL)
LINEAR, LAPLACE, NEWTON = 0, 1, 2
"""How an observation changes the mean and the precision, see `learn_diagonal`."""


def _sparse_rows(items: FloatArray, context: FloatArray, pairs: IntArray, mask: int, out: FloatArray) -> None:
    """Write (context, item, products) of sparse rows into out [B, L, 2·(Pc + Pi + n)].

    Args:
        items: [1 or B, L, 2·Pi].
        context: [B, 2·Pc].
        pairs: a position of the context and one of the item, of each product, [n, 2].
        mask: number of coefficients - 1.
        out: zeros at first.
    """
    B, L, P = out.shape[0], out.shape[1], out.shape[2] // 2
    Pc, Pi = context.shape[1] // 2, items.shape[2] // 2
    for b in range(B):
        for i in range(L):
            row, item = out[b, i], items[b if len(items) > 1 else 0, i]
            for p in range(Pc):
                row[p], row[P + p] = context[b, p], context[b, Pc + p]
            for p in range(Pi):
                row[Pc + p], row[P + Pc + p] = item[p], item[Pi + p]
            for n in range(len(pairs)):
                c, p = pairs[n, 0], pairs[n, 1]
                value = context[b, c] * item[p]
                if value != 0.0:
                    at = mixed(int(item[Pi + p]) & mask, int(context[b, Pc + c]) & mask, mask)
                    row[Pc + Pi + n], row[P + Pc + Pi + n] = value, at


sparse_rows = compiled(_sparse_rows)


def _merge(row: FloatArray, mask: int, slots: IntArray, used: IntArray, at: IntArray, value: FloatArray) -> int:
    """Write the different coefficients of a row, in their order, and the sum of the values of each; return how many.

    Work space: slots, a hash table of 2^k ≥ 2·P entries, all -1 before and after, and used [P].
    """
    P, size, many = len(row) // 2, len(slots) - 1, 0
    for p in range(P):
        if row[p] != 0.0:
            j = int(row[P + p]) & mask
            s = (j * 0x9E3779B1 >> 12) & size
            while slots[s] >= 0 and at[slots[s]] != j:
                s = (s + 1) & size
            if slots[s] < 0:
                slots[s], used[many], at[many], value[many] = many, s, j, row[p]
                many += 1
            else:
                value[slots[s]] += row[p]
    for e in range(many):
        slots[used[e]] = -1
    return many


merge = inlined(_merge)


def _diagonal_means(theta: FloatArray, model: IntArray, x: FloatArray, out: FloatArray) -> None:
    """Set out[b, i] = x_iᵀθ for θ [B, M, N], sparse rows x [1 or B, L, 2·P] and their models [L]."""
    P, mask = x.shape[2] // 2, theta.shape[2] - 1
    for b in range(out.shape[0]):
        for i in range(out.shape[1]):
            row, of_model = x[b if len(x) > 1 else 0, i], theta[b, model[i]]
            total = 0.0
            for p in range(P):
                total += row[p] * of_model[int(row[P + p]) & mask]
            out[b, i] = total


diagonal_means = compiled(_diagonal_means)


def _diagonal_widths(variance: FloatArray, model: IntArray, x: FloatArray, slots: IntArray, out: FloatArray) -> None:
    """Set out[b, i] = √(Σ_j x_ij²·v_j) for variances v [B, M, N], x_ij the sum of the row's values of coefficient j.

    slots as in `_merge`.
    """
    P, mask = x.shape[2] // 2, variance.shape[2] - 1
    used, at, value = np.empty(P, dtype=np.int64), np.empty(P, dtype=np.int64), np.empty(P)
    for b in range(out.shape[0]):
        for i in range(out.shape[1]):
            of_model, total = variance[b, model[i]], 0.0
            many = merge(x[b if len(x) > 1 else 0, i], mask, slots, used, at, value)
            for e in range(many):
                total += value[e] * value[e] * of_model[at[e]]
            out[b, i] = np.sqrt(total)


diagonal_widths = compiled(_diagonal_widths)


def _number_at(key: np.uint64, j: int) -> np.uint32:
    """Return the random number of coefficient j under a key, as `rankloop.math.item_normals` gives it to item j."""
    z = key + np.uint64((j >> 1) + 1) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return np.uint32((z >> np.uint64(32 * (j & 1))) & np.uint64(0xFFFFFFFF))


number_at = inlined(_number_at)


def _diagonal_draws(
    theta: FloatArray,
    variance: FloatArray,
    scale: FloatArray,
    keys: NDArray[np.uint64],
    tables: tuple[FloatArray, FloatArray],
    model: IntArray,
    x: FloatArray,
    out: FloatArray,
) -> None:
    """Set out[b, i] = x_iᵀθ̃, θ̃_j = θ_j + e·√v_j·z_j with one standard normal z_j for each model and coefficient.

    θ and v [B, M, N], the scale e [B], keys [B]; other shapes as in `_diagonal_means`. z_j is a function of the key, so
    that only the coefficients that occur are drawn, and all rows and calls see the same draw.
    """
    P, N = x.shape[2] // 2, theta.shape[2]
    at, z, numbers = np.empty(P, dtype=np.int64), np.empty(P), np.empty(P, dtype=np.uint32)
    edges = np.empty(P + 1, dtype=np.uint32)
    for b in range(out.shape[0]):
        for i in range(out.shape[1]):
            row, of_model, spread = x[b if len(x) > 1 else 0, i], theta[b, model[i]], variance[b, model[i]]
            # Simple loops, one after the other, use the vector units.
            for p in range(P):
                at[p] = int(row[P + p]) & (N - 1)
            for p in range(P):
                numbers[p] = number_at(keys[b], model[i] * N + at[p])
            quantiles(numbers, tables[0], tables[1], edges, z)
            total = 0.0
            for p in range(P):
                total += row[p] * (of_model[at[p]] + scale[b] * np.sqrt(spread[at[p]]) * z[p])
            out[b, i] = total


diagonal_draws = compiled(_diagonal_draws)


def _probability(z: float) -> float:
    """Return σ(z)."""
    return float(1.0 / (1.0 + np.exp(-z)) if z >= 0.0 else 1.0 - 1.0 / (1.0 + np.exp(z)))


probability = inlined(_probability)


def _learn_diagonal(
    theta: FloatArray,
    variance: FloatArray,
    kind: int,
    rate: float,
    model: IntArray,
    x: FloatArray,
    y: FloatArray,
    exposure: FloatArray,
    slots: IntArray,
    one_learner: bool,
) -> None:
    """Learn from lists in order, slot by slot; a slot of exposure 0 changes nothing.

    With the row x times its exposure, z = xᵀθ, and a = Σ x_j²v_j, an observation of precision w and residual r does
    θ_j += v_j x_j r/(1 + w·a) and 1/v_j += w·x_j²/(1 + w·(a - x_j²v_j)): the mean and the marginal variances of the
    exact posterior of a linear regression, whose covariances are then dropped. LINEAR: w = rate, r = w·(y - z).
    LAPLACE: w = σ′(z), r = y - σ(z). NEWTON: w = 1, r = rate·σ(-o·z)·o for o = ±1.

    Args:
        theta: [B, M, N].
        variance: [B, M, N], v.
        kind: LINEAR, LAPLACE or NEWTON.
        rate: see above.
        model: the model of each slot, [T, K].
        x: [T, K, 2·P].
        y: [T, K].
        exposure: [T, K].
        slots: as in `_merge`.
        one_learner: whether all T lists are of learner 0; otherwise list b is of learner b.
    """
    P, mask = x.shape[2] // 2, theta.shape[2] - 1
    used, at, value = np.empty(P, dtype=np.int64), np.empty(P, dtype=np.int64), np.empty(P)
    for t in range(x.shape[0]):
        b = 0 if one_learner else t
        for k in range(x.shape[1]):
            if exposure[t, k] == 0.0:
                continue
            mean, v = theta[b, model[t, k]], variance[b, model[t, k]]
            many = merge(x[t, k], mask, slots, used, at, value)
            z, a = 0.0, 0.0
            for e in range(many):
                value[e] *= exposure[t, k]
                z += value[e] * mean[at[e]]
                a += value[e] * value[e] * v[at[e]]
            if kind == LINEAR:
                w, r = rate, rate * (y[t, k] - z)
            elif kind == LAPLACE:
                share = probability(z)
                w, r = share * probability(-z), y[t, k] - share
            else:
                o = 2.0 * y[t, k] - 1.0
                w, r = 1.0, rate * o * probability(-o * z)
            total = 1.0 + w * a
            for e in range(many):
                j = at[e]
                own = value[e] * value[e] * v[j]
                mean[j] += v[j] * value[e] * (r / total)
                v[j] *= (1.0 + w * max(a - own, 0.0)) / total


learn_diagonal = compiled(_learn_diagonal, nogil=True)
