"""Standard errors, confidence bands and paired comparisons over replications."""

from __future__ import annotations

import numpy as np

from rankloop.special_functions import stdtrit
from rankloop.types import BoolArray, FloatArray


def sem(values: FloatArray) -> FloatArray:
    """Standard error of the mean over the last axis; NaN for a single replication."""
    n = values.shape[-1]
    if n < 2:
        return np.full(values.shape[:-1], np.nan)
    return np.asarray(values.std(axis=-1, ddof=1) / np.sqrt(n))


def half_width(values: FloatArray, confidence: float = 0.95) -> FloatArray:
    """Half the width of Student's confidence interval of the mean over the last axis."""
    n = values.shape[-1]
    return sem(values) * (stdtrit(n - 1, 0.5 + confidence / 2.0) if n > 1 else np.nan)


def share_of(own: FloatArray, random: FloatArray, confidence: float = 0.95) -> tuple[float, float]:
    """Ratio of the means of paired finals [R], and half its confidence interval (delta method)."""
    ratio = float(own.mean() / random.mean())
    return ratio, float(half_width(own - ratio * random, confidence) / random.mean())


def like_the_best(finals: FloatArray, confidence: float = 0.95) -> BoolArray:
    """Which of P policies are not credibly worse than the one of least mean, from finals [P, R].

    Paired over replications: all policies met the same worlds and visitors.
    """
    best = finals[np.argmin(finals.mean(axis=1))]
    difference = finals - best
    bound = half_width(difference, confidence)
    noise = 1e-9 * np.abs(finals).max()
    return np.asarray(np.isnan(bound) | (difference.mean(axis=1) <= bound + noise))
