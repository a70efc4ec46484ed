"""Maximum-weight assignment of items to slots with at most so many items of each group: a flow of least cost.

The nodes of the residual graph are the slots, one node for each full group, and an end node (the last) for items that
may still be added. Steps between nodes are items: a slot takes an item, whose slot or group then has to give one up.
"""

from __future__ import annotations

import numpy as np

from rankloop.math.kernels import compiled, inlined
from rankloop.types import BoolArray, FloatArray, IntArray

NOBODY = -1


def _relax(
    w: FloatArray,
    group: IntArray,
    full: BoolArray,
    slot_of: IntArray,
    filled: BoolArray,
    dist: FloatArray,
    via: IntArray,
    item: IntArray,
    beyond: bool,
    slack: float,
) -> bool:
    """Shorten the paths dist to all nodes by one more step; return whether any became shorter by more than `slack`.

    via and item receive the last node before, and the item of the last step. Paths lead on from the end if `beyond`.
    """
    K, C = w.shape
    end, changed = K + len(full), False
    for u in range(K):
        if dist[u] == np.inf:
            continue
        for j in range(C):
            if slot_of[j] == u or group[j] < -1:
                continue
            v, length = end, dist[u] - w[u, j]
            if slot_of[j] >= 0:
                v = slot_of[j]
                length += w[v, j]
            elif group[j] >= 0 and full[group[j]]:
                v = K + group[j]
            if length < dist[v] - slack:
                dist[v], via[v], item[v], changed = length, u, j, True
    for j in range(C):
        v = slot_of[j]
        if v < 0 or not filled[v]:
            continue
        u = K + group[j] if group[j] >= 0 and full[group[j]] else end
        if u == end and not beyond:
            continue
        length = dist[u] + w[v, j]
        if length < dist[v] - slack:
            dist[v], via[v], item[v], changed = length, u, j, True
    return changed


relax = inlined(_relax)


def _another(
    w: FloatArray,
    group: IntArray,
    full: BoolArray,
    used: IntArray,
    slot_of: IntArray,
    filled: BoolArray,
    slack: float,
) -> bool:
    """Return whether another assignment of the same slots is as good, up to rounding: a cycle of cost 0."""
    K, C = w.shape
    G = len(full)
    N = K + G + 1
    dist, via, item = np.zeros(N), np.empty(N, dtype=np.int64), np.empty(N, dtype=np.int64)
    for k in range(K):
        if not filled[k]:
            dist[k] = np.inf
    for _ in range(N):
        changed = relax(w, group, full, slot_of, filled, dist, via, item, True, slack)
        for g in range(G):
            if full[g] and used[g] > 0 and dist[N - 1] < dist[K + g] - slack:
                dist[K + g], changed = dist[N - 1], True
        if not changed:
            break
    tight, near = np.zeros((N, N), dtype=np.bool_), 4.0 * slack
    for u in range(K):
        for j in range(C if filled[u] else 0):
            if slot_of[j] == u or group[j] < -1:
                continue
            v, length = N - 1, dist[u] - w[u, j]
            if slot_of[j] >= 0:
                v = slot_of[j]
                length += w[v, j]
            elif group[j] >= 0 and full[group[j]]:
                v = K + group[j]
            if length <= dist[v] + near:
                tight[u, v] = True
    for j in range(C):
        v = slot_of[j]
        if v >= 0:
            u = K + group[j] if group[j] >= 0 and full[group[j]] else N - 1
            if dist[u] + w[v, j] <= dist[v] + near:
                tight[u, v] = True
    for g in range(G):
        if full[g] and used[g] > 0 and dist[N - 1] <= dist[K + g] + near:
            tight[N - 1, K + g] = True
    # A node without a step to a remaining node is on no cycle.
    left, count, peeled = np.ones(N, dtype=np.bool_), N, True
    while peeled:
        peeled = False
        for u in range(N):
            if left[u]:
                stuck = True
                for v in range(N):
                    stuck = stuck and not (left[v] and tight[u, v])
                if stuck:
                    left[u], count, peeled = False, count - 1, True
    return bool(count > 0)


another = inlined(_another)


def _assign_under_cap(
    weights: FloatArray, group: IntArray, room: IntArray, turn: IntArray, chosen: IntArray, sole: BoolArray
) -> None:
    """Set chosen[b, k] to the candidate of slot k in an assignment of maximum total weight.

    As many slots are filled as items fit, from the first one on; -1 in the others. Successive shortest paths, one slot
    after the other, by Bellman and Ford's method: lengths that differ by rounding only count as equal.

    Args:
        weights: [B, K, C], finite.
        group: [B, C], the group of each candidate; -1: of none, below: no candidate.
        room: [B, G], how many items of each group may be listed.
        turn: [B, K], the order in which slots are filled, so that equal ones are treated alike.
        chosen: [B, K].
        sole: [B], whether no other assignment is equally good, even if sums were rounded differently.
    """
    B, K, C = weights.shape
    G = room.shape[1]
    end, slot_of, filled = K + G, np.empty(C, dtype=np.int64), np.empty(K, dtype=np.bool_)
    used, full = np.empty(G, dtype=np.int64), np.empty(G, dtype=np.bool_)
    dist, via, item = np.empty(end + 1), np.empty(end + 1, dtype=np.int64), np.empty(end + 1, dtype=np.int64)
    for b in range(B):
        w, largest = weights[b], 0.0
        used[:], fits = 0, 0
        for j in range(C):
            if group[b, j] >= -1:
                for k in range(K):
                    largest = max(largest, abs(w[k, j]))
                if group[b, j] == -1 or used[group[b, j]] < room[b, group[b, j]]:
                    fits += 1
                    if group[b, j] >= 0:
                        used[group[b, j]] += 1
        slack = 8.0 * K * 2.0**-52 * largest
        chosen[b], slot_of[:], filled[:] = NOBODY, NOBODY, False
        for place in range(K):
            start = turn[b, place]
            if start >= fits:
                continue
            used[:] = 0
            for j in range(C):
                if slot_of[j] >= 0 and group[b, j] >= 0:
                    used[group[b, j]] += 1
            for g in range(G):
                full[g] = used[g] >= room[b, g]
            dist[:], via[:] = np.inf, NOBODY
            dist[start] = 0.0
            for _ in range(end + 1):
                if not relax(w, group[b], full, slot_of, filled, dist, via, item, False, slack):
                    break
            node = end
            while node != start:
                if via[node] < K:
                    chosen[b, via[node]] = item[node]
                node = via[node]
            filled[start], slot_of[:] = True, NOBODY
            for k in range(K):
                if chosen[b, k] >= 0:
                    slot_of[chosen[b, k]] = k
        used[:] = 0
        for j in range(C):
            if slot_of[j] >= 0 and group[b, j] >= 0:
                used[group[b, j]] += 1
        for g in range(G):
            full[g] = used[g] >= room[b, g]
        sole[b] = not another(w, group[b], full, used, slot_of, filled, slack)


assign_under_cap = compiled(_assign_under_cap)
