"""The distribution of a policy's lists: what is random about them, and the probability of a list in closed form.

An exploration rule knows what is random about its scores, a planner knows how scores become a list. The rule picks the
closed form that fits its scores, and the planner has it or not:

| scores | closed form of the planner |
|---|---|
| follow from the state | `Planner.of_fixed_scores` |
| levels, equal ones in random order | `Planner.of_levels` |
| level + slope·Z with one standard normal Z | `Planner.of_lines` |
| independent and uniform | `Planner.of_random_scores` |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import numpy as np

from rankloop.math.fair_ties import tied_ranks
from rankloop.propensity import closed_forms
from rankloop.propensity.closed_forms import CERTAIN, PlannedList, ListProbabilities
from rankloop.types import EMPTY, Decision, FloatArray, IntArray, Request, Rows, SlotScore

T = TypeVar("T")

DETERMINISTIC, EXACT, MONTE_CARLO = "deterministic", "exact", "monte-carlo"

Probability = Callable[[Any, Decision], ListProbabilities | None]
"""(state, decision) of one learner -> probabilities of its list, CERTAIN if it is the only one, None if not known."""

Levels = Callable[[Any, Rows], FloatArray]
"""(belief's state, rows) -> levels [B, L]; items of one level are in random order."""

Lines = Callable[[Any, IntArray, Rows], tuple[FloatArray, FloatArray]]
"""(belief's state, t, rows) -> level and slope of each item's score, each [B, L]."""


@dataclass(frozen=True)
class ListDistribution:
    """How the lists of a policy come about."""

    kind: str  # what its propensities are, as a rule: deterministic, exact or monte-carlo
    ties: str  # what they are where an exact tie decided the list; empty where ties play no part
    why: str  # how a list comes about, in a few words
    probability: Probability


class SupportsDecide(Protocol):
    """Whatever decides lists; its state is one that it has made itself."""

    def decide(self, state: Any, request: Request, rng: np.random.Generator) -> Decision:
        """Lists for this request; the state is only read."""


class Composition(SupportsDecide, Protocol):
    """What closed forms need of a policy that is composed of parts."""

    def scores(self, state: Any, request: Request, rng: np.random.Generator) -> SlotScore:
        """Scores of all items for a slot after a prefix."""

    def rows(self, request: Request, prefix: IntArray, slot: int) -> Rows:
        """Rows of all items for a slot after a prefix."""

    def with_rule(self, rule: Any) -> Composition:
        """The same policy with another exploration rule."""


class HasRounds(Protocol):
    """A state that knows the round of each learner."""

    @property
    def t(self) -> IntArray:
        """The round that each learner decides next, from 1, [B]."""


class HasBelief(HasRounds, Protocol):
    """The state of a policy that is composed of parts."""

    @property
    def belief(self) -> object:
        """The state of its belief."""


class ClosedForms(Protocol):
    """What a planner knows of its lists, by what is random about the scores."""

    def of_fixed_scores(self, policy: Composition) -> ListDistribution:
        """Scores follow from the state."""

    def of_levels(self, policy: Composition, levels: Levels) -> ListDistribution:
        """Items of one level are in random order."""

    def of_lines(self, policy: Composition, lines: Lines) -> ListDistribution:
        """One standard normal number moves all scores."""

    def of_random_scores(self, policy: Composition) -> ListDistribution:
        """Scores are independent and uniform."""


def arbitrary_rng() -> np.random.Generator:
    """A generator for decisions that are made again only to see what does not depend on it."""
    return np.random.default_rng(0)


def unknown(why: str) -> ListDistribution:
    """Of a policy that has no closed form: its propensities are estimated by deciding again."""
    return ListDistribution(MONTE_CARLO, "", why, lambda state, decision: None)


def uniform() -> ListDistribution:
    """Every list is equally likely."""
    return ListDistribution(
        EXACT,
        "",
        "every list is equally likely",
        lambda state, decision: closed_forms.uniform(PlannedList.of(decision)),
    )


def by_levels(policy: Composition, levels: Levels, bias: FloatArray | None = None) -> ListDistribution:
    """Levels in order, items of one level shuffled."""

    def probability(state: HasBelief, decision: Decision) -> ListProbabilities:
        planned = PlannedList.of(decision)
        level = levels(state.belief, policy.rows(decision.request, *_top(decision.request)))[0]
        return closed_forms.by_scores(planned, level, _bias_of(bias, planned, decision.request))

    return ListDistribution(EXACT, "", "blocks of items in order, each shuffled", probability)


def by_lines(policy: Composition, lines: Lines) -> ListDistribution:
    """All scores moved by one normal number: the measure of those that give this list."""

    def probability(state: HasBelief, decision: Decision) -> ListProbabilities:
        level, slope = lines(state.belief, state.t, policy.rows(decision.request, *_top(decision.request)))
        return closed_forms.by_lines(PlannedList.of(decision), level[0], slope[0])

    return ListDistribution(
        EXACT, "", "one normal number moves all scores, and a list is an interval of it", probability
    )


def ranked(policy: Composition, bias: FloatArray | None = None, why: str = "") -> ListDistribution:
    """The largest scores first; which of exactly equal ones is a fair draw, and which of equal slots too."""
    slots_differ = _distinct(bias)

    def probability(state: object, decision: Decision) -> ListProbabilities:
        if decision.scores is None:
            return elsewhere(state, decision)
        if decision.rivals is None and slots_differ:
            return CERTAIN
        planned = PlannedList.of(decision, _filled(decision))
        filled = _bias_of(bias, planned, decision.request)
        if decision.rivals is None and _distinct(filled):
            return CERTAIN
        scores = decision.scores[0, planned.slots]
        rivals = 0 if decision.rivals is None else decision.rivals[0, planned.slots]
        # The first of equal ones had the others as rivals, listed or not.
        size = 1 + np.where(scores == scores[:, None], rivals, 0).max(axis=1, initial=0)
        return closed_forms.ranked(planned, tied_ranks(scores)[0], size, filled)

    def elsewhere(state: object, decision: Decision) -> ListProbabilities:
        """Of a list that the policy did not make, from the scores of all items."""
        own = policy.decide(state, decision.request, arbitrary_rng())
        planned = PlannedList.of(decision, _filled(own))
        filled = _bias_of(bias, planned, decision.request)
        if own.rivals is None and _distinct(filled):
            return closed_forms.point_mass(decision.items[0], own.items[0])
        scores = policy.scores(state, decision.request, arbitrary_rng())(*_top(decision.request))
        return closed_forms.by_scores(planned, scores[0], filled)

    return ListDistribution(DETERMINISTIC, EXACT, f"the largest scores{why}", probability)


def settled(policy: Composition, why: str) -> ListDistribution:
    """The one list that is best; where others are as good, which of them is shown has no closed form."""

    def probability(state: object, decision: Decision) -> ListProbabilities | None:
        if decision.scores is not None:
            return CERTAIN if decision.rivals is None else None
        own = policy.decide(state, decision.request, arbitrary_rng())
        return closed_forms.point_mass(decision.items[0], own.items[0]) if own.rivals is None else None

    return ListDistribution(DETERMINISTIC, MONTE_CARLO, why, probability)


def drawn(spread: Callable[[IntArray], FloatArray | float], still: ListDistribution) -> ListDistribution:
    """Parameters are drawn; where their spread is 0 they are not."""

    def probability(state: HasRounds, decision: Decision) -> ListProbabilities | None:
        return None if np.asarray(spread(state.t)).any() else still.probability(state, decision)

    return ListDistribution(MONTE_CARLO, "", "parameters are drawn; with spread 0 as if they were not", probability)


def epsilon(share: float, random: ListDistribution, rule: ListDistribution) -> ListDistribution:
    """Random scores for the whole list, or else the rule's; a score does not tell which of them it is."""
    if random.kind == MONTE_CARLO:
        return random

    def probability(state: object, decision: Decision) -> ListProbabilities | None:
        shown = Decision(decision.items, decision.rows, decision.request)
        return _mixture(share, random.probability(state, shown), rule, state, shown)

    kind = EXACT if rule.kind == DETERMINISTIC else rule.kind
    why = f"with probability {share:g} a random list, otherwise {rule.why}"
    return ListDistribution(kind, rule.ties, why, probability)


def sometimes_random(
    chance: Callable[[IntArray], FloatArray | None], when: str, any_length: bool, otherwise: ListDistribution
) -> ListDistribution:
    """Uniformly random lists with a chance [B] that depends on the round, where it is known, otherwise another's."""
    in_the_end = chance(np.array([2**62]))
    if in_the_end is None:
        return unknown("nothing is known of when its lists are random")
    draw = closed_forms.any_length if any_length else closed_forms.uniform

    def probability(state: HasRounds, decision: Decision) -> ListProbabilities | None:
        p = float(np.asarray(chance(state.t))[0])
        if p == 0.0:
            return otherwise.probability(state, decision)
        return _mixture(p, draw(PlannedList.of(decision)), otherwise, state, decision)

    kind = EXACT if otherwise.kind == DETERMINISTIC and in_the_end[0] > 0.0 else otherwise.kind
    length = " of random length" if any_length else ""
    why = f"{when} a random list{length} (exact), otherwise {otherwise.why}"
    return ListDistribution(kind, otherwise.ties, why, probability)


def within(inner: ListDistribution, state_of: Callable[[T], object]) -> ListDistribution:
    """The distribution of a policy inside a wrapper whose state has the policy's inside."""
    return replace(inner, probability=lambda state, decision: inner.probability(state_of(state), decision))


def _mixture(
    share: float, even: ListProbabilities | None, rule: ListDistribution, state: object, decision: Decision
) -> ListProbabilities | None:
    if share >= 1.0 or even is None:
        return even
    own = rule.probability(state, decision)
    return None if own is None else closed_forms.mixture(share, even, own)


def _top(request: Request) -> tuple[IntArray, int]:
    """The first slot that a planner asks about, and what stands above it, [1, slot]."""
    if request.pinned is None:
        return np.empty((1, 0), dtype=np.int64), 0
    free = np.flatnonzero(request.pinned == EMPTY)
    slot = int(free[0]) if free.size else 0
    return request.pinned[None, :slot], slot


def _bias_of(bias: FloatArray | None, planned: PlannedList, request: Request) -> FloatArray | None:
    """Of the slots that are filled, [n], where the planner minds it."""
    if bias is None:
        return None
    moved = request.slots is not None and request.pinned is None
    return bias[request.slots][planned.slots] if moved else bias[planned.slots]


def _distinct(bias: FloatArray | None) -> bool:
    return bias is None or len(np.unique(bias)) == len(bias)


def _filled(decision: Decision) -> int:
    """How many slots the planner filled."""
    pinned = decision.request.pinned
    held = 0 if pinned is None else np.count_nonzero(pinned != EMPTY)
    return int(np.count_nonzero(decision.items[0] != EMPTY) - held)
