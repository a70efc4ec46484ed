"""What an exploration rule is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import numpy as np

from rankloop.types import FloatArray, IntArray, Score

Schedule = Callable[[IntArray], FloatArray]
"""A number for each learner that depends on its round t [B]: a radius, a scale or a level."""

S_contra = TypeVar("S_contra", contravariant=True)


class Explore(Protocol[S_contra]):
    """Turns what a state believes into scores. Whatever is random is drawn once for the whole list."""

    def __call__(self, state: S_contra, t: IntArray, rng: np.random.Generator) -> Score:
        """Scores for round t [B] of every learner."""
