"""The Gaussian posterior of a mean, in natural parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rankloop.belief.alike import EVERYTHING
from rankloop.belief.base import ByItemState, Summarising, SummaryState
from rankloop.belief.counts import Additive
from rankloop.shortlist import Search, Shortlist
from rankloop.special_functions import ndtri
from rankloop.types import Evidence, FloatArray, Rows, Score


@dataclass
class GaussianState(ByItemState, SummaryState):
    """N(shift/precision, 1/precision) for every model, each [B, M]."""

    precision: FloatArray  # 1/σ0² + n/σ²
    shift: FloatArray  # μ0/σ0² + s/σ²

    def mean(self, rows: Rows) -> FloatArray:
        """Return the posterior means."""
        return self.shift[:, rows.model] / self.precision[:, rows.model]

    def width(self, rows: Rows) -> FloatArray:
        """Return the posterior standard deviations."""
        return self.precision[:, rows.model] ** -0.5

    def draw(self, scale: FloatArray | float, rng: np.random.Generator) -> Score:
        """Return independent normal draws, one per model."""
        noise = rng.standard_normal(self.precision.shape)
        noise *= np.reshape(scale, (-1, 1))
        sample = self.shift / self.precision + noise / np.sqrt(self.precision)
        return lambda rows: sample[:, rows.model]

    def draw_largest(self, scale: FloatArray | float, search: Search, rng: np.random.Generator) -> Shortlist | None:
        """Return the largest scores of such a draw, in distribution: of equal posteriors only the largest are drawn."""
        split = self.split(search) if np.min(scale) > 0.0 else None
        if split is None:
            return None
        found, state = split
        sample = state.draw(scale, rng)(EVERYTHING)[:, :-1]
        precision, shift = state.precision[0, -1], state.shift[0, -1]
        noise = -np.reshape(scale, -1) * ndtri(found.largest_tails(rng))
        return found.drawn(sample, shift / precision + noise / np.sqrt(precision), rng)


@dataclass(frozen=True)
class Gaussian(Additive[GaussianState], Summarising[GaussianState]):
    """Independent normal priors N(mu0, sigma0²) and observations with noise of standard deviation sigma.

    An observation of exposure e has mean e·ν, so it adds e²/σ² to the precision.
    """

    FLOORED = ("precision",)

    models: int
    mu0: FloatArray | float = 0.0  # a number, [M] or [B, M]
    sigma0: FloatArray | float = 1.0  # standard deviation, same shapes
    sigma: float = 0.5
    binary = False
    fractional = True

    def init(self, learners: int) -> GaussianState:
        """Return the prior of every learner."""
        precision = np.broadcast_to(np.asarray(self.sigma0, dtype=float) ** -2.0, (learners, self.models)).copy()
        return GaussianState(precision, precision * self.mu0)

    def changes(self, evidence: Evidence) -> Mapping[str, FloatArray]:
        """Return the increments of Bayes' rule for a normal mean with known noise."""
        weight = self.sigma**-2
        return {"precision": weight * evidence.exposure**2, "shift": weight * evidence.exposure * evidence.y}
