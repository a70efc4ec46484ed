"""Maximum-weight assignment of items to slots, for many learners at once."""

from __future__ import annotations

import numpy as np

from rankloop.math.kernels import compiled
from rankloop.types import BoolArray, FloatArray, IntArray


def _several(w: FloatArray, u: FloatArray, v: FloatArray, slot_of: IntArray) -> bool:
    """Return whether another matching than slot_of is equally good, up to rounding; dual prices u and v from `_assign`.

    Another optimal matching is a cycle of slots, each of which takes the next one's item at reduced cost 0. Node 0
    stands for the unmatched items: a slot that takes one of them frees an item.
    """
    K, C = w.shape
    slack = 8.0 * K * K * 2.0**-52 * (np.abs(u).max() + np.abs(v).max())
    takes = np.zeros((K + 1, K + 1), dtype=np.bool_)
    for j in range(1, C + 1):
        if slot_of[j] != 0 and -v[j] <= slack:
            takes[0, slot_of[j]] = True
    for k in range(1, K + 1):
        as_good, least = 0, -u[k] - slack
        for j in range(C):  # branch-free: most slots prefer their own item only, and are done
            as_good += w[k - 1, j] + v[j + 1] >= least
        for j in range(1, C + 1 if as_good > 1 else 1):
            if w[k - 1, j - 1] + v[j] >= least and slot_of[j] != k:
                takes[k, slot_of[j]] = True
    # A node without an edge to a remaining node is on no cycle: remove such nodes until none or only cycles remain.
    left, count, peeled = np.ones(K + 1, dtype=np.bool_), K + 1, True
    while peeled:
        peeled = False
        for k in range(K + 1):
            if left[k]:
                stuck = True
                for other in range(K + 1):
                    stuck = stuck and not (left[other] and takes[k, other])
                if stuck:
                    left[k], count, peeled = False, count - 1, True
    return bool(count > 0)


several = compiled(_several)


def _assign(weights: FloatArray, chosen: IntArray, sole: BoolArray) -> None:
    """Set chosen[b, k] to the item of slot k in a matching of maximum total weight; weights [B, K, C], C ≥ K, finite.

    sole[b]: no other matching is equally good, even if sums were rounded differently.

    Shortest augmenting paths (Jonker and Volgenant 1987), one slot after the other, with dual prices
    u of slots and v of items: O(K²C).
    """
    B, K, C = weights.shape
    u, v = np.empty(K + 1), np.empty(C + 1)
    slot_of, way = np.empty(C + 1, dtype=np.int64), np.empty(C + 1, dtype=np.int64)
    distance, done = np.empty(C + 1), np.empty(C + 1, dtype=np.bool_)
    for b in range(B):
        u[:], v[:], slot_of[:] = 0.0, 0.0, 0
        for slot in range(1, K + 1):
            # Column 0 stands for "no item": the path starts there with the new slot.
            slot_of[0] = slot
            item = 0
            distance[:], done[:] = np.inf, False
            while slot_of[item] != 0:
                done[item] = True
                k = slot_of[item]
                nearest, least = 0, np.inf
                for j in range(1, C + 1):
                    if not done[j]:
                        cost = -weights[b, k - 1, j - 1] - u[k] - v[j]
                        if cost < distance[j]:
                            distance[j], way[j] = cost, item
                        if distance[j] < least:
                            least, nearest = distance[j], j
                for j in range(C + 1):
                    if done[j]:
                        u[slot_of[j]] += least
                        v[j] -= least
                    else:
                        distance[j] -= least
                item = nearest
            while item != 0:
                slot_of[item] = slot_of[way[item]]
                item = way[item]
        for j in range(1, C + 1):
            if slot_of[j] != 0:
                chosen[b, slot_of[j] - 1] = j - 1
        sole[b] = not several(weights[b], u, v, slot_of)


assign = compiled(_assign)
