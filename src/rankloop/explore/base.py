"""The contract of an exploration rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import numpy as np

from rankloop.ownership import drop_stale
from rankloop.propensity.list_distribution import ClosedForms, Composition, ListDistribution, unknown
from rankloop.shortlist import Search, Shortlist
from rankloop.types import FloatArray, IntArray, Score

Schedule = Callable[[IntArray], FloatArray]
"""Maps the rounds t [B] of the learners to a radius, a scale or a level for each, [B]."""

S_contra = TypeVar("S_contra", contravariant=True)


class ExplorationRule(Protocol[S_contra]):
    """Turns a belief's state into scores. Random numbers are drawn once for the whole list."""

    def __call__(self, state: S_contra, t: IntArray, rng: np.random.Generator) -> Score:
        """Return the scores for round t [B] of every learner."""

    def shortlist(self, state: S_contra, search: Search, t: IntArray, rng: np.random.Generator) -> Shortlist | None:
        """Return the largest scores without computing all of them; None where the rule has no faster way.

        Lists made of it have the distribution of those made of all scores. Without a shortlist no random number is
        drawn.

        Args:
            state: what is scored.
            search: which scores it must hold.
            t: the round of each learner, [B].
            rng: the source of randomness.
        """
        return None

    @property
    def explores(self) -> bool:
        """Whether scores may differ from the estimates."""
        return True

    def list_distribution(self, planner: ClosedForms, policy: Composition) -> ListDistribution:
        """Return the distribution of the lists that a planner makes of these scores.

        A rule that knows what is random about its scores asks the planner for the matching closed form. By default
        propensities are estimated by deciding again.
        """
        return unknown("nothing is known of its exploration rule")

    def without_exploration(self) -> ExplorationRule[S_contra] | None:
        """Return the rule with an exploration radius of 0; None where it has no such parameter."""
        return None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        drop_stale(
            cls,
            ExplorationRule,
            follows="__call__",
            capabilities=("list_distribution", "without_exploration", "shortlist"),
        )


class FromState(ExplorationRule[S_contra], Protocol):
    """A rule whose scores are a function of the state and the round."""

    def list_distribution(self, planner: ClosedForms, policy: Composition) -> ListDistribution:
        """Return the planner's distribution for scores that are not random."""
        return planner.of_fixed_scores(policy)
