"""How sure a share of successes is."""

from __future__ import annotations

import math
from statistics import NormalDist

NORMAL_95 = 1.959964


def wilson(successes: float, n: float) -> tuple[float, float] | None:
    """The 95 % interval of Wilson (1927) for a probability; None where nothing was seen."""
    if n <= 0:
        return None
    p, z2 = successes / n, NORMAL_95**2
    middle = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = NORMAL_95 / (1 + z2 / n) * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)


def difference(a: tuple[float, float], b: tuple[float, float]) -> tuple[float, float, float, float] | None:
    """Of two shares, given (successes, n): difference, its 95 % interval, and how probable it is that a is larger.

    The interval is Newcombe's (1998), which stays sensible for few successes; the probability is of the normal
    approximation with one success and one failure added to each.
    """
    first, second = wilson(*a), wilson(*b)
    if first is None or second is None:
        return None
    p, q = a[0] / a[1], b[0] / b[1]
    low = p - q - math.hypot(p - first[0], second[1] - q)
    high = p - q + math.hypot(first[1] - p, q - second[0])
    smooth = [((s + 1) / (n + 2), n + 2) for s, n in (a, b)]
    spread = math.sqrt(sum(r * (1 - r) / n for r, n in smooth))
    return p - q, low, high, NormalDist().cdf((smooth[0][0] - smooth[1][0]) / spread)
