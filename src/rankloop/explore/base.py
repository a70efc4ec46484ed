"""What an exploration rule is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import numpy as np

from rankloop.ownership import drop_stale
from rankloop.propensity.list_distribution import ClosedForms, Composition, ListDistribution, unknown
from rankloop.types import FloatArray, IntArray, Score

Schedule = Callable[[IntArray], FloatArray]
"""A number for each learner that depends on its round t [B]: a radius, a scale or a level."""

S_contra = TypeVar("S_contra", contravariant=True)


class ExplorationRule(Protocol[S_contra]):
    """Turns what a state believes into scores. Whatever is random is drawn once for the whole list."""

    def __call__(self, state: S_contra, t: IntArray, rng: np.random.Generator) -> Score:
        """Scores for round t [B] of every learner."""

    @property
    def explores(self) -> bool:
        """True where scores may differ from the estimates."""
        return True

    def list_distribution(self, planner: ClosedForms, policy: Composition) -> ListDistribution:
        """The distribution of lists that a planner makes of these scores.

        A rule that knows what is random about its scores asks the planner for the closed form that fits. Without an
        answer of its own, propensities are estimated by deciding again.
        """
        return unknown("nothing is known of its exploration rule")

    def without_exploration(self) -> ExplorationRule[S_contra] | None:
        """The rule with its exploration turned down to nothing; None where it has no such knob."""
        return None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        drop_stale(cls, ExplorationRule, follows="__call__", capabilities=("list_distribution", "without_exploration"))


class FromState(ExplorationRule[S_contra], Protocol):
    """A rule whose scores follow from the state and the round alone."""

    def list_distribution(self, planner: ClosedForms, policy: Composition) -> ListDistribution:
        """The planner's, for scores that are not random."""
        return planner.of_fixed_scores(policy)
