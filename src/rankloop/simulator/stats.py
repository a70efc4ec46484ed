"""Standard errors, confidence bands and paired comparisons over replications."""

from __future__ import annotations

import numpy as np

from rankloop.special_functions import stdtrit
from rankloop.types import BoolArray, FloatArray


def sem(values: FloatArray) -> FloatArray:
    """Return the standard error of the mean over the last axis; NaN for a single replication."""
    n = values.shape[-1]
    if n < 2:
        return np.full(values.shape[:-1], np.nan)
    return np.asarray(values.std(axis=-1, ddof=1) / np.sqrt(n))


def half_width(values: FloatArray, confidence: float = 0.95) -> FloatArray:
    """Return half the width of Student's confidence interval of the mean over the last axis."""
    n = values.shape[-1]
    return sem(values) * (stdtrit(n - 1, 0.5 + confidence / 2.0) if n > 1 else np.nan)


def ratio_of_means(values: FloatArray, baseline: FloatArray, confidence: float = 0.95) -> tuple[float, float]:
    """Return the ratio of the means of paired samples [R], and half its confidence interval (delta method)."""
    ratio = float(values.mean() / baseline.mean())
    return ratio, float(half_width(values - ratio * baseline, confidence) / baseline.mean())


def not_worse_than_best(finals: FloatArray, confidence: float = 0.95) -> BoolArray:
    """Return which of P policies are not significantly worse than the one with the lowest mean, from finals [P, R].

    The comparison is paired over replications: all policies run on the same worlds and visitors.
    """
    best = finals[np.argmin(finals.mean(axis=1))]
    difference = finals - best
    bound = half_width(difference, confidence)
    noise = 1e-9 * np.abs(finals).max()
    return np.asarray(np.isnan(bound) | (difference.mean(axis=1) <= bound + noise))
