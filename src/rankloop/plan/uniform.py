"""Uniformly random lists."""

from __future__ import annotations

import numpy as np

from rankloop.plan.top_k import top_k
from rankloop.types import IntArray, Request, SlotScore


class Uniform:
    """Every list of allowed items is equally likely; scores are not asked for."""

    def __call__(self, score: SlotScore, request: Request, rng: np.random.Generator) -> IntArray:
        """Random lists."""
        keys = rng.random((request.learners, request.items))
        return top_k(keys, request.k, rng, allowed=request.allowed)
