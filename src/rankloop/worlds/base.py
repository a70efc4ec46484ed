"""What a world is: simulated visitors with known truth.

A world holds parameters or the recipe for them, `draw` settles them for B replications, and `visit`
draws one visitor for each. A visitor's mind is made up before any list is seen, so that all policies
of a run meet the same visitors.
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
        """What the policy is asked."""

    @property
    def best(self) -> FloatArray:
        """Value of the best list, [B]."""

    def value(self, items: IntArray) -> FloatArray:
        """Exact expected reward of these lists [B, K] under the true parameters, [B]."""

    def click(self, items: IntArray) -> tuple[FloatArray, FloatArray]:
        """Clicks [B, K] and realised reward [B] of these lists."""


class Instance(Protocol):
    """B replications of a world, their parameters settled."""

    @property
    def setting(self) -> Setting:
        """What policies are told before the first round."""

    def visit(self, rng: np.random.Generator) -> Visit:
        """The next visitors."""


class StationaryInstance(Protocol):
    """An instance whose question and best list are the same in every round."""

    @property
    def request(self) -> Request:
        """What the policy is asked."""

    @property
    def best(self) -> FloatArray:
        """Value of the best list, [B]."""


S = TypeVar("S", bound=StationaryInstance)


@dataclass(frozen=True)
class StationaryVisit(Generic[S]):
    """A visit to a steady instance: only the visitors change."""

    instance: S

    @property
    def request(self) -> Request:
        """The same question every round."""
        return self.instance.request

    @property
    def best(self) -> FloatArray:
        """Value of the best list, [B]."""
        return self.instance.best


class World(Protocol):
    """Parameters of simulated visitors, or a recipe that draws them."""

    def prepare(self, rng: np.random.Generator) -> Self:
        """The world with everything settled that all replications of a run share."""

    def draw(self, streams: Sequence[np.random.Generator], rounds: int | None) -> Instance:
        """B replications, the parameters of each drawn from its own stream."""
