"""What a planner is."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from rankloop.errors import InvalidInput
from rankloop.ownership import drop_stale
from rankloop.propensity.list_distribution import ClosedForms, Composition, Levels, Lines, ListDistribution, unknown
from rankloop.types import FloatArray, IntArray, Read, Request, SlotScore


class Plan(NamedTuple):
    """Lists, the score that each item had for the slot it was given, and where luck decided between equal ones."""

    items: IntArray  # [B, k], EMPTY where nothing is shown
    scores: FloatArray  # [B, k], arbitrary in empty slots
    rivals: IntArray | None = None  # [B, k] as in `Decision`; None where nothing tied


CLOSED_FORMS = ("of_fixed_scores", "cut", "of_levels", "of_lines", "of_random_scores", "list_distribution")


class Planner(Protocol):
    """Makes lists [B, k] of distinct allowed items; exact ties are broken uniformly at random.

    A planner gets a function and not an array: a score may depend on the slot and on the prefix.
    Where fewer than k items are allowed, the last slots stay empty (-1).

    Closed forms of the probability of a list are capabilities: a planner overrides those that it has. A subclass with
    another `__call__` keeps only those that it defines itself.
    """

    def __call__(self, score: SlotScore, request: Request, rng: np.random.Generator) -> Plan:
        """The lists for this request."""

    @property
    def offers(self) -> frozenset[Read]:
        """What scores may depend on: the slot, where they are asked for every slot; the prefix, from the top."""
        return frozenset()

    @property
    def explores_itself(self) -> bool:
        """True where lists are random whatever the scores are, so that no exploration rule can make them greedy."""
        return False

    def list_distribution(self, rule: HasRuleDistribution, policy: Composition) -> ListDistribution:
        """The distribution of lists under an exploration rule: what the rule makes of this planner's closed forms."""
        return rule.list_distribution(self, policy)

    def of_fixed_scores(self, policy: Composition) -> ListDistribution:
        """Scores follow from the state."""
        return unknown("nothing is known of its planner")

    def cut(self, policy: Composition) -> ListDistribution:
        """Scores follow from the state, and lists are cut where it pays."""
        return unknown("nothing is known of its planner")

    def of_levels(self, policy: Composition, levels: Levels) -> ListDistribution:
        """Items of one level are in random order."""
        return unknown("nothing is known of its planner")

    def of_lines(self, policy: Composition, lines: Lines) -> ListDistribution:
        """One standard normal number moves all scores."""
        return unknown("nothing is known of its planner")

    def of_random_scores(self, policy: Composition) -> ListDistribution:
        """Scores are independent and uniform."""
        return unknown("nothing is known of its planner")

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        drop_stale(cls, Planner, follows="__call__", capabilities=CLOSED_FORMS)


class HasRuleDistribution(Protocol):
    """An exploration rule, as far as a planner knows it."""

    def list_distribution(self, planner: ClosedForms, policy: Composition) -> ListDistribution:
        """The distribution of lists that a planner makes of the rule's scores."""


def check_slots(request: Request, slots: int) -> None:
    """Refuse a request for more slots than a policy was built for."""
    most = request.k if request.slots is None else int(request.slots.max(initial=-1)) + 1
    if most > slots:
        raise InvalidInput("request.k", most, f"at most {slots}, the slots that this policy was built for")
