"""The interface of a world: simulated visitors with known click probabilities.

A world holds parameters or distributions of them, `draw` draws the parameters of B replications, and `visit` draws one
visitor for each. All random numbers of a visitor are fixed before a list is shown, so that every policy of a run is
evaluated on the same visitors (common random numbers).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

import numpy as np

from rankloop.types import FloatArray, IntArray, Request, Setting


class Visit(Protocol):
    """One visitor for each of B replications."""

    @property
    def request(self) -> Request:
        """Return the request that the policy answers."""

    @property
    def best(self) -> FloatArray:
        """Return the value of the best list, [B]."""

    def value(self, items: IntArray) -> FloatArray:
        """Return the exact expected reward [B] of lists [B, K] under the true parameters."""

    def click(self, items: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the clicks [B, K] and the realised reward [B] for lists [B, K]."""


class Instance(Protocol):
    """B replications of a world with their parameters drawn."""

    @property
    def setting(self) -> Setting:
        """Return what policies know before the first round."""

    def visit(self, rng: np.random.Generator) -> Visit:
        """Draw the visitors of the next round."""


class StationaryInstance(Protocol):
    """An instance whose request and best list are the same in every round."""

    @property
    def request(self) -> Request:
        """Return the request that the policy answers."""

    @property
    def best(self) -> FloatArray:
        """Return the value of the best list, [B]."""


S = TypeVar("S", bound=StationaryInstance)


@dataclass(frozen=True)
class StationaryVisit(Generic[S]):
    """A visit to a stationary instance: only the visitors differ between rounds."""

    instance: S

    @property
    def request(self) -> Request:
        """Return the request, the same in every round."""
        return self.instance.request

    @property
    def best(self) -> FloatArray:
        """Return the value of the best list, [B]."""
        return self.instance.best


class World(Protocol):
    """Parameters of simulated visitors, or distributions to draw them from."""

    def prepare(self, rng: np.random.Generator) -> Self:
        """Return the world with everything drawn that all replications of a run share."""

    def draw(self, streams: Sequence[np.random.Generator], rounds: int | None) -> Instance:
        """Return B replications, the parameters of each drawn from its own stream."""
