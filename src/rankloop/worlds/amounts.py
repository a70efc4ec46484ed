"""Outcomes that are amounts, such as watch time: every slot brings a number (paper `prior`, Section 3.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from rankloop.types import BoolArray, FloatArray, IntArray
from rankloop.worlds.attraction import Attraction
from rankloop.worlds.click_models import PositionClicks

HALF_STEP = 2.0**-54
"""Half the distance between uniform numbers, which are multiples of 2^-53: it keeps normal numbers finite."""


@dataclass(frozen=True, eq=False)
class PositionAmounts:
    """Examines slot k with P = bias_k, independently; an examined item brings ν plus normal noise, others 0.

    The noise belongs to visitor and item, whatever the slot. Value Σ bias_k ν, the expected total amount.
    """

    bias: FloatArray  # [K]
    sigma: float  # standard deviation of the noise, the paper's σ
    termination = None

    def value(self, p: FloatArray) -> FloatArray:
        """Return the expected total amount."""
        return self._clicks.value(p)

    def best(self, nu: FloatArray, k: int) -> IntArray:
        """Return lists with larger amounts in slots of higher bias."""
        return self._clicks.best(nu, k)

    def slot_uniforms(self, learners: int, k: int, rng: np.random.Generator) -> FloatArray:
        """Draw uniforms that decide whether each slot is examined, [B, K]."""
        return self._clicks.slot_uniforms(learners, k, rng)

    def outcomes(
        self, p: FloatArray, shown: BoolArray, uniforms: FloatArray, slot_uniforms: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the amounts of the slots that are examined, and their total."""
        amounts = p + self.sigma * ndtri(uniforms + HALF_STEP)
        examined = shown & (slot_uniforms < self.bias[: slot_uniforms.shape[1]])
        outcomes = np.where(examined, amounts, 0.0)
        return outcomes, outcomes.sum(axis=1)

    @property
    def _clicks(self) -> PositionClicks:
        return PositionClicks(self.bias)


@dataclass(frozen=True)
class GaussianAmounts:
    """Expected amounts ν_i ~ N(μ0, σ0²), independent: the prior of gts."""

    items: int
    mu0: float
    sigma0: float
    explained_by = None

    def draw(self, streams: Sequence[np.random.Generator]) -> Attraction:
        """Draw ν from each replication's stream."""
        return Attraction(np.stack([rng.normal(self.mu0, self.sigma0, self.items) for rng in streams]))
