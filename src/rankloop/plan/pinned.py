"""Plan the free slots of a list in which other slots are pinned."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rankloop.errors import InvalidInput
from rankloop.plan.base import Held, Plan, Planner
from rankloop.types import EMPTY, FloatArray, IntArray, Request, SlotScore


def around_pins(planner: Planner, score: SlotScore, request: Request, rng: np.random.Generator) -> Plan:
    """Return lists with the pinned items in their slots and the planner's choice in the free ones.

    The planner receives a request for the free slots only, with their indices in `slots`: a score that depends on the
    slot or on the items above it sees the whole list. Pinned items count towards caps; they are shown even if they
    exceed a cap, and no more items of that value are then listed.

    Args:
        planner: it fills the free slots.
        score: scores of all items for a slot of the whole list.
        request: the request for the whole list, with pinned items.
        rng: the planner's source of randomness.
    """
    pinned = request.pinned
    if pinned is None:
        raise InvalidInput("request.pinned", pinned, "an item for each slot, -1 where a slot is free")
    free, held = np.flatnonzero(pinned == EMPTY), pinned[pinned != EMPTY]
    if not free.size:
        return Plan(np.repeat(pinned[None, :], request.learners, axis=0), np.zeros((request.learners, request.k)))
    allowed = np.broadcast_to(True if request.allowed is None else request.allowed, (request.learners, request.items))
    allowed = allowed.copy()
    allowed[:, held] = False
    counted = held if request.caps is not None else None
    inner = replace(request, k=len(free), allowed=allowed, pinned=None, slots=free, counted=counted)

    def score_free(prefix: IntArray, index: int) -> FloatArray:
        slot = int(free[index])
        above = np.repeat(pinned[None, :slot], len(prefix), axis=0)
        # A planner that does not fill the slots from the top passes an empty prefix.
        above[:, free[:index][: prefix.shape[1]]] = prefix
        return score(above, slot)

    taken = Held(held, np.flatnonzero(pinned != EMPTY), score)
    plan = planner.fill(score_free, inner, taken, rng)
    items = np.repeat(pinned[None, :], request.learners, axis=0)
    scores = np.zeros(items.shape)
    items[:, free], scores[:, free] = plan.items, plan.scores
    if plan.rivals is None:
        return Plan(items, scores)
    rivals = np.zeros_like(items)
    rivals[:, free] = plan.rivals
    return Plan(items, scores, rivals)
