"""Probabilities of an order in which ties are broken uniformly at random."""

from __future__ import annotations

import numpy as np

from rankloop.math.kernels import compiled
from rankloop.types import BoolArray, FloatArray, IntArray


def _count_larger_equal(
    values: FloatArray, may: BoolArray, chosen: IntArray, larger: IntArray, equal: IntArray
) -> None:
    """Count the allowed values [L] that are larger than each chosen one, and those that equal it, both [n].

    Both counts are 0 where the chosen index is not allowed.
    """
    for j in range(len(chosen)):
        larger[j], equal[j] = 0, 0
        if chosen[j] < 0 or not may[chosen[j]]:
            continue
        value = values[chosen[j]]
        for i in range(len(values)):
            if may[i]:
                larger[j] += values[i] > value
                equal[j] += values[i] == value


count_larger_equal = compiled(_count_larger_equal)


def _pairing(
    start: IntArray, size: IntArray, first: IntArray, width: IntArray, prefix: FloatArray, pair: FloatArray
) -> None:
    """Compute the probabilities that items meet slots, each [n], when both are sorted and ties are in random order.

    Item j is one of size[j] tied items at the ranks start[j], start[j] + 1 …; slot j is one of width[j] at first[j] …
    pair[j] = P(item j meets slot j), prefix[j] = P(the items up to j meet their slots); 0 for an item of size 0.
    """
    so_far = 1.0
    for j in range(len(start)):
        common = min(start[j] + size[j], first[j] + width[j]) - max(start[j], first[j])
        if common <= 0:
            pair[j] = so_far = prefix[j] = 0.0
            continue
        pair[j] = common / (size[j] * width[j])
        # Common ranks, tied items and tied slots, without those that earlier pairs have used up.
        ranks, items, slots = common, size[j], width[j]
        for i in range(j):
            tied_item, tied_slot = start[i] == start[j] and size[i] > 0, first[i] == first[j]
            ranks -= tied_item and tied_slot
            items -= tied_item
            slots -= tied_slot
        so_far = so_far * ranks / (items * slots) if ranks > 0 else 0.0
        prefix[j] = so_far


pairing = compiled(_pairing)


def tied_ranks(values: FloatArray) -> tuple[IntArray, IntArray]:
    """Return the first rank of each of the values [n] in descending order, and how many values tie with it."""
    first, width = np.empty((2, len(values)), dtype=np.int64)
    count_larger_equal(values, np.ones(len(values), dtype=np.bool_), np.arange(len(values)), first, width)
    return first, width
