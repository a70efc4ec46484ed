"""Chances of an order in which equals are drawn fairly."""

from __future__ import annotations

import numpy as np

from rankloop.math.kernels import compiled
from rankloop.types import BoolArray, FloatArray, IntArray


def _count_larger_equal(
    values: FloatArray, may: BoolArray, chosen: IntArray, larger: IntArray, equal: IntArray
) -> None:
    """How many of the values [L] that may be are larger than each chosen one's, and how many equal, both [n].

    None equal where the index is none of those that may be.
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
    """Chances that things meet boxes, each [n], when both are put into a row, equal ones in random order.

    Thing j is one of size[j] equal ones at the places start[j], start[j] + 1 …; box j one of width[j] at first[j] …
    pair[j] = P(thing j meets box j), prefix[j] = P(the things up to j meet their boxes); 0 for a thing of size 0.
    """
    sure = 1.0
    for j in range(len(start)):
        common = min(start[j] + size[j], first[j] + width[j]) - max(start[j], first[j])
        if common <= 0:
            pair[j] = sure = prefix[j] = 0.0
            continue
        pair[j] = common / (size[j] * width[j])
        # Places in common, equal things and equal boxes that those before have used up.
        places, things, boxes = common, size[j], width[j]
        for i in range(j):
            like_thing, like_box = start[i] == start[j] and size[i] > 0, first[i] == first[j]
            places -= like_thing and like_box
            things -= like_thing
            boxes -= like_box
        sure = sure * places / (things * boxes) if places > 0 else 0.0
        prefix[j] = sure


pairing = compiled(_pairing)


def tied_ranks(values: FloatArray) -> tuple[IntArray, IntArray]:
    """First place and number of equals of each of the values [n] in descending order."""
    first, width = np.empty((2, len(values)), dtype=np.int64)
    count_larger_equal(values, np.ones(len(values), dtype=np.bool_), np.arange(len(values)), first, width)
    return first, width
