"""Confidence intervals of proportions and of their differences."""

from __future__ import annotations

import math
from statistics import NormalDist

from rankloop.special_functions import NORMAL_95 as NORMAL_95
from rankloop.types import FloatArray

TEST_POWER = 0.8
"""Probability with which `required_lists` detect the difference."""
Counted = tuple[FloatArray, FloatArray]  # successes and n, [strata] each


def wilson(successes: float, n: float) -> tuple[float, float] | None:
    """Return the 95 % interval of Wilson (1927) for a proportion, or None if n is 0."""
    if n <= 0:
        return None
    p, z2 = successes / n, NORMAL_95**2
    middle = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = NORMAL_95 / (1 + z2 / n) * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)


def difference(a: tuple[float, float], b: tuple[float, float]) -> tuple[float, float, float, float] | None:
    """Return the difference of two proportions, its 95 % interval (low, high), and the probability that a is larger.

    The interval is that of Newcombe (1998), which is reliable for few successes too. The probability is the normal
    approximation with one success and one failure added to each proportion. None if one n is 0.

    Args:
        a: (successes, n) of the first proportion.
        b: (successes, n) of the second.
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
    """Return the difference of two proportions that were counted in strata, and its 95 % interval (low, high).

    Strata in which one n is 0 are left out. The estimate is that of Mantel and Haenszel, its variance that of Sato
    (1989), which holds for few large strata and for many small ones. None if no stratum has both.

    Args:
        a: successes and n of the first proportion, [strata] each.
        b: successes and n of the second, [strata] each.
    """
    both = (a[1] > 0) & (b[1] > 0)
    (x, n), (y, m) = ((one[0][both], one[1][both]) for one in (a, b))
    total = n + m
    weight = float((n * m / total).sum())
    if weight <= 0:
        return None
    estimate = float(((x * m - y * n) / total).sum()) / weight
    p = float(((n**2 * y - m**2 * x + n * m * (m - n) / 2) / total**2).sum())
    q = float(((x * (m - y) + y * (n - x)) / (2 * total)).sum())
    half = NORMAL_95 * math.sqrt(max(0.0, estimate * p + q)) / weight
    return estimate, estimate - half, estimate + half


def required_lists(p: float, q: float, share: float = 0.5) -> float:
    """Return the number of lists with which an A/B test detects p - q, with 80 % power at 95 % confidence.

    Args:
        p: success rate of the first group.
        q: success rate of the second group.
        share: share of the first group in all lists.
    """
    return required_for_means(p - q, (p * (1 - p), q * (1 - q)), share)


def required_for_means(difference: float, variances: tuple[float, float], share: float = 0.5) -> float:
    """Return the number of lists with which an A/B test detects a difference of means, as `required_lists` does.

    Args:
        difference: of the means.
        variances: of one list in each group.
        share: share of the first group in all lists.
    """
    if difference == 0.0 or not 0.0 < share < 1.0:
        return math.inf
    variance = variances[0] / share + variances[1] / (1 - share)
    return (NORMAL_95 + NormalDist().inv_cdf(TEST_POWER)) ** 2 * variance / difference**2
