"""Exact probabilities of the order of lines level + slope·Z at a standard normal Z."""

from __future__ import annotations

import math

import numpy as np

from rankloop.math.kernels import compiled
from rankloop.types import BoolArray, FloatArray, IntArray


def _between(low: float, high: float) -> float:
    """Return P(low < Z < high) for a standard normal Z, with small tail probabilities as accurate as others."""
    if high <= low:
        return 0.0
    if low > 0.0:
        return 0.5 * (math.erfc(low * math.sqrt(0.5)) - math.erfc(high * math.sqrt(0.5)))
    if high < 0.0:
        return 0.5 * (math.erfc(-high * math.sqrt(0.5)) - math.erfc(-low * math.sqrt(0.5)))
    return 1.0 - 0.5 * (math.erfc(high * math.sqrt(0.5)) + math.erfc(-low * math.sqrt(0.5)))


between = compiled(_between)


def _insert(kept: FloatArray, value: float) -> None:
    """Insert a value into an ascending row; the largest entry, which exceeds the value, drops out."""
    place = len(kept) - 1
    while place > 0 and kept[place - 1] > value:
        kept[place] = kept[place - 1]
        place -= 1
    kept[place] = value


insert = compiled(_insert)


def _heights(
    level: FloatArray, slope: FloatArray, may: BoolArray, order: IntArray, prefix: FloatArray, place: FloatArray
) -> None:
    """Compute the probabilities of an order of the highest lines level + slope·Z, ties broken uniformly at random.

    prefix[j] = P(the j + 1 highest of the allowed lines [L] are order[: j + 1]), place[j] = P(order[j] is the j-th
    highest); 0 where the order [n] has an index that is not allowed. A line is above another on one side of the point
    where they cross, so an order is an interval of Z; for the j-th rank only the j + 1 first crossings with
    steeper lines matter, and the j + 1 last ones with flatter lines. O(nL).
    """
    n = len(order)
    taken = np.zeros(len(level), dtype=np.bool_)
    low, high, ties = -np.inf, np.inf, 1.0
    steeper, flatter = np.empty(n + 2), np.empty(n + 2)
    for j in range(n):
        i = order[j]
        if i < 0 or not may[i]:
            prefix[j:] = 0.0
            place[j] = 0.0
            low, high = np.inf, -np.inf
            continue
        # Sorted crossings with the lines that are above i to the right of the crossing, and negated crossings with
        # those above i to its left; each row starts with -inf.
        steeper[:], flatter[:] = np.inf, np.inf
        steeper[0], flatter[0] = -np.inf, -np.inf
        above, equal, equal_left = 0, 1, 1
        for other in range(len(level)):
            if other == i or not may[other]:
                continue
            rise, lead = slope[other] - slope[i], level[i] - level[other]
            if rise > 0.0:
                crossing = lead / rise
                if crossing < steeper[n + 1]:
                    insert(steeper[1:], crossing)
                if not taken[other] and crossing < high:
                    high = crossing
            elif rise < 0.0:
                crossing = lead / rise
                if -crossing < flatter[n + 1]:
                    insert(flatter[1:], -crossing)
                if not taken[other] and crossing > low:
                    low = crossing
            elif lead < 0.0:
                above += 1
                if not taken[other]:
                    low, high = np.inf, -np.inf
            elif lead == 0.0:
                equal += 1
                equal_left += not taken[other]
        taken[i] = True
        ties /= equal_left
        prefix[j] = between(low, high) * ties
        # With u flatter and v steeper lines above i, it has rank j, or one of its ties has, for these totals.
        most, least = j - above, j - above - equal + 1
        total = 0.0
        for u in range(most + 1):
            left, right = -flatter[u + 1], -flatter[u]
            total += between(max(left, steeper[max(0, least - u)]), min(right, steeper[most - u + 1]))
        place[j] = total / equal


heights = compiled(_heights)
