"""Compiled loops, where NumPy's passes over memory were measured to cost more than the arithmetic.

`python -m bench.kernels` compares the expensive ones with their NumPy forms. They are compiled at first use and
cached next to the source.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np

from rankloop.types import BoolArray, FloatArray, IntArray

C = TypeVar("C", bound=Callable[..., Any])


ROWS_AT_ONCE = 128
"""Rows that go through the vector units side by side: their columns stay in the fastest cache."""
LONG_ROW = 48
"""Features from which a row uses the vector units better by itself."""


def compiled(function: C, *, fastmath: bool | set[str] = False, nogil: bool = False) -> C:
    """Return the function compiled at first use, with its machine code cached where the cache folder is writable.

    Most kernels run for microseconds and keep the GIL: among many threads, releasing it would cost a thread switch each
    time. Loops over a long history set `nogil`.
    """
    options: dict[str, Any] = {"error_model": "numpy", "fastmath": fastmath, "nogil": nogil}
    try:
        jitted: C = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # neither the package's folder nor the user's cache is writable
        jitted = numba.njit(**options)(function)
    return jitted


def inlined(function: C) -> C:
    """Return the function for use in compiled functions, each of which gets its own copy of the code.

    Whether the compiler would inline a function that is compiled by itself depends on what is in the cache, and sums
    that may be reordered (`fastmath`) then differ in their last bit from process to process.
    """
    options: dict[str, Any] = {"inline": "always", "error_model": "numpy"}
    copied: C = numba.njit(**options)(function)
    return copied


def _potter(F: FloatArray, model: IntArray, x: FloatArray, gain: FloatArray) -> None:
    """Update F Fᵀ = V⁻¹ for V += x xᵀ, row after row; gain becomes V⁻¹x with the V that includes the row.

    F [B, M, d, d], model [B, K], x [B, K, d], gain [B, K, d] zeros. Potter (1963): f = Fᵀx,
    a = 1/(1 + fᵀf), F -= a/(1+√a) (F f) fᵀ. A row without effect is skipped.
    """
    B, K, d = x.shape
    f = np.empty(d)
    for b in range(B):
        for k in range(K):
            m = model[b, k]
            for j in range(d):
                f[j] = 0.0
            for i in range(d):
                for j in range(d):
                    f[j] += x[b, k, i] * F[b, m, i, j]
            norm = 0.0
            for j in range(d):
                norm += f[j] * f[j]
            if norm == 0.0:
                continue
            a = 1.0 / (1.0 + norm)
            step = a / (1.0 + np.sqrt(a))
            for i in range(d):
                total = 0.0
                for j in range(d):
                    total += F[b, m, i, j] * f[j]
                gain[b, k, i] = a * total
                total *= step
                for j in range(d):
                    F[b, m, i, j] -= total * f[j]


# Sums may be reordered to use the vector units (half the time); requests were checked to hold finite features.
potter = compiled(_potter, fastmath=True, nogil=True)


def _shift(F: FloatArray, b: FloatArray, z: FloatArray, theta: FloatArray) -> None:
    """Write F(Fᵀb + z) into theta, for F [B, M, d, d] and b, z, theta [B, M, d]."""
    B, M, d = b.shape
    w = np.empty(d)
    for n in range(B):
        for m in range(M):
            for j in range(d):
                w[j] = z[n, m, j]
            for i in range(d):
                for j in range(d):
                    w[j] += b[n, m, i] * F[n, m, i, j]
            for i in range(d):
                total = 0.0
                for j in range(d):
                    total += F[n, m, i, j] * w[j]
                theta[n, m, i] = total


shift = compiled(_shift, fastmath=True)


def _dots(x: FloatArray, theta: FloatArray, out: FloatArray) -> None:
    """Set out[b, i] = x_iᵀθ_b for x [1 or B, L, d] and θ [B, d].

    Every row is summed in the same order at every index, so that equal rows tie exactly; a matrix product
    treats its last rows differently.
    """
    B, d = theta.shape
    shared = x.shape[0] == 1
    for b in range(B):
        n = 0 if shared else b
        for i in range(x.shape[1]):
            total = 0.0
            for j in range(d):
                total += x[n, i, j] * theta[b, j]
            out[b, i] = total


dots = compiled(_dots, fastmath=True)


def _row_products(rows: FloatArray, G: FloatArray, columns: FloatArray, out: FloatArray) -> None:
    """Set out[j, i] = Σ_k rows[i, k]·G[k, j] for a block of rows, each sum in the order of k.

    Rows go through the vector units side by side, from their transpose in the work space columns [D, n]. G [D, M] is
    padded with zeros to a D that is a multiple of four and an even M.
    """
    D, M = G.shape
    for i in range(rows.shape[0]):
        for k in range(rows.shape[1]):
            columns[k, i] = rows[i, k]
    for j in range(0, M, 2):
        f, g = out[j], out[j + 1]
        f[:], g[:] = 0.0, 0.0
        for k in range(0, D, 4):
            p, q, r, s = G[k, j], G[k + 1, j], G[k + 2, j], G[k + 3, j]
            t, u, v, w = G[k, j + 1], G[k + 1, j + 1], G[k + 2, j + 1], G[k + 3, j + 1]
            first, second, third, fourth = columns[k], columns[k + 1], columns[k + 2], columns[k + 3]
            for i in range(len(f)):
                f[i] = fourth[i] * s + (third[i] * r + (second[i] * q + (first[i] * p + f[i])))
                g[i] = fourth[i] * w + (third[i] * v + (second[i] * u + (first[i] * t + g[i])))


row_products = compiled(_row_products, fastmath={"contract"})


def _norms(x: FloatArray, F: FloatArray, out: FloatArray) -> None:
    """Set out[b, i] = ‖F_bᵀx_i‖ for x [1 or B, L, d] and F [B, d, m], without a copy of x for each learner.

    Long rows use the vector units by themselves; short ones side by side, with the same sums.
    """
    B, d, m = F.shape
    side_by_side = ROWS_AT_ONCE if max(d, m) <= LONG_ROW else 1
    columns, G = np.zeros((d + (-d) % 4, side_by_side)), np.zeros((d + (-d) % 4, m + m % 2))
    products, f = np.empty((m + m % 2, side_by_side)), np.empty((side_by_side, m))
    for b in range(B):
        n = b if x.shape[0] > 1 else 0
        G[:d, :m] = F[b]
        for start in range(0, x.shape[1], side_by_side):
            rows = x[n, start : start + side_by_side]
            if side_by_side > 1:
                row_products(rows, G, columns, products)
                for i in range(len(rows)):
                    for j in range(m):
                        f[i, j] = products[j, i]
            else:
                for j in range(m):
                    f[0, j] = 0.0
                for k in range(d):
                    for j in range(m):
                        f[0, j] += rows[0, k] * F[b, k, j]
            for i in range(len(rows)):
                total = 0.0
                for j in range(m):
                    total += f[i, j] * f[i, j]
                out[b, start + i] = np.sqrt(total)


norms = compiled(_norms, fastmath=True)


def _left_of_variance(width: FloatArray, start: FloatArray, share: FloatArray) -> None:
    """Write the share of the variance start² that is left in width², at most 1, into share; each [n]."""
    for i in range(len(width)):
        left = width[i] / start[i] if start[i] > 0.0 else 1.0
        share[i] = min(left * left, 1.0)


left_of_variance = compiled(_left_of_variance)


def _gram(x: FloatArray, weight: FloatArray, H: FloatArray) -> None:
    """Apply H_b += Σ_i weight[b, i] x_i x_iᵀ for x [1 or B, R, d] and H [B, d, d]; rows of weight 0 are skipped."""
    B, R = weight.shape
    d = x.shape[2]
    shared = x.shape[0] == 1
    for b in range(B):
        n = 0 if shared else b
        for i in range(R):
            if weight[b, i] != 0.0:
                for j in range(d):
                    scaled = weight[b, i] * x[n, i, j]
                    for k in range(d):
                        H[b, j, k] += scaled * x[n, i, k]


gram = compiled(_gram, fastmath=True, nogil=True)


def _masked(scores: FloatArray, allowed: BoolArray, out: FloatArray) -> None:
    """Write scores [B, L] into out where allowed [1 or B, L], -inf elsewhere."""
    shared = allowed.shape[0] == 1
    for b in range(scores.shape[0]):
        n = 0 if shared else b
        for i in range(scores.shape[1]):
            out[b, i] = scores[b, i] if allowed[n, i] else -np.inf


masked = compiled(_masked)


def _largest(scores: FloatArray, order: IntArray, values: FloatArray, tied: BoolArray) -> None:
    """Write the n largest of each row of scores [B, L] into order and values [B, n], largest first.

    tied [B] says whether two of a row's values above -inf are equal.
    """
    n, L = order.shape[1], scores.shape[1]
    for b in range(scores.shape[0]):
        row, floor = scores[b], -np.inf
        for i in range(L):
            score = row[i]
            if i >= n and score <= floor:
                continue
            place = min(i, n - 1)
            while place > 0 and values[b, place - 1] < score:
                values[b, place] = values[b, place - 1]
                order[b, place] = order[b, place - 1]
                place -= 1
            values[b, place] = score
            order[b, place] = i
            floor = values[b, min(i, n - 1)]
        tied[b] = False
        for place in range(1, n):
            if values[b, place] == values[b, place - 1] and values[b, place] > -np.inf:
                tied[b] = True


largest = compiled(_largest)


def _largest_by_key(scores: FloatArray, keys: FloatArray, order: IntArray) -> None:
    """Write the n largest of each row of scores [B, L] into order [B, n]; of equal scores the smaller key is first."""
    n, L = order.shape[1], scores.shape[1]
    for b in range(scores.shape[0]):
        for i in range(L):
            score, key = scores[b, i], keys[b, i]
            place = min(i, n)
            while place > 0:
                other = order[b, place - 1]
                if scores[b, other] > score or (scores[b, other] == score and keys[b, other] <= key):
                    break
                if place < n:
                    order[b, place] = other
                place -= 1
            if place < n:
                order[b, place] = i


largest_by_key = compiled(_largest_by_key)


def _equals_left(scores: FloatArray, values: FloatArray, left: IntArray) -> None:
    """Count how many of scores [B, L] equal each of their n largest, values [B, n], and come after it.

    The counts go into left [B, n]; 0 where the value is -inf.
    """
    n = values.shape[1]
    for b in range(values.shape[0]):
        run = 0
        for place in range(n - 1, -1, -1):
            value = values[b, place]
            if value == -np.inf:
                left[b, place] = 0
                continue
            if place == n - 1:
                for i in range(scores.shape[1]):
                    run += scores[b, i] == value
                for other in range(n):
                    run -= values[b, other] == value
            else:
                run = run + 1 if value == values[b, place + 1] else 0
            left[b, place] = run


equals_left = compiled(_equals_left)


def _repeats(items: IntArray) -> bool:
    """Return whether a row of items [B, K] shows an item twice; negative entries do not count."""
    for b in range(items.shape[0]):
        for k in range(1, items.shape[1]):
            for j in range(k):
                if items[b, k] == items[b, j] and items[b, k] >= 0:
                    return True
    return False


repeats = compiled(_repeats)


def _possible(items: IntArray, clicks: FloatArray, single: bool, binary: bool) -> bool:
    """Return whether clicks [B, K] are possible on lists [B, K]: finite, on shown items, and no item shown twice.

    With `single` a list has at most one click, with `binary` a click is 1.
    """
    for b in range(items.shape[0]):
        many = 0
        for k in range(items.shape[1]):
            value, item = clicks[b, k], items[b, k]
            if value != 0.0:
                many += 1
                if item == -1 or not np.isfinite(value) or (binary and value != 1.0) or (single and many > 1):
                    return False
            if item >= 0:
                for j in range(k):
                    if items[b, j] == item:
                        return False
    return True


possible = compiled(_possible)
