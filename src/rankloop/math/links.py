"""Links: how a score becomes the expected outcome of an item."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rankloop.math.logistic import curvature as logistic_curvature
from rankloop.math.logistic import sigmoid
from rankloop.types import FloatArray

MAX_LOG_MEAN = 20.0
"""Largest magnitude of a score under the Poisson link: expected outcomes stay between e⁻²⁰ and e²⁰, about 5e8."""


@dataclass(frozen=True)
class Link:
    """The expected outcome μ(u) of a score u, and its derivative."""

    name: str
    mean: Callable[[FloatArray], FloatArray]  # μ(u)
    curvature: Callable[[FloatArray], FloatArray]  # μ′(u)
    bounded: bool  # outcomes are clicks, 0 or 1: an expected outcome is a probability

    def attraction(self, u: FloatArray) -> FloatArray:
        """Return μ(u) as a planner uses it.

        Never negative, and at most 1 for clicks: an optimistic or sampled score may leave this range.
        """
        return np.clip(self.mean(u), 0.0, 1.0 if self.bounded else np.inf)


def _itself(u: FloatArray) -> FloatArray:
    return np.asarray(u, dtype=np.float64)


def _sigmoid(u: FloatArray) -> FloatArray:
    return np.asarray(sigmoid(u))


def _exp(u: FloatArray) -> FloatArray:
    return np.asarray(np.exp(np.clip(u, -MAX_LOG_MEAN, MAX_LOG_MEAN)))


def _one(u: FloatArray) -> FloatArray:
    return np.ones(np.shape(u))


RATE = Link("identity", _itself, _one, bounded=True)
"""A score is the probability of a click itself."""
LOGISTIC = Link("logistic", _sigmoid, logistic_curvature, bounded=True)
"""A score is the log-odds of a click."""
IDENTITY = Link("identity", _itself, _one, bounded=False)
"""A score is the expected amount."""
POISSON = Link("poisson", _exp, _exp, bounded=False)
"""A score is the logarithm of the expected count; it is clipped to [-MAX_LOG_MEAN, MAX_LOG_MEAN]."""
