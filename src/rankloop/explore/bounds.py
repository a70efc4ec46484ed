"""Upper confidence bounds from counts. An unobserved item scores +inf."""

from __future__ import annotations

import numpy as np

from rankloop.belief.base import Tally
from rankloop.math.bernoulli import kl_upper
from rankloop.types import FloatArray, IntArray


def ucb1(tally: Tally, t: IntArray) -> FloatArray:
    """Return s/n + √(1.5 log(t-1)/n), log 0 := 0."""
    log_t = np.log(np.maximum(t - 1, 1))[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        bound = tally.mean + np.sqrt(1.5 * log_t / tally.exposure)
    return np.where(tally.exposure > 0, bound, np.inf)


def kl_ucb(tally: Tally, t: IntArray) -> FloatArray:
    """Return max{q ≥ s/n : n·KL(s/n‖q) ≤ max(0, log t + 3 log log t)}, the right-hand side 0 at t = 1."""
    log_t = np.log(t)
    with np.errstate(divide="ignore"):
        budget = np.maximum(0.0, log_t + 3.0 * np.log(log_t))[:, None]
    seen = tally.exposure > 0
    per_observation = budget / np.where(seen, tally.exposure, 1.0)
    return np.where(seen, kl_upper(np.minimum(tally.mean, 1.0), per_observation), np.inf)


def epoch_ucb(tally: Tally, log: FloatArray, factor: float) -> FloatArray:
    """Return ᾱ + √(factor·min(1, 2ᾱ)·log/Λ) + factor·log/Λ, log [B, 1] (paper `choice`, Algorithm 2)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = factor * log / tally.exposure
        bound = tally.mean + np.sqrt(np.minimum(1.0, 2.0 * tally.mean) * rate) + rate
    return np.where(tally.exposure > 0, bound, np.inf)


def pbm_ucb(tally: Tally, t: IntArray, epsilon: float) -> FloatArray:
    """Return clicks/Ñ + √(N/Ñ)·√((1+ε) log t/(2Ñ)) with N rounds shown and Ñ the exposure (Lagrée et al. 2016)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        width = np.sqrt(tally.shown / tally.exposure) * np.sqrt(
            (1.0 + epsilon) * np.log(t)[:, None] / (2.0 * tally.exposure)
        )
        bound = tally.mean + width
    return np.where(tally.exposure > 0, bound, np.inf)
