"""The contract of a planner."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from rankloop.errors import InvalidInput
from rankloop.ownership import drop_stale
from rankloop.propensity.list_distribution import ClosedForms, Composition, Levels, Lines, ListDistribution, unknown
from rankloop.shortlist import Shortlist
from rankloop.types import Caps, FloatArray, IntArray, Read, Request, SlotScore


class Plan(NamedTuple):
    """Lists, the score of each item in the slot it was given, and the number of ties that were broken at random."""

    items: IntArray  # [B, k], EMPTY where nothing is shown
    scores: FloatArray  # [B, k], arbitrary in empty slots
    rivals: IntArray | None = None  # [B, k] as in `Decision`; None without ties


class Held(NamedTuple):
    """Pinned items of a list, the same for all learners."""

    items: IntArray  # [n]
    slots: IntArray  # [n]
    score: SlotScore  # of all items, for a slot of the whole list


FOLLOWING_CALL = (
    *("of_fixed_scores", "cut", "of_levels", "of_lines", "of_random_scores", "list_distribution"),
    *("keeps_caps", "approximate", "needed"),
)
"""What describes the lists of `Planner.__call__`."""


class Planner(Protocol):
    """Makes lists [B, k] of distinct allowed items; exact ties are broken uniformly at random.

    A planner receives a function instead of an array, since a score may depend on the slot and on the prefix.
    Where fewer than k items are allowed, the last slots stay empty (-1).

    Closed forms of the probability of a list, caps and plans of a shortlist are optional capabilities that a planner
    overrides. A subclass with another `__call__` keeps only those that it defines itself.
    """

    def __call__(self, score: SlotScore, request: Request, rng: np.random.Generator) -> Plan:
        """Return the lists for this request."""

    def needed(self, request: Request) -> int | None:
        """Return how many of the largest scores determine the list; None where it may need any of them.

        It is one more than the list has slots: whether the next item ties with the last one matters.
        """
        return None

    def of_shortlist(self, found: Shortlist, request: Request, rng: np.random.Generator) -> Plan:
        """Return the lists that all scores would give, from the `needed` largest ones."""
        raise TypeError(f"{type(self).__name__} needs the scores of all items")

    def fill(self, score: SlotScore, request: Request, held: Held, rng: np.random.Generator) -> Plan:
        """Return the items of the free slots of a list with pinned items; by default as if there were none.

        Args:
            score: scores of all items for a free slot, by its number among the free ones.
            request: for the free slots, whose indices are in `request.slots`; pinned items are not allowed.
            held: the pinned items.
            rng: the source of randomness.
        """
        return self(score, request, rng)

    @property
    def reads(self) -> frozenset[Read]:
        """What lists depend on besides scores: prices, or rewards by slot."""
        return frozenset()

    @property
    def ends_early(self) -> bool:
        """Whether lists may be shorter than possible because a longer one is worth less."""
        return False

    @property
    def keeps_caps(self) -> bool:
        """Whether lists keep the caps of a request; otherwise requests with caps are refused."""
        return False

    def approximate(self, caps: Caps, request: Request) -> bool:
        """Return whether these caps are kept greedily, so that a better list may exist; by default under several."""
        return len(caps.at_most) > 1

    @property
    def offers(self) -> frozenset[Read]:
        """What scores may depend on.

        The slot, if scores are requested for each slot; the prefix, if slots are filled from the top.
        """
        return frozenset()

    def with_slot_order(self, order: IntArray) -> Planner:
        """Return the planner for slots of this descending learned value, [B, K]; by default the order is not used."""
        return self

    @property
    def explores_itself(self) -> bool:
        """Whether lists are random whatever the scores are, so that no exploration rule can make them greedy."""
        return False

    def working_bytes(self, items: int, slots: int) -> int:
        """Return the bytes of what is computed for each pair of item and slot; 0 where slots are filled one by one."""
        return 0

    def list_distribution(self, rule: HasRuleDistribution, policy: Composition) -> ListDistribution:
        """Return the distribution of lists under an exploration rule, which picks one of the planner's closed forms."""
        return rule.list_distribution(self, policy)

    def of_fixed_scores(self, policy: Composition) -> ListDistribution:
        """Return the distribution where scores are a function of the state."""
        return unknown("the planner has no closed form")

    def cut(self, policy: Composition) -> ListDistribution:
        """Return the distribution where scores are a function of the state and lists are cut to their best length."""
        return unknown("the planner has no closed form")

    def of_levels(self, policy: Composition, levels: Levels) -> ListDistribution:
        """Return the distribution where items of one level are in random order."""
        return unknown("the planner has no closed form")

    def of_lines(self, policy: Composition, lines: Lines) -> ListDistribution:
        """Return the distribution where one standard normal number moves all scores."""
        return unknown("the planner has no closed form")

    def of_random_scores(self, policy: Composition) -> ListDistribution:
        """Return the distribution where scores are independent and uniform."""
        return unknown("the planner has no closed form")

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        drop_stale(cls, Planner, follows="__call__", capabilities=FOLLOWING_CALL)


class HasRuleDistribution(Protocol):
    """An exploration rule, as far as a planner knows it."""

    def list_distribution(self, planner: ClosedForms, policy: Composition) -> ListDistribution:
        """Return the distribution of the lists that a planner makes of the rule's scores."""


def check_slots(request: Request, slots: int) -> None:
    """Refuse a request for more slots than a policy was built for."""
    needed = request.k if request.slots is None else int(request.slots.max(initial=-1)) + 1
    if needed > slots:
        raise InvalidInput("request.k", needed, f"at most {slots}, the slots that this policy was built for")
