"""Uniformly random lists."""

from __future__ import annotations

import numpy as np

from rankloop.plan.base import HasRuleDistribution, Plan, Planner
from rankloop.plan.top_k import best_k
from rankloop.propensity import list_distribution as lists
from rankloop.propensity.list_distribution import Composition, ListDistribution
from rankloop.types import Read, Request, SlotScore


class Uniform(Planner):
    """Makes uniformly random lists of allowed items, without scores."""

    offers = frozenset[Read]({"slot", "prefix"})  # every design fits, since scores are not used
    explores_itself = True

    def __call__(self, score: SlotScore, request: Request, rng: np.random.Generator) -> Plan:
        """Return random lists."""
        keys = rng.random((request.learners, request.items))
        return best_k(keys, request.k, rng, allowed=request.allowed)

    def list_distribution(self, rule: HasRuleDistribution, policy: Composition) -> ListDistribution:
        """Return the uniform distribution over lists, whatever the rule."""
        return lists.uniform()
