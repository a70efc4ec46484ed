"""The best items that caps allow, one after the other.

Under one cap the lists that are allowed are the independent sets of a partition matroid, so taking the best item that
still fits gives, for every length, the list of largest sum. Under several caps it is a greedy heuristic.
"""

from __future__ import annotations

import numpy as np

from rankloop.math.kernels import compiled, inlined
from rankloop.types import BoolArray, FloatArray, IntArray


def _close_full(
    row: FloatArray, groups: IntArray, b: int, at_most: IntArray, counted: IntArray, listed: IntArray, new: int
) -> None:
    """Set row [L] to -inf where an item's value is full after the items counted [n] and listed up to place `new`.

    groups is [C, 1 or B, L] and at_most [C]. `new` is -1 before the first item: then all counted ones are looked at.
    """
    own = b % groups.shape[1]
    for c in range(len(at_most)):
        first, last = (0, len(counted)) if new < 0 else (new, new + 1)
        for place in range(first, last):
            value = groups[c, own, counted[place] if new < 0 else listed[place]]
            if value < 0:
                continue
            there = 0
            for item in counted:
                there += groups[c, own, item] == value
            for other in range(new + 1):
                there += groups[c, own, listed[other]] == value
            if there >= at_most[c]:
                for i in range(len(row)):
                    if groups[c, own, i] == value:
                        row[i] = -np.inf


close_full = inlined(_close_full)


def _best_under_caps(
    scores: FloatArray,
    may: BoolArray,
    groups: IntArray,
    at_most: IntArray,
    counted: IntArray,
    draws: FloatArray,
    order: IntArray,
    values: FloatArray,
    rivals: IntArray,
) -> None:
    """Write the best items that caps allow into order and values [B, n]; -1 and 0 where nothing more may be listed.

    Args:
        scores: [B, L], not -inf.
        may: [1 or B, L], the allowed items.
        groups: [C, 1 or B, L], the value of each item in each capped field; negative where it has none.
        at_most: [C].
        counted: [m], items that are in the list anyway.
        draws: [B, n], uniform in [0, 1): which of several equal items takes a place.
        order: [B, n], receives the items.
        values: [B, n], receives their scores.
        rivals: [B, n], receives how many other items could have taken the place with exactly the same score.
    """
    B, L = scores.shape
    row = np.empty(L)
    for b in range(B):
        for i in range(L):
            row[i] = scores[b, i] if may[b % may.shape[0], i] else -np.inf
        close_full(row, groups, b, at_most, counted, order[b], -1)
        for place in range(order.shape[1]):
            best, found, equal = -np.inf, -1, 0
            for i in range(L):
                if row[i] > best:
                    best, found, equal = row[i], i, 0
                elif row[i] == best and found >= 0:
                    equal += 1
            order[b, place], rivals[b, place] = found, equal
            values[b, place] = best if found >= 0 else 0.0
            if found < 0:
                continue
            skip = int(draws[b, place] * (equal + 1)) if equal > 0 else 0
            while skip > 0:
                found += 1
                if row[found] == best:
                    skip -= 1
            order[b, place] = found
            row[found] = -np.inf
            close_full(row, groups, b, at_most, counted, order[b], place)


best_under_caps = compiled(_best_under_caps)


def _best_pairs(
    gains: FloatArray, candidates: IntArray, groups: IntArray, at_most: IntArray, counted: IntArray, chosen: IntArray
) -> None:
    """Choose items for lists of slots that differ: one after the other the pair of slot and item of largest gain.

    Args:
        gains: [B, k, C] of the candidates.
        candidates: [B, C], items; negative where there is none.
        groups: [F, 1 or B, L] of all items, as in `_best_under_caps`.
        at_most: [F].
        counted: [m], items that are in the list anyway.
        chosen: [B, k], receives the places of the chosen candidates in any order, -1 at the end where there are fewer.
    """
    B, k, C = gains.shape
    row, listed = np.empty(groups.shape[2]), np.empty(k, dtype=np.int64)
    best, first = np.empty(k), np.empty(k, dtype=np.int64)  # the best candidate of each free slot
    for b in range(B):
        row[:], first[:], chosen[b] = 0.0, -1, -1
        close_full(row, groups, b, at_most, counted, listed, -1)
        for place in range(k):
            slot = -1
            for one in range(k):
                if first[one] == -2 or (first[one] >= 0 and row[candidates[b, first[one]]] == 0.0):
                    pass  # filled, or its best candidate still fits
                else:
                    best[one], first[one] = -np.inf, -1
                    for j in range(C):
                        if candidates[b, j] >= 0 and row[candidates[b, j]] == 0.0 and gains[b, one, j] > best[one]:
                            best[one], first[one] = gains[b, one, j], j
                if first[one] >= 0 and (slot < 0 or best[one] > best[slot]):
                    slot = one
            if slot < 0:
                break
            listed[place], chosen[b, place] = candidates[b, first[slot]], first[slot]
            row[listed[place]], first[slot] = -np.inf, -2
            close_full(row, groups, b, at_most, counted, listed, place)


best_pairs = compiled(_best_pairs)
