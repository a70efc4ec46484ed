"""Position effects: click rates by slot, estimated from the same items in different slots."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rankloop.types import FloatArray

PRIOR_DEVIATION = 3.0
"""Prior standard deviation of the log effect of a slot; it keeps the effects of slots without clicks finite."""
MAX_NEWTON_STEPS = 60
MAX_REFERENCE_ERROR_RATIO = 1.5
"""Slot 0 is the reference unless its median standard error is above this multiple of the smallest one."""


@dataclass(frozen=True)
class PositionEffects:
    """Log click rate of every slot relative to the same items in slot 0, whose effect is 0."""

    log: FloatArray  # [P]
    covariance: FloatArray  # [P, P], zero in the first row and column

    def reference(self) -> int:
        """Return the slot to compare others with: slot 0, unless its items are rarely shown in other slots."""
        zero = np.zeros(len(self.log))
        errors = [float(np.median(self.relative_to(p, zero)[1])) for p in range(len(self.log))]
        best = int(np.argmin(errors))
        return 0 if errors[0] <= MAX_REFERENCE_ERROR_RATIO * errors[best] else best

    def relative_to(self, reference: int, expected: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return log effects minus expected log effects, both relative to a slot, and standard errors, [P] each."""
        residual = self.log - expected
        C = self.covariance
        variance = np.diag(C) + C[reference, reference] - 2.0 * C[reference]
        return residual - residual[reference], np.sqrt(np.maximum(variance, 0.0))


def slot_effects(shown: NDArray[np.unsignedinteger], clicked: NDArray[np.unsignedinteger]) -> PositionEffects:
    """Fit clicks ~ shown · attraction of the item · effect of the slot, [n, P] each.

    Given the number of clicks on an item, their distribution over slots does not depend on its attraction: the shares
    are proportional to shown · effect. Newton's method maximizes this conditional likelihood with a weak prior. Counts
    are taken as Poisson; clicks vary less, so the standard errors are slightly too large.
    """
    informative = ((shown > 0).sum(axis=1) > 1) & (clicked.sum(axis=1) > 0)  # shown in several slots, and clicked
    n, c = shown[informative].astype(np.float64), clicked[informative].astype(np.float64)
    total = c.sum(axis=1)
    slots = shown.shape[1]
    b, prior = np.zeros(slots), np.full(slots, PRIOR_DEVIATION**-2)

    def shares(b: FloatArray) -> tuple[FloatArray, float]:
        weights = n * np.exp(b)
        sums = weights.sum(axis=1)
        likelihood = float(
            (c.sum(axis=0) * b).sum() - (total * np.log(sums)).sum() - 0.5 * (prior[1:] * b[1:] ** 2).sum()
        )
        return weights / sums[:, None], likelihood

    s, value = shares(b)
    for _ in range(MAX_NEWTON_STEPS):
        gradient = (c - total[:, None] * s).sum(axis=0) - prior * b
        step = np.zeros(slots)
        step[1:] = np.linalg.solve(_information(s, total, prior)[1:, 1:], gradient[1:])
        if np.abs(step).max(initial=0.0) < 1e-9:
            break
        new, likelihood = shares(b + step)
        while likelihood < value - 1e-9 * (1.0 + abs(value)):
            step /= 2.0
            new, likelihood = shares(b + step)
        b, s, value = b + step, new, likelihood
    covariance = np.zeros((slots, slots))
    covariance[1:, 1:] = np.linalg.inv(_information(s, total, prior)[1:, 1:])
    return PositionEffects(b, covariance)


def _information(s: FloatArray, total: FloatArray, prior: FloatArray) -> FloatArray:
    """Return the negative Hessian of the log-likelihood, [P, P], from shares s [n, P] and clicks per item [n]."""
    return np.diag((total[:, None] * s).sum(axis=0) + prior) - (s * total[:, None]).T @ s
