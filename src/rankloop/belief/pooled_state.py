"""The state of the pooled hybrid belief: what segments share, and how items deviate in each of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from rankloop.belief.hybrid_state import HybridState, signature_weights
from rankloop.math.hybrid.pooled_kernels import Cells, pooled_scores
from rankloop.math.hybrid.scores import TABLES
from rankloop.shortlist import Search, Shortlist
from rankloop.types import FloatArray, IntArray, Rows

NO_SEGMENT = -1
"""A segment without observations."""


@dataclass
class PooledState(HybridState):
    """The state of `HybridState`, whose n, Y, S, R are those of what is left of the cells, and the cells (g, i).

    N and C are by segment, item and slot here, [B, G, L, K]. `segment` says for which segment a learner answers.
    """

    FEATURES: ClassVar = HybridState.FEATURES | {"X": 1, "T": 1}

    X: FloatArray  # [B, L, q], Σ strength·x of the pseudo-observations P, Q
    m: FloatArray  # [B, G, L], Σλ² of each cell
    Z: FloatArray  # [B, G, L], Σλy
    T: FloatArray  # [B, G, L, q], Σλ²x
    omega2: FloatArray  # [B], ω², variance of an item's deviation in a segment
    segment: IntArray  # [B], the segment to decide for and to learn in; NO_SEGMENT has no observations

    @property
    def cells(self) -> Cells:
        """Sums by segment and item: m, Z, T."""
        return self.m, self.Z, self.T

    @property
    def three_variances(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """τ², ω² and s²."""
        return self.tau2, self.omega2, self.s2

    def of_segment(self, segment: int) -> Self:
        """Return the same state, sharing memory, for decisions and lessons of this segment."""
        if segment >= self.m.shape[1]:  # compiled loops do not check their bounds
            raise ValueError(f"segment {segment} does not fit a state of {self.m.shape[1]} segments")
        return replace(self, segment=np.full(len(self.b), segment, dtype=np.int64))

    def width(self, rows: Rows) -> FloatArray:
        """Return √(uᵀA⁻¹u + s²(ζ²/c + 1/c_g)), u = x - ζS/c - T/c_g."""
        x, chosen = self._complete(rows), np.maximum(self.segment, 0)
        known, learners = (self.segment >= 0)[:, None], np.arange(len(self.b))
        m, T = self.m[learners, chosen][:, rows.model] * known, self.T[learners, chosen][:, rows.model]
        kappa_d = (self.s2 / self.omega2)[:, None]
        c, c_g = self.n[:, rows.model] + (self.s2 / self.tau2)[:, None], m + kappa_d
        zeta = kappa_d / c_g
        u = x[..., 1:] - (zeta / c)[..., None] * self.S[:, rows.model, 1:]
        u = u - (known / c_g)[..., None] * T[..., 1:]
        spread = np.square(np.matmul(u, self.F)).sum(axis=-1)
        return np.asarray(np.sqrt(spread + self.s2[:, None] * (zeta * zeta / c + 1.0 / c_g)))

    def draw_largest(self, scale: FloatArray | float, search: Search, rng: np.random.Generator) -> Shortlist | None:
        """Return None: a draw computes all scores."""
        return None

    def _score_rows(
        self,
        x: FloatArray,
        head: FloatArray,
        factor: float,
        rows: Rows,
        theta: FloatArray,
        scale: FloatArray,
        key: NDArray[np.uint64],
        out: FloatArray,
    ) -> None:
        known, tables = signature_weights(theta.shape[1]), TABLES
        pooled_scores(
            x, head, factor, known, rows.chosen(), theta, self.sums, self.cells, self.segment, self.three_variances,
            scale, key, tables, out,
        )  # fmt: skip
