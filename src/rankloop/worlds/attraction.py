"""Where attraction probabilities come from: given numbers, or a recipe drawn for each replication."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rankloop.math.logistic import sigmoid
from rankloop.types import BetaPrior, BoolArray, FloatArray


@dataclass(frozen=True)
class Attraction:
    """Attraction probabilities of B replications, and what policies may know about them."""

    nu: FloatArray  # [B, L]
    features: FloatArray | None = None  # [L, d] or [B, L, d]
    prior: BetaPrior | None = None
    allowed: BoolArray | None = None  # [B, L], where problems differ in size


class AttractionSource(Protocol):
    """Settles attraction probabilities."""

    @property
    def items(self) -> int:
        """L."""

    @property
    def explained_by(self) -> str | None:
        """What an item's attraction is a function of, so that it cannot move to another item; None where nothing is."""

    def draw(self, streams: Sequence[np.random.Generator]) -> Attraction:
        """One problem for each stream."""


@dataclass(frozen=True)
class FixedAttraction:
    """The same numbers in every replication; stored once and broadcast."""

    nu: FloatArray  # [L]
    features: FloatArray | None = None  # [L, d]
    explained_by = None

    @property
    def items(self) -> int:
        """L."""
        return len(self.nu)

    def draw(self, streams: Sequence[np.random.Generator]) -> Attraction:
        """Views of the given numbers."""
        return Attraction(np.broadcast_to(self.nu, (len(streams), self.items)), self.features)


@dataclass(frozen=True)
class BetaShape:
    """A parameter of a Beta distribution: numbers, or integers drawn uniformly from low to high."""

    values: FloatArray | None = None  # [] or [L]
    integers: tuple[int, int] | None = None

    def draw(self, rng: np.random.Generator, items: int) -> FloatArray:
        """One number for each item, [L]."""
        if self.integers is not None:
            low, high = self.integers
            return rng.integers(low, high, size=items, endpoint=True).astype(np.float64)
        return np.broadcast_to(np.asarray(self.values), (items,))


@dataclass(frozen=True)
class BetaAttraction:
    """ν_i ~ Beta(a_i, b_i), which is also the prior that policies are given."""

    items: int
    a: BetaShape
    b: BetaShape
    explained_by = None

    def draw(self, streams: Sequence[np.random.Generator]) -> Attraction:
        """a, then b, then ν, from each replication's stream."""
        drawn = [self._one(rng) for rng in streams]
        nu, a, b = (np.stack(column) for column in zip(*drawn, strict=True))
        return Attraction(nu, prior=BetaPrior(a, b))

    def _one(self, rng: np.random.Generator) -> tuple[FloatArray, FloatArray, FloatArray]:
        a, b = self.a.draw(rng, self.items), self.b.draw(rng, self.items)
        return rng.beta(a, b), a, b


@dataclass(frozen=True)
class LinearAttraction:
    """θ and x_i uniform on [0, 1]^d, scaled to unit norm; ν = xᵀθ, or σ(xᵀθ) where `logistic`.

    In the logistic case policies that take a prior get b = 10, a = 10ν/(1-ν), whose mean is ν.
    """

    items: int
    dim: int
    logistic: bool = False
    explained_by = "the items' features"

    def draw(self, streams: Sequence[np.random.Generator]) -> Attraction:
        """θ, then the features, from each replication's stream."""
        drawn = np.stack([rng.random((self.items + 1, self.dim)) for rng in streams])
        drawn /= np.linalg.vector_norm(drawn, axis=-1, keepdims=True)
        theta, features = drawn[:, 0], np.ascontiguousarray(drawn[:, 1:])
        nu = np.matvec(features, theta)
        if not self.logistic:
            # Unit vectors of the positive orthant: only rounding can leave [0, 1].
            return Attraction(np.clip(nu, 0.0, 1.0), features)
        nu = np.asarray(sigmoid(nu))
        return Attraction(nu, features, BetaPrior(10.0 * nu / (1.0 - nu), np.full_like(nu, 10.0)))


@dataclass(frozen=True, eq=False)
class JudgedAttraction:
    """Queries with judged documents: each replication is one of them, drawn uniformly, padded to the longest."""

    nu: FloatArray  # [Q, L] attraction of the documents, 0 where there is none
    features: FloatArray  # [Q, L, d]
    present: BoolArray  # [Q, L]
    prior: BetaPrior  # [Q, L]
    explained_by = "the documents' grades"

    @property
    def items(self) -> int:
        """L."""
        return int(self.nu.shape[1])

    def draw(self, streams: Sequence[np.random.Generator]) -> Attraction:
        """A query for each stream."""
        q = np.array([rng.integers(len(self.nu)) for rng in streams])
        prior = BetaPrior(self.prior.a[q], self.prior.b[q])
        return Attraction(self.nu[q], self.features[q], prior, self.present[q])
