"""Lists of largest revenue, exactly: under the cascade model, and under multinomial logit choice."""

from __future__ import annotations

import numpy as np

from rankloop.math.kernels import compiled
from rankloop.types import BoolArray, FloatArray, IntArray


def _worth_listing(
    price: FloatArray, w: FloatArray, allowed: BoolArray, edges: FloatArray, m: int, chosen: IntArray, count: IntArray
) -> None:
    """Select the items that a list of m may need under the cascade model, so that only these must be sorted.

    An item is left out if m allowed items are at least as attractive and have prices in higher buckets: one of them
    is not in the list, and in its place the list would be worth at least as much.

    Args:
        price: [1 or B, L].
        w: attractions, [B, L].
        allowed: [1 or B, L].
        edges: prices that separate the buckets, rising, [E].
        m: length of the list, at least 1.
        chosen: [B, L], receives the selected items of each learner first, in order.
        count: [B], receives their number.
    """
    B, L = w.shape
    E = len(edges)
    bucket = np.empty(L, dtype=np.int64)
    top = np.empty((E + 1, m))  # the m largest attractions of each bucket, then of all higher ones
    for b in range(B):
        pb, ab = b % price.shape[0], b % allowed.shape[0]
        top[:] = -1.0
        for i in range(L):
            if allowed[ab, i]:
                low, high = 0, E
                while low < high:
                    middle = (low + high) // 2
                    if edges[middle] <= price[pb, i]:
                        low = middle + 1
                    else:
                        high = middle
                bucket[i] = low
                if w[b, i] > top[low, m - 1]:
                    place = m - 1
                    while place > 0 and top[low, place - 1] < w[b, i]:
                        top[low, place] = top[low, place - 1]
                        place -= 1
                    top[low, place] = w[b, i]
        above, both = np.full(m, -1.0), np.empty(m)
        for low in range(E, -1, -1):
            one, other = 0, 0
            for place in range(m):
                if top[low, one] >= above[other]:
                    both[place] = top[low, one]
                    one += 1
                else:
                    both[place] = above[other]
                    other += 1
            top[low, 0] = above[m - 1]
            above[:] = both
        count[b] = 0
        for i in range(L):
            if allowed[ab, i] and w[b, i] > top[bucket[i], 0]:
                chosen[b, count[b]] = i
                count[b] += 1


worth_listing = compiled(_worth_listing)


def _cascade_revenue(price: FloatArray, w: FloatArray, count: IntArray, places: IntArray) -> None:
    """Choose the items of largest revenue under the cascade model, by the recursion of `plan.cascade_revenue`.

    V_k(i) = max(V_k(i+1), p_i w_i + (1-w_i) V_{k-1}(i+1)), V_0 = 0, over items sorted by falling price. Lists are as
    long as possible: an item in its place by price never lowers the value.

    Args:
        price: [B, L], sorted, largest first.
        w: attractions in the same order, [B, L].
        count: [B], how many of the first items may be listed.
        places: [B, m], receives the chosen positions in this order; -1 in slots that stay empty.
    """
    B, m = places.shape
    L = w.shape[1]
    taken = np.empty((L, m + 1), dtype=np.bool_)
    V = np.empty(m + 1)
    for b in range(B):
        n = count[b]
        V[0] = 0.0
        for k in range(1, m + 1):
            V[k] = -np.inf  # fewer than k items are left
        for i in range(n - 1, -1, -1):
            chance, gain = w[b, i], price[b, i] * w[b, i]
            for k in range(min(m, n - i), 0, -1):  # V[k-1] is still that of the items after i
                with_it = gain + (1.0 - chance) * V[k - 1]
                taken[i, k] = with_it >= V[k]
                if taken[i, k]:
                    V[k] = with_it
        k, slot = min(m, n), 0
        for i in range(n):
            if k > 0 and taken[i, k]:
                places[b, slot] = i
                slot += 1
                k -= 1
        for empty in range(slot, m):
            places[b, empty] = -1


cascade_revenue = compiled(_cascade_revenue)


def _choice_revenue(
    alpha: FloatArray,
    price: FloatArray,
    bias: FloatArray,
    allowed: BoolArray,
    order: IntArray,
    held: FloatArray,
    may_end: bool,
    items: IntArray,
    tied: BoolArray,
) -> None:
    """Choose and place the items of largest expected revenue under multinomial logit choice (Dinkelbach 1967).

    z ← Σ λ_k α_i p_i / (1 + Σ λ_k α_i) over the items of largest α_i(p_i - z), placed by falling value into falling λ,
    from z = 0 until z stays. Where λ falls from slot to slot, items of value 0 or less are left out, unless no price
    is above 0; otherwise all slots are filled.

    Args:
        alpha: [B, L].
        price: [1 or B, L].
        bias: λ, [1 or B, m].
        allowed: [1 or B, L].
        order: [B, L], in which equal values take precedence.
        held: [B, 2], Σ λα and Σ λαp of items that are in the list anyway.
        may_end: whether lists may end early; otherwise all slots are filled.
        items: [B, m], receives the lists; -1 in slots that stay empty.
        tied: [B], receives whether another item is worth exactly as much as a listed one.
    """
    B, m = items.shape
    L = alpha.shape[1]
    best, worth = np.empty(m + 1, dtype=np.int64), np.empty(m + 1)
    slots = np.empty(m, dtype=np.int64)
    for b in range(B):
        pb, lb, ab = b % price.shape[0], b % bias.shape[0], b % allowed.shape[0]
        n, dear = 0, held[b, 1] > 0.0
        for i in range(L):
            if allowed[ab, i]:
                n += 1
                dear = dear or price[pb, i] > 0.0
        n = min(n, m)
        falls = True
        for k in range(n):  # slots by falling bias, the first of equal ones first
            place = k
            while place > 0 and bias[lb, slots[place - 1]] < bias[lb, k]:
                slots[place] = slots[place - 1]
                place -= 1
            slots[place] = k
            falls = falls and place == k
        shorten = may_end and falls and dear
        z, listed = 0.0, 0
        for _ in range(200):
            found = 0
            for at in range(L):
                i = order[b, at]
                if not allowed[ab, i]:
                    continue
                value = alpha[b, i] * (price[pb, i] - z)
                if found > n and value <= worth[n]:
                    continue
                place = min(found, n)
                while place > 0 and worth[place - 1] < value:
                    worth[place], best[place] = worth[place - 1], best[place - 1]
                    place -= 1
                worth[place], best[place] = value, i
                found = min(found + 1, n + 1)
            listed = n
            while shorten and listed > 0 and worth[listed - 1] <= 0.0:
                listed -= 1
            weight, income = 1.0 + held[b, 0], held[b, 1]
            for k in range(listed):
                chance = bias[lb, slots[k]] * alpha[b, best[k]]
                weight += chance
                income += chance * price[pb, best[k]]
            tied[b] = False
            for k in range(1, min(found, listed + 1)):
                tied[b] = tied[b] or worth[k] == worth[k - 1]
            if income / weight <= z:
                break
            z = income / weight
        for k in range(m):
            items[b, k] = -1
        for k in range(listed):
            items[b, slots[k]] = best[k]


choice_revenue = compiled(_choice_revenue)
