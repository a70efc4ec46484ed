"""The state of the hybrid belief, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from rankloop.belief.base import SummaryState
from rankloop.errors import InvalidInput
from rankloop.math.hybrid.kernels import FIELD_SCALE, HEAD, drawn
from rankloop.math.hybrid.largest import LEAST, UPPER, hybrid_largest
from rankloop.math.hybrid.scores import TABLES, hybrid_scores
from rankloop.math.linear import features_of
from rankloop.shortlist import Search, Shortlist
from rankloop.types import BoolArray, FloatArray, IntArray, Rows, Score

NO_HEAD = np.zeros((1, 3, 1))
NOTHING_FORBIDDEN = np.ones((1, 0), dtype=np.bool_)
NO_KEYS = np.zeros(1, dtype=np.uint64)


@cache
def signature_weights(width: int) -> FloatArray:
    """Return the weights of the columns of a row in its signature: rows of equal signature are taken as equal."""
    return np.asarray(np.cos(np.arange(1.0, width + 1.0)))


@dataclass
class HybridState(SummaryState):
    """N(A⁻¹b, A⁻¹) of the coefficients θ [p], and sums by item.

    A row has q = p + 1 columns: a known offset, whose coefficient is 1, and those with the coefficients θ.
    """

    FEATURES: ClassVar = {"F": 2, "b": 1, "S": 1, "G": 2, "g": 1}

    F: FloatArray  # [B, p, p], F Fᵀ = A⁻¹
    b: FloatArray  # [B, p]
    n: FloatArray  # [B, L], Σλ²
    Y: FloatArray  # [B, L], Σλy
    S: FloatArray  # [B, L, q], Σλ²x
    R: FloatArray  # [B, L], Σλ²·signature of x, by which a row is recognised without reading S
    P: FloatArray  # [B, L], pseudo-observations of exposure 1: their number, contained in n
    Q: FloatArray  # [B, L], and the sum of their outcomes, contained in Y
    # [B, L, K], observations by slot of items whose rows never changed; no slots unless biases are learned
    N: FloatArray
    C: FloatArray  # [B, L, K], outcomes by slot of these items
    varied: BoolArray  # [B, L], items of which two observed rows differ
    G: FloatArray  # [B, q, q], Σλ²xxᵀ of the varied items
    g: FloatArray  # [B, q], Σλyx of the varied items
    by_slot: FloatArray  # [B, 5, K], see BY_SLOT
    totals: FloatArray  # [B, 2], Σy² and the number of observations
    bias: FloatArray  # [B, K], λ; 1 unless biases are learned
    bias_error: FloatArray  # [B, K], standard error of λ
    order: IntArray  # [B, K], slots from the most to the least valuable
    moved: BoolArray  # [B], whether this differs from the slots' own order
    tau2: FloatArray  # [B], τ², variance of the items' own effects
    s2: FloatArray  # [B], s², variance of the noise
    order_mean: FloatArray  # [B], prior mean of the coefficient of the order
    updates: IntArray  # [B], number of updates so far

    BY_SLOT: ClassVar = ("outcomes of varied items", "Σμ̂ of varied items", "outcomes of items with an order",
                         "Σ exposure·order", "observations")  # fmt: skip

    @property
    def sums(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Sums by item: n, Y, S, R."""
        return self.n, self.Y, self.S, self.R

    @property
    def variances(self) -> tuple[FloatArray, FloatArray]:
        """τ² and s²."""
        return self.tau2, self.s2

    def coefficients(self) -> FloatArray:
        """Return (1, A⁻¹b), [B, q]."""
        return self._drawn(np.zeros(self.b.shape), np.zeros(len(self.b)))

    def mean(self, rows: Rows) -> FloatArray:
        """Return x'θ̂ plus the expected effect of the item."""
        return self._scores(rows, self.coefficients(), np.zeros(len(self.b)), NO_KEYS)

    def width(self, rows: Rows) -> FloatArray:
        """Return √(uᵀA⁻¹u + s²/c), u = x - S/c."""
        x, c = self._complete(rows), self.n[:, rows.model] + (self.s2 / self.tau2)[:, None]
        u = x[..., 1:] - self.S[:, rows.model, 1:] / c[..., None]
        spread = np.square(np.matmul(u, self.F)).sum(axis=-1)
        return np.asarray(np.sqrt(spread + self.s2[:, None] / c))

    def draw(self, scale: FloatArray | float, rng: np.random.Generator) -> Score:
        """Return xᵀθ̃ + b̃_i, with θ̃ ~ N(θ̂, e²A⁻¹) and b̃_i ~ N((Y - Sᵀθ̃)/c, e²s²/c) for the scale e."""
        theta, spread, key = self._numbers(scale, rng)
        return lambda rows: self._scores(rows, theta, spread, key)

    def draw_largest(self, scale: FloatArray | float, search: Search, rng: np.random.Generator) -> Shortlist | None:
        """Return the largest scores of the draw that the same random numbers give with `draw`."""
        theta, spread, key = self._numbers(scale, rng)
        made, needed = search.rows(), search.needed
        x, head, factor, items = self._checked(made, theta)
        may = NOTHING_FORBIDDEN if search.allowed is None else np.atleast_2d(search.allowed)
        largest, scores = np.empty((len(theta), needed), dtype=np.int64), np.empty((len(theta), needed))
        distinct = hybrid_largest(
            x, head, factor, signature_weights(theta.shape[1]), made.chosen(), theta, self.sums, self.variances, spread,
            key, may, UPPER, LEAST, largest, scores,
        )  # fmt: skip
        if distinct:
            return Shortlist(largest, scores, ordered=True)
        # Ties are broken at random among all items of equal score.
        everything, scores = np.arange(items), self._scores(made, theta, spread, key)
        if search.allowed is not None:
            scores[~np.broadcast_to(search.allowed, scores.shape)] = -np.inf
        return Shortlist(np.broadcast_to(everything, scores.shape), scores)

    def _numbers(
        self, scale: FloatArray | float, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray, NDArray[np.uint64]]:
        """Return drawn coefficients [B, q], the scale [B] and the key of the items' normal numbers [B]."""
        spread = np.empty(len(self.b))
        spread[...] = scale
        B, p = self.b.shape
        z = rng.standard_normal((B, p + 1))
        # The key is the bits of one more normal number: cheaper than another call.
        return self._drawn(z, spread), spread, z[:, p].view(np.uint64)

    def _drawn(self, z: FloatArray, scale: FloatArray) -> FloatArray:
        theta = np.empty((len(self.b), self.b.shape[1] + 1))
        drawn(self.F, self.b, z, scale, theta)
        return theta

    def _scores(self, rows: Rows, theta: FloatArray, scale: FloatArray, key: NDArray[np.uint64]) -> FloatArray:
        """Return the scores of rows, complete ones or such with their first columns apart, [B, n]."""
        if not features_of(rows).shape[-2]:  # an empty list, whose `chosen` would stand for all models
            return np.empty((len(theta), 0))
        x, head, factor, items = self._checked(rows, theta)
        out = np.empty((len(theta), items))
        self._score_rows(x, head, factor, rows, theta, scale, key, out)
        return out

    def _checked(self, rows: Rows, theta: FloatArray) -> tuple[FloatArray, FloatArray, float, int]:
        """Return features [1 or B, n, d], the columns apart, the factor of the features, and the number n of rows."""
        x = features_of(rows)
        x = np.ascontiguousarray(x[None] if x.ndim == 2 else x)
        head, factor, left_out = (NO_HEAD, 0.0, 0) if rows.head is None else (rows.head, FIELD_SCALE, HEAD)
        index = rows.chosen()
        items = len(index) if len(index) else self.n.shape[1]
        if len(index) and index.max() >= self.n.shape[1]:
            raise InvalidInput("request.columns", int(index.max()), "items that this policy was built for")
        if x.shape[1] != items or x.shape[2] != theta.shape[1] - left_out:  # compiled loops do not check their bounds
            raise ValueError(f"rows of shape {x.shape} do not fit {items} items and {theta.shape[1]} features")
        return x, head, factor, items

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
        """Write the scores of checked rows into out [B, n]."""
        known, index = signature_weights(theta.shape[1]), rows.chosen()
        hybrid_scores(x, head, factor, known, index, theta, self.sums, self.variances, scale, key, TABLES, out)

    def _complete(self, rows: Rows) -> FloatArray:
        """Return rows with all q columns, [B, n, q] or [1, n, q]."""
        x = features_of(rows)
        x = x[None] if x.ndim == 2 else x
        if rows.head is None:
            return x
        head = rows.head
        complete = np.zeros((max(len(x), len(head)), x.shape[1], HEAD + x.shape[2]))
        complete[..., 1] = 1.0
        columns = (2,) if head.shape[1] == 1 else (0, 2, 3)
        for column, values in zip(columns, np.moveaxis(head, 1, 0), strict=True):
            complete[..., column] = values
        complete[..., HEAD:] = FIELD_SCALE * x
        return complete
