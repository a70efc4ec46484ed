"""Slot by slot, the best item not yet placed."""

from __future__ import annotations

import numpy as np

from rankloop.plan.top_k import top_k
from rankloop.types import EMPTY, IntArray, Request, SlotScore


class GreedyBySlot:
    """Fills the slots from the top; each slot sees the prefix before it."""

    def __call__(self, score: SlotScore, request: Request, rng: np.random.Generator) -> IntArray:
        """The greedy lists."""
        B, L = request.learners, request.items
        free = np.ones((B, L), dtype=np.bool_) if request.allowed is None else np.empty((B, L), dtype=np.bool_)
        if request.allowed is not None:
            free[...] = request.allowed
        items = np.full((B, request.k), EMPTY, dtype=np.int64)
        rows = np.arange(B)
        for slot in range(min(request.k, L)):
            best = top_k(score(items[:, :slot], slot), 1, rng, allowed=free)[:, 0]
            items[:, slot] = best
            free[rows[best >= 0], best[best >= 0]] = False
        return items
