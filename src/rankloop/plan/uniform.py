"""Uniformly random lists."""

from __future__ import annotations

import numpy as np

from rankloop.plan.base import Plan
from rankloop.plan.top_k import best_k
from rankloop.types import Request, SlotScore


class Uniform:
    """Every list of allowed items is equally likely; scores are not asked for."""

    def __call__(self, score: SlotScore, request: Request, rng: np.random.Generator) -> Plan:
        """Random lists."""
        keys = rng.random((request.learners, request.items))
        return best_k(keys, request.k, rng, allowed=request.allowed)
