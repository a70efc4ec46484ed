"""Uniformly random lists."""

from __future__ import annotations

import numpy as np

from rankloop.plan.base import HasRuleDistribution, Plan, Planner
from rankloop.plan.top_k import best_k
from rankloop.propensity import list_distribution as lists
from rankloop.propensity.list_distribution import Composition, ListDistribution
from rankloop.types import Read, Request, SlotScore


class Uniform(Planner):
    """Every list of allowed items is equally likely; scores are not asked for."""

    offers = frozenset[Read]({"slot", "prefix"})  # any score fits, since none is asked for
    explores_itself = True

    def __call__(self, score: SlotScore, request: Request, rng: np.random.Generator) -> Plan:
        """Random lists."""
        keys = rng.random((request.learners, request.items))
        return best_k(keys, request.k, rng, allowed=request.allowed)

    def list_distribution(self, rule: HasRuleDistribution, policy: Composition) -> ListDistribution:
        """Every list is equally likely, whatever the rule."""
        return lists.uniform()
