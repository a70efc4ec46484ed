"""The goal of a world: what its lists are worth, and which objective policies are given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rankloop.objective import AnyClick, Objective, Revenue
from rankloop.types import FloatArray, Request
from rankloop.worlds.caps import GroupCap
from rankloop.worlds.list_worth import ListWorth


@dataclass(frozen=True, eq=False)
class Prices:
    """The value of a click on each item: numbers, or drawn uniformly from low to high.

    Numbers are part of the objective that policies know from the start; drawn prices come with each request.
    """

    values: FloatArray | None = None  # [L]
    low: float = 0.0
    high: float = 1.0
    fresh: bool = False  # drawn each round, instead of once for each replication

    def objective(self, items: int) -> Revenue:
        """Return the objective: revenue at these prices, or at the mean of drawn ones."""
        mean = np.full(items, 0.5 * (self.low + self.high))
        return Revenue(mean if self.values is None else self.values)

    def draw(self, streams: Sequence[np.random.Generator], items: int) -> FloatArray | None:
        """Return prices that stay, [B, L], drawn from each replication's stream; None where they are fresh."""
        if self.values is not None:
            return np.broadcast_to(self.values, (len(streams), items))
        if self.fresh:
            return None
        return np.stack([rng.uniform(self.low, self.high, items) for rng in streams])

    def next(self, rng: np.random.Generator, learners: int, items: int) -> FloatArray:
        """Draw the prices of a round, [B, L]."""
        return rng.uniform(self.low, self.high, (learners, items))


@dataclass(frozen=True)
class Goal:
    """An objective of a click model.

    `objective` is None where the world does not name one: policies are then given any-click, whatever the value is.
    """

    worth: ListWorth
    objective: Objective | None = None
    prices: Prices | None = None
    cap: GroupCap | None = None

    def best(self, nu: FloatArray, k: int, prices: FloatArray | None) -> FloatArray:
        """Return the value of the best lists of k slots that keep the cap [B]; nu and prices [B, L]."""
        if self.cap is not None:  # under the objectives that caps are accepted for, the best lists hold the best items
            nu = np.where(self.cap.kept(nu if prices is None else nu * prices), nu, 0.0)
        return self.worth.best(nu, k, prices)

    def request(self, request: Request) -> Request:
        """Return a request under the cap."""
        return request if self.cap is None else self.cap.request(request)

    @property
    def given(self) -> Objective:
        """Return the objective that policies are given."""
        return AnyClick() if self.objective is None else self.objective
