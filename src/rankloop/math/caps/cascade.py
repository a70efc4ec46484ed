"""Lists of large revenue under the cascade model with caps: the expected price of the first attractive item."""

from __future__ import annotations

import numpy as np

from rankloop.math.caps.selection import close_full
from rankloop.math.kernels import compiled
from rankloop.types import BoolArray, FloatArray, IntArray


def _undominated(price: FloatArray, w: FloatArray, group: IntArray, room: IntArray, needed: BoolArray) -> None:
    """Select the items that the best list under one cap may need.

    An item is left out if its group has room for no more items than those of the group that are at least as attractive
    and as dear, and not equal to it: one of them is not in the list, and in its place the list is worth as much.

    Args:
        price: [B, L], sorted by group, then largest price, then largest attraction first.
        w: attractions in the same order, [B, L].
        group: [B, L], in the same order; negative for items of no group, at the end those that are not allowed.
        room: [B, L], how many items of an item's group a list may have at most.
        needed: [B, L], receives the result.
    """
    B, L = w.shape
    top = np.empty(L)  # the largest attractions of the group so far
    for b in range(B):
        there, i = 0, 0
        while i < L:
            if i == 0 or group[b, i] != group[b, i - 1]:
                there = 0
            most, same = room[b, i], i
            while (
                same < L and group[b, same] == group[b, i] and price[b, same] == price[b, i] and w[b, same] == w[b, i]
            ):
                needed[b, same] = most > 0 and (there < most or top[most - 1] < w[b, i])
                same += 1
            for _ in range(min(same - i, most)):
                place = min(there, most - 1)
                if there < most or top[place] < w[b, i]:
                    while place > 0 and top[place - 1] < w[b, i]:
                        top[place] = top[place - 1]
                        place -= 1
                    top[place] = w[b, i]
                    there = min(there + 1, most)
            i = same


undominated = compiled(_undominated)


def _capped_cascade_revenue(
    price: FloatArray,
    w: FloatArray,
    step: IntArray,
    base: IntArray,
    states: IntArray,
    count: IntArray,
    places: IntArray,
) -> None:
    """Choose the items of largest revenue under one cap, by a recursion over slots and the room left in each group.

    V_k(i, s) = max(V_k(i+1, s), p_i w_i + (1-w_i) V_{k-1}(i+1, s - s_i)) over items by falling price, where the mixed
    radix number s says how much room is left in the groups that may become full. Lists are as long as possible.

    Args:
        price: [B, C], sorted, largest first.
        w: attractions in the same order, [B, C].
        step: [B, C], s_i: what an item takes of s; 0 where its group cannot become full.
        base: [B, C], the radix of its group: room + 1; 1 where step is 0.
        states: [B], the number of states s; the last one is the start.
        count: [B], how many of the first items may be listed.
        places: [B, m], receives the chosen positions in this order; -1 in slots that stay empty.
    """
    B, m = places.shape
    for b in range(B):
        n, S = count[b], states[b]
        taken, V = np.zeros((n, m + 1, S), dtype=np.bool_), np.empty((m + 1, S))
        V[:] = -np.inf
        V[0] = 0.0
        for i in range(n - 1, -1, -1):
            chance, gain = w[b, i], price[b, i] * w[b, i]
            for k in range(min(m, n - i), 0, -1):  # V[k-1] is still that of the items after i
                for s in range(S):
                    if step[b, i] > 0 and (s // step[b, i]) % base[b, i] == 0:
                        continue
                    rest = V[k - 1, s - step[b, i]]
                    if rest > -np.inf:
                        with_it = gain + (1.0 - chance) * rest
                        if with_it >= V[k, s]:
                            V[k, s], taken[i, k, s] = with_it, True
        s, slot = S - 1, 0
        k = m
        while k > 0 and V[k, s] == -np.inf:
            k -= 1
        for i in range(n):
            if k > 0 and taken[i, k, s]:
                places[b, slot] = i
                slot += 1
                k -= 1
                s -= step[b, i]
        for empty in range(slot, m):
            places[b, empty] = -1


capped_cascade_revenue = compiled(_capped_cascade_revenue)


def _greedy_cascade_revenue(
    price: FloatArray,
    w: FloatArray,
    may: BoolArray,
    groups: IntArray,
    at_most: IntArray,
    counted: IntArray,
    draws: FloatArray,
    items: IntArray,
    tied: BoolArray,
) -> None:
    """Choose items one after the other by what they add to the revenue, and order them by falling price.

    The revenue is the expected largest price among attractive items, a monotone submodular function of the set: under
    one cap the list is worth at least half of the best one, and mostly nearly all of it.

    Args:
        price: [1 or B, L].
        w: attractions, [B, L].
        may: [1 or B, L], the allowed items.
        groups: [C, 1 or B, L], the value of each item in each capped field; negative where it has none.
        at_most: [C].
        counted: [n], items that are in the list anyway.
        draws: [B, m], uniform in [0, 1): which of several equal items is chosen.
        items: [B, m], receives the lists, -1 in slots that stay empty.
        tied: [B], receives whether several items added the same.
    """
    B, L = w.shape
    m = items.shape[1]
    row, gains, cost, chance = np.empty(L), np.empty(L), np.empty(m), np.empty(m)
    for b in range(B):
        own, tied[b], items[b] = b % price.shape[0], False, -1
        for i in range(L):
            row[i] = 0.0 if may[b % may.shape[0], i] else -np.inf
        picked = np.full(m, -1, dtype=np.int64)
        close_full(row, groups, b, at_most, counted, picked, -1)
        for place in range(m):
            # The largest price of the list so far is cost[j] with probability chance[j].
            left = 1.0
            for j in range(place):
                cost[j], chance[j] = price[own, items[b, j]], left * w[b, items[b, j]]
                left *= 1.0 - w[b, items[b, j]]
            best, found, equal = -1.0, -1, 0
            for i in range(L):
                gains[i] = -1.0
                if row[i] == 0.0:
                    gain = left * price[own, i]
                    for j in range(place - 1, -1, -1):
                        if cost[j] >= price[own, i]:
                            break
                        gain += chance[j] * (price[own, i] - cost[j])
                    gains[i] = gain * w[b, i]
                    if gains[i] > best:
                        best, found, equal = gains[i], i, 0
                    elif gains[i] == best:
                        equal += 1
            if found < 0:
                break
            skip = int(draws[b, place] * (equal + 1))
            while skip > 0:
                found += 1
                if gains[found] == best:
                    skip -= 1
            tied[b] = tied[b] or equal > 0
            picked[place] = found
            row[found] = -np.inf
            close_full(row, groups, b, at_most, counted, picked, place)
            at = place
            while at > 0:
                other = items[b, at - 1]
                if price[own, other] > price[own, found]:
                    break
                if price[own, other] == price[own, found] and w[b, other] >= w[b, found]:
                    break
                items[b, at] = other
                at -= 1
            items[b, at] = found


greedy_cascade_revenue = compiled(_greedy_cascade_revenue)
