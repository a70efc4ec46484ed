"""Uniformly random lists."""

from __future__ import annotations

import numpy as np

from rankloop.plan.base import HasRuleDistribution, Plan, Planner
from rankloop.plan.top_k import best_of
from rankloop.propensity import list_distribution as lists
from rankloop.propensity.list_distribution import Composition, ListDistribution
from rankloop.types import Caps, Read, Request, SlotScore


class Uniform(Planner):
    """Makes uniformly random lists of allowed items, without scores."""

    offers = frozenset[Read]({"slot", "prefix"})  # every design fits, since scores are not used
    explores_itself = True

    def __call__(self, score: SlotScore, request: Request, rng: np.random.Generator) -> Plan:
        """Return random lists."""
        keys = rng.random((request.learners, request.items))
        return best_of(keys, request, rng)

    @property
    def keeps_caps(self) -> bool:
        """True."""
        return True

    def approximate(self, caps: Caps, request: Request) -> bool:
        """Return False: no list is better than another."""
        return False

    def list_distribution(self, rule: HasRuleDistribution, policy: Composition) -> ListDistribution:
        """Return the uniform distribution over lists, whatever the rule."""
        return lists.uniform()
