"""Greedy planning: slot by slot, the best item that is not yet in the list."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankloop.plan.base import Plan, Planner
from rankloop.plan.caps import close_full
from rankloop.plan.prices import PricedGains
from rankloop.plan.top_k import best_k
from rankloop.propensity import list_distribution as lists
from rankloop.propensity.list_distribution import Composition, ListDistribution
from rankloop.types import EMPTY, Caps, Read, Request, SlotScore


@dataclass(frozen=True, eq=False)
class GreedyBySlot(Planner):
    """Fills the slots from the top; the scores of a slot may depend on the items above it.

    Approximate: the best item for a slot need not be part of the best list. With gains, the item of largest gain takes
    the slot, and the plan's scores are still those of the exploration rule.
    """

    gains: PricedGains | None = None

    @property
    def offers(self) -> frozenset[Read]:
        """The slot and the items above it."""
        return frozenset({"slot", "prefix"})

    @property
    def reads(self) -> frozenset[Read]:
        """The prices, if gains depend on them."""
        return frozenset() if self.gains is None else frozenset({"prices"})

    def __call__(self, score: SlotScore, request: Request, rng: np.random.Generator) -> Plan:
        """Return the greedy lists."""
        B, L = request.learners, request.items
        free = np.empty((B, L), dtype=np.bool_)
        free[...] = True if request.allowed is None else request.allowed
        items = np.full((B, request.k), EMPTY, dtype=np.int64)
        scores = np.zeros((B, request.k))
        rivals, caps = None, request.active_caps()
        if caps is not None:
            close_full(free, items[:, :0], caps)
        for slot in range(min(request.k, L)):
            own = score(items[:, :slot], slot)
            best = best_k(own if self.gains is None else self.gains(own, request), 1, rng, allowed=free)
            items[:, slot], scores[:, slot] = best.items[:, 0], best.scores[:, 0]
            if self.gains is not None:
                scores[:, slot] = own[np.arange(B), items[:, slot]]
            if best.rivals is not None:
                rivals = np.zeros_like(items) if rivals is None else rivals
                rivals[:, slot] = best.rivals[:, 0]
            found = np.flatnonzero(items[:, slot] != EMPTY)
            free[found, items[found, slot]] = False
            if caps is not None:
                close_full(free, items[:, : slot + 1], caps)
        return Plan(items, scores, rivals)

    @property
    def keeps_caps(self) -> bool:
        """True."""
        return True

    def approximate(self, caps: Caps, request: Request) -> bool:
        """Return True, as without caps."""
        return True

    def of_fixed_scores(self, policy: Composition) -> ListDistribution:
        """Return the distribution of the single best list."""
        return lists.settled(policy, "slot by slot the largest score given the items above")

    cut = of_fixed_scores

    def of_random_scores(self, policy: Composition) -> ListDistribution:
        """Return the uniform distribution over lists."""
        return lists.uniform()
