"""Lists around items that stand where somebody put them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rankloop.plan.base import Plan, Planner
from rankloop.types import EMPTY, FloatArray, IntArray, Request, SlotScore


def around_pins(planner: Planner, score: SlotScore, request: Request, rng: np.random.Generator) -> Plan:
    """The planner's lists for the slots that are free, the pinned items in theirs.

    The planner is asked for as many slots as are free, and told which ones: a score that depends on the slot or on
    the items above it sees the whole list.
    """
    if request.pinned is None:
        return planner(score, request, rng)
    pinned = request.pinned
    free, held = np.flatnonzero(pinned == EMPTY), pinned[pinned != EMPTY]
    if not free.size:
        return Plan(np.repeat(pinned[None, :], request.learners, axis=0), np.zeros((request.learners, request.k)))
    allowed = np.broadcast_to(True if request.allowed is None else request.allowed, (request.learners, request.items))
    allowed = allowed.copy()
    allowed[:, held] = False
    inner = replace(request, k=len(free), allowed=allowed, pinned=None, slots=free)

    def score_free(prefix: IntArray, place: int) -> FloatArray:
        slot = int(free[place])
        above = np.repeat(pinned[None, :slot], len(prefix), axis=0)
        # A planner that does not build from the top gives no prefix.
        above[:, free[:place][: prefix.shape[1]]] = prefix
        return score(above, slot)

    plan = planner(score_free, inner, rng)
    items = np.repeat(pinned[None, :], request.learners, axis=0)
    scores = np.zeros(items.shape)
    items[:, free], scores[:, free] = plan.items, plan.scores
    if plan.rivals is None:
        return Plan(items, scores)
    rivals = np.zeros_like(items)
    rivals[:, free] = plan.rivals
    return Plan(items, scores, rivals)
