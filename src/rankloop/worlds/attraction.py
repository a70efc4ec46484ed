"""Sources of attraction probabilities: fixed numbers, or a distribution drawn from for each replication."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rankloop.math.logistic import sigmoid
from rankloop.types import BetaPrior, BoolArray, FloatArray


@dataclass(frozen=True)
class Attraction:
    """Attraction probabilities of B replications, and the features and prior that policies are given."""

    nu: FloatArray  # [B, L]
    features: FloatArray | None = None  # [L, d] or [B, L, d]
    prior: BetaPrior | None = None
    allowed: BoolArray | None = None  # [B, L], where replications differ in their number of items


class AttractionSource(Protocol):
    """A source of attraction probabilities."""

    @property
    def items(self) -> int:
        """Return L, the number of items."""

    @property
    def explained_by(self) -> str | None:
        """Return what an item's attraction is a function of, which rules out drift; None for no such function."""

    def draw(self, streams: Sequence[np.random.Generator]) -> Attraction:
        """Return the attraction of one replication for each stream."""


@dataclass(frozen=True)
class FixedAttraction:
    """The same attraction probabilities in every replication; stored once and broadcast."""

    nu: FloatArray  # [L]
    features: FloatArray | None = None  # [L, d]
    explained_by: str | None = None

    @property
    def items(self) -> int:
        """Return L, the number of items."""
        return len(self.nu)

    def draw(self, streams: Sequence[np.random.Generator]) -> Attraction:
        """Return broadcast views of the numbers."""
        return Attraction(np.broadcast_to(self.nu, (len(streams), self.items)), self.features)


@dataclass(frozen=True)
class BetaShape:
    """A shape parameter of Beta distributions: numbers, or integers drawn uniformly from low to high."""

    values: FloatArray | None = None  # [] or [L]
    integers: tuple[int, int] | None = None

    def draw(self, rng: np.random.Generator, items: int) -> FloatArray:
        """Return one number for each item, [L]."""
        if self.integers is not None:
            low, high = self.integers
            return rng.integers(low, high, size=items, endpoint=True).astype(np.float64)
        return np.broadcast_to(np.asarray(self.values), (items,))


@dataclass(frozen=True)
class BetaAttraction:
    """ν_i ~ Beta(a_i, b_i); the same distribution is the prior that policies are given."""

    items: int
    a: BetaShape
    b: BetaShape
    explained_by = None

    def draw(self, streams: Sequence[np.random.Generator]) -> Attraction:
        """Draw a, then b, then ν from each replication's stream."""
        drawn = [self._one(rng) for rng in streams]
        nu, a, b = (np.stack(column) for column in zip(*drawn, strict=True))
        return Attraction(nu, prior=BetaPrior(a, b))

    def _one(self, rng: np.random.Generator) -> tuple[FloatArray, FloatArray, FloatArray]:
        a, b = self.a.draw(rng, self.items), self.b.draw(rng, self.items)
        return rng.beta(a, b), a, b


@dataclass(frozen=True)
class LinearAttraction:
    """θ and x_i uniform on [0, 1]^d, scaled to unit norm; ν = xᵀθ, or σ(xᵀθ) where `logistic`.

    In the logistic case, policies that take a prior are given b = 10 and a = 10ν/(1-ν), whose mean is ν.
    """

    items: int
    dim: int
    logistic: bool = False
    explained_by = "the items' features"

    def draw(self, streams: Sequence[np.random.Generator]) -> Attraction:
        """Draw θ, then the features from each replication's stream."""
        drawn = np.stack([rng.random((self.items + 1, self.dim)) for rng in streams])
        drawn /= np.linalg.vector_norm(drawn, axis=-1, keepdims=True)
        theta, features = drawn[:, 0], np.ascontiguousarray(drawn[:, 1:])
        nu = np.matvec(features, theta)
        if not self.logistic:
            # Unit vectors in the positive orthant: only rounding errors can leave [0, 1].
            return Attraction(np.clip(nu, 0.0, 1.0), features)
        nu = np.asarray(sigmoid(nu))
        return Attraction(nu, features, BetaPrior(10.0 * nu / (1.0 - nu), np.full_like(nu, 10.0)))


@dataclass(frozen=True, eq=False)
class JudgedAttraction:
    """Queries with judged documents, padded to the longest; each replication is a query drawn uniformly."""

    nu: FloatArray  # [Q, L] attraction of the documents, 0 where padded
    features: FloatArray  # [Q, L, d]
    present: BoolArray  # [Q, L]
    prior: BetaPrior  # [Q, L]
    explained_by = "the documents' grades"

    @property
    def items(self) -> int:
        """Return L, the number of items."""
        return int(self.nu.shape[1])

    def draw(self, streams: Sequence[np.random.Generator]) -> Attraction:
        """Draw a query for each stream."""
        q = np.array([rng.integers(len(self.nu)) for rng in streams])
        prior = BetaPrior(self.prior.a[q], self.prior.b[q])
        return Attraction(self.nu[q], self.features[q], prior, self.present[q])
