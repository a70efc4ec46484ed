"""The Bernoulli Kullback-Leibler divergence and its upper confidence index."""

from __future__ import annotations

import numpy as np

from rankloop.special_functions import rel_entr, xlogy
from rankloop.types import FloatArray


def kl(p: FloatArray, q: FloatArray) -> FloatArray:
    """Return KL(Bernoulli(p) ‖ Bernoulli(q)), elementwise."""
    return np.asarray(rel_entr(p, q) + rel_entr(1.0 - p, 1.0 - q))


def kl_upper(p: FloatArray, budget: FloatArray, steps: int = 50, tolerance: float = 1e-13) -> FloatArray:
    """Return max{q ≥ p : KL(p‖q) ≤ budget}, elementwise, for p in [0, 1] and budget ≥ 0.

    KL is convex and increasing in q, so Newton's method that starts right of the root stays right of
    it and converges. Two closed forms are right of it: Pinsker's p + √(budget/2), and the root of KL
    without its -p·log q term, which also holds when the root is next to 1.
    """
    entropy = -(xlogy(p, p) + xlogy(1.0 - p, 1.0 - p))
    with np.errstate(divide="ignore", invalid="ignore"):
        tail = -np.expm1(-(budget + entropy) / (1.0 - p))
    q = np.minimum(np.where(p < 1.0, tail, 1.0), p + np.sqrt(budget / 2.0))
    for _ in range(steps):
        with np.errstate(divide="ignore", invalid="ignore"):
            step = (kl(p, q) - budget) * q * (1.0 - q) / (q - p)
        step = np.where((q > p) & (q < 1.0) & (step > 0.0), step, 0.0)
        q = np.maximum(q - step, p)
        if step.max(initial=0.0) < tolerance:
            break
    return q
