"""The best revenue of a cascade, whose visitor buys the first attractive item."""

from __future__ import annotations

import numpy as np

from rankloop.math.kernels import compiled
from rankloop.types import FloatArray


def best_cascade_revenue(w: FloatArray, prices: FloatArray, k: int) -> FloatArray:
    """Return the largest Σ p_i w_i ∏_{h<i}(1-w_h) over lists of at most k items, [B].

    For a fixed set the order by falling price is optimal, so a recursion over the items in that order is exact:
    V_k(i) = max(V_k(i+1), p_i w_i + (1-w_i) V_{k-1}(i+1)).

    Args:
        w: attractions [B, L] in [0, 1].
        prices: [B, L], at least 0.
        k: number of slots.
    """
    rising = np.argsort(prices, axis=1, kind="stable")
    best = np.empty(len(w))
    revenue_recursion(np.take_along_axis(w, rising, axis=1), np.take_along_axis(prices, rising, axis=1), k, best)
    return best


def _revenue_recursion(w: FloatArray, prices: FloatArray, k: int, best: FloatArray) -> None:
    """Fill best [B] with V_k of the first item; w and prices [B, L] are in order of rising price."""
    B, L = w.shape
    V = np.empty(k + 1)
    for b in range(B):
        V[:] = 0.0
        for i in range(L):
            for j in range(k, 0, -1):  # from the top: V[j - 1] is still that of the items below
                V[j] = max(V[j], prices[b, i] * w[b, i] + (1.0 - w[b, i]) * V[j - 1])
        best[b] = V[k]


revenue_recursion = compiled(_revenue_recursion)
