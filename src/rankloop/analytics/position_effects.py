"""What a place does to the clicks on an item: estimated from the same items in different places."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rankloop.types import FloatArray

SPREAD = 3.0
"""Standard deviation of the log effect of a place before anything was seen: holds back places without clicks."""
STEPS = 60


@dataclass(frozen=True)
class PositionEffects:
    """Log click rate of every place beside that of the same items in the first place, [P], the first 0."""

    log: FloatArray  # [P]
    covariance: FloatArray  # [P, P], nothing in the first row and column

    def anchor(self) -> int:
        """The place that others are best compared with: the first, unless the items there are seldom elsewhere."""
        nothing = np.zeros(len(self.log))
        errors = [float(np.median(self.beside(nothing, p)[1])) for p in range(len(self.log))]
        best = int(np.argmin(errors))
        return 0 if errors[0] <= 1.5 * errors[best] else best

    def beside(self, expected: FloatArray, place: int) -> tuple[FloatArray, FloatArray]:
        """Log effects [P] over what is expected of them, both beside a place, and their standard errors."""
        off = self.log - expected
        C = self.covariance
        variance = np.diag(C) + C[place, place] - 2.0 * C[place]
        return off - off[place], np.sqrt(np.maximum(variance, 0.0))


def slot_effects(shown: NDArray[np.unsignedinteger], clicked: NDArray[np.unsignedinteger]) -> PositionEffects:
    """Fit clicks ~ shown · attraction of the item · effect of the place, [n, P] each.

    Given how often an item was clicked at all, where it was clicked says nothing of its attraction: clicks are split
    over places in the shares shown · effect. This is the maximum of that conditional likelihood (of Poisson counts;
    clicks are less scattered, so standard errors are rather too large), by Newton's method, with a weak prior.
    """
    several = ((shown > 0).sum(axis=1) > 1) & (clicked.sum(axis=1) > 0)  # others say nothing of places
    n, c = shown[several].astype(np.float64), clicked[several].astype(np.float64)
    total = c.sum(axis=1)
    places = shown.shape[1]
    b, prior = np.zeros(places), np.full(places, SPREAD**-2)

    def shares(b: FloatArray) -> tuple[FloatArray, float]:
        weights = n * np.exp(b)
        whole = weights.sum(axis=1)
        likely = float((c.sum(axis=0) * b).sum() - (total * np.log(whole)).sum() - 0.5 * (prior[1:] * b[1:] ** 2).sum())
        return weights / whole[:, None], likely

    s, value = shares(b)
    for _ in range(STEPS):
        gradient = (c - total[:, None] * s).sum(axis=0) - prior * b
        step = np.zeros(places)
        step[1:] = np.linalg.solve(_information(s, total, prior)[1:, 1:], gradient[1:])
        if np.abs(step).max(initial=0.0) < 1e-9:
            break
        new, likely = shares(b + step)
        while likely < value - 1e-9 * (1.0 + abs(value)):
            step /= 2.0
            new, likely = shares(b + step)
        b, s, value = b + step, new, likely
    covariance = np.zeros((places, places))
    covariance[1:, 1:] = np.linalg.inv(_information(s, total, prior)[1:, 1:])
    return PositionEffects(b, covariance)


def _information(s: FloatArray, total: FloatArray, prior: FloatArray) -> FloatArray:
    """The negative second derivative of the likelihood, [P, P], from shares s [n, P] and clicks [n]."""
    return np.diag((total[:, None] * s).sum(axis=0) + prior) - (s * total[:, None]).T @ s
