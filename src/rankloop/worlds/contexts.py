"""Sources of visitor contexts: vectors drawn anew for every visitor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rankloop.types import FloatArray


def in_unit_ball(rng: np.random.Generator, n: int, d: int) -> FloatArray:
    """Return n points drawn uniformly from the unit ball of d dimensions: uniform direction, radius U^(1/d)."""
    x = rng.standard_normal((n, d))
    x /= np.linalg.vector_norm(x, axis=1, keepdims=True)
    return np.asarray(x * rng.random((n, 1)) ** (1.0 / d))


class ContextSource(Protocol):
    """A distribution of contexts."""

    @property
    def dim(self) -> int:
        """Return dx, the length of a context."""

    @property
    def values(self) -> FloatArray | None:
        """Return all contexts that may occur, [n, dx]; None where they fill the unit ball."""

    def draw(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Return the contexts of n visitors, [n, dx]."""


@dataclass(frozen=True)
class BallContexts:
    """Contexts uniform in the unit ball."""

    dim: int
    values = None

    def draw(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Draw n points of the unit ball."""
        return in_unit_ball(rng, n, self.dim)


@dataclass(frozen=True, eq=False)
class ListedContexts:
    """Contexts sampled uniformly from a list."""

    values: FloatArray  # [n, dx]

    @property
    def dim(self) -> int:
        """Return dx, the length of a context."""
        return int(self.values.shape[1])

    def draw(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Draw a row of the list for each visitor."""
        return self.values[rng.integers(len(self.values), size=n)]
