"""A planner: the best items, the best of them in the middle of the page."""

from __future__ import annotations

import numpy as np

from rankloop.belief import Gaussian, GaussianState
from rankloop.design import PerItem
from rankloop.explore import Thompson
from rankloop.feedback import SemiBandit
from rankloop.plan import Plan, Planner
from rankloop.plan.top_k import best_k
from rankloop.policy import Policy
from rankloop.propensity import ListDistribution, list_distribution
from rankloop.propensity.list_distribution import Composition
from rankloop.types import EMPTY, Request, Setting, SlotScore


class CentreOut(Planner):
    """The k best items; the best stands in the middle slot, the others around it."""

    def __call__(self, score: SlotScore, request: Request, rng: np.random.Generator) -> Plan:
        nothing = np.empty((request.learners, 0), dtype=np.int64)
        best = best_k(score(nothing, 0), request.k, rng, allowed=request.allowed)
        items, scores = np.full_like(best.items, EMPTY), np.zeros_like(best.scores)
        filled = (best.items != EMPTY).sum(axis=1)
        for n in np.unique(filled):
            rows = np.flatnonzero(filled == n)[:, None]
            order = np.argsort(np.abs(np.arange(n) - (n - 1) / 2), kind="stable")
            items[rows, order], scores[rows, order] = best.items[rows, :n][:, 0], best.scores[rows, :n][:, 0]
        rivals = None if best.rivals is None else np.full_like(items, -1)
        return Plan(items, scores, rivals)

    def of_fixed_scores(self, policy: Composition) -> ListDistribution:
        """One list is best, unless items tie."""
        return list_distribution.settled(policy, "the largest scores, the best in the middle")


def own_planner(setting: Setting) -> Policy[GaussianState]:
    """GTS whose best item stands in the middle."""
    return Policy(PerItem(), Gaussian(setting.items), Thompson(), CentreOut(), SemiBandit())
