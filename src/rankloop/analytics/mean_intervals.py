"""Confidence intervals of means and of their differences, from sums and sums of squares."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

from rankloop.analytics.intervals import NORMAL_95
from rankloop.types import FloatArray


class Moments(NamedTuple):
    """The number of values, their sum and the sum of their squares."""

    n: float
    total: float
    squares: float

    @property
    def mean(self) -> float:
        """The mean; there is at least one value."""
        return self.total / self.n

    @property
    def deviations(self) -> float:
        """The sum of squared deviations from the mean; infinite where the squares overflow."""
        return max(0.0, self.squares - self.total * self.total / self.n) if math.isfinite(self.squares) else math.inf

    def variance_near(self, other: float) -> float:
        """Return the variance of one value, with one more value at `other` added.

        The added value keeps a group whose few values are all equal from looking certain; with n values it adds about
        (mean - other)²/n.
        """
        return (self.deviations + self.n / (self.n + 1.0) * (self.mean - other) ** 2) / self.n


def mean_interval(values: Moments) -> tuple[float, float] | None:
    """Return the normal 95 % interval of a mean, or None if there are fewer than two values or they overflow."""
    if values.n < 2:
        return None
    half = NORMAL_95 * math.sqrt(values.deviations / (values.n - 1) / values.n)
    return (values.mean - half, values.mean + half) if math.isfinite(half) else None


def mean_difference(a: Moments, b: Moments) -> tuple[float, float, float, float] | None:
    """Return the difference of two means, its normal 95 % interval (low, high), and the probability that a's is larger.

    The variances are those of `Moments.variance_near`. The interval relies on the central limit theorem: where few
    lists have a value at all, it needs some dozens of them. None if a group is empty or its squares overflow.
    """
    if min(a.n, b.n) <= 0:
        return None
    gap = a.mean - b.mean
    error = math.sqrt(a.variance_near(b.mean) / a.n + b.variance_near(a.mean) / b.n)
    if not math.isfinite(error):
        return None
    better = NormalDist().cdf(gap / error) if error > 0.0 else 0.5
    return gap, gap - NORMAL_95 * error, gap + NORMAL_95 * error, better


def stratified_means(a: FloatArray, b: FloatArray) -> tuple[float, float, float] | None:
    """Return the difference of two means that were observed in strata, and its normal 95 % interval (low, high).

    Strata in which one group is empty are left out. The differences are weighted by n·m/(n + m), the weights of Mantel
    and Haenszel; the variance of one value is that within the strata, common to all strata of a group. None if no
    stratum has both groups, or if no stratum has two values of a group.

    Args:
        a: number of values, sum and sum of squares of the first group, [strata, 3].
        b: the same of the second group.
    """
    both = (a[:, 0] > 0) & (b[:, 0] > 0)
    (n, x, xx), (m, y, yy) = a[both].T, b[both].T
    free = float((n - 1).sum()), float((m - 1).sum())
    if min(free) <= 0:
        return None
    weight = n * m / (n + m)
    share = weight / weight.sum()
    estimate = float((share * (x / n - y / m)).sum())
    spread = [
        max(0.0, float((squares - total * total / size).sum())) / left
        for size, total, squares, left in ((n, x, xx, free[0]), (m, y, yy, free[1]))
    ]
    half = NORMAL_95 * math.sqrt(float((share**2 * (spread[0] / n + spread[1] / m)).sum()))
    return (estimate, estimate - half, estimate + half) if math.isfinite(half) else None
