"""Maximum-weight assignment of items to slots, for many learners at once."""

from __future__ import annotations

import numpy as np

from rankloop.math.kernels import compiled
from rankloop.types import FloatArray, IntArray


def _assign(weights: FloatArray, chosen: IntArray) -> None:
    """chosen[b, k] = item of slot k in a matching of maximum total weight; weights [B, K, C], C ≥ K, finite.

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


assign = compiled(_assign)
