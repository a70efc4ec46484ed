"""What a planner is."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from rankloop.types import IntArray, Request, SlotScore


class Planner(Protocol):
    """Makes lists [B, k] of distinct allowed items; exact ties are broken uniformly at random.

    A planner gets a function and not an array: a score may depend on the slot and on the prefix.
    Where fewer than k items are allowed, the last slots stay empty (-1).
    """

    def __call__(self, score: SlotScore, request: Request, rng: np.random.Generator) -> IntArray:
        """The lists for this request."""
