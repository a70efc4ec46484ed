"""How sure a share of successes is."""

from __future__ import annotations

import math
from statistics import NormalDist

from rankloop.types import FloatArray

NORMAL_95 = 1.959964
Counted = tuple[FloatArray, FloatArray]  # successes and n, [spans] each


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


def stratified(a: Counted, b: Counted) -> tuple[float, float, float] | None:
    """As `difference`, of shares that were counted in many spans of time: difference and its 95 % interval.

    Spans in which one of the two has nothing say nothing. The estimate is that of Mantel and Haenszel, its variance
    that of Sato (1989), which holds for few large spans and for many small ones.

    Args:
        a: successes and n of each span, [spans] each.
        b: the same of the other.
    """
    both = (a[1] > 0) & (b[1] > 0)
    (x, n), (y, m) = ((one[0][both], one[1][both]) for one in (a, b))
    whole = n + m
    weight = float((n * m / whole).sum())
    if weight <= 0:
        return None
    gained = float(((x * m - y * n) / whole).sum()) / weight
    p = float(((n**2 * y - m**2 * x + n * m * (m - n) / 2) / whole**2).sum())
    q = float(((x * (m - y) + y * (n - x)) / (2 * whole)).sum())
    half = NORMAL_95 * math.sqrt(max(0.0, gained * p + q)) / weight
    return gained, gained - half, gained + half


def needed(p: float, q: float, share: float = 0.5) -> float:
    """Lists of two groups together that show a difference of p and q, with 80 % probability and 95 % confidence.

    Args:
        p: success rate of the first group.
        q: of the second.
        share: of the first group's lists.
    """
    if p == q or not 0.0 < share < 1.0:
        return math.inf
    variance = p * (1 - p) / share + q * (1 - q) / (1 - share)
    return (NORMAL_95 + NormalDist().inv_cdf(0.8)) ** 2 * variance / (p - q) ** 2
