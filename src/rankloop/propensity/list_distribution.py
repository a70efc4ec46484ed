"""The distribution of a policy's lists: what is random about them, and closed-form probabilities.

An exploration rule knows what is random about its scores; a planner knows how scores become a list. The rule selects
the closed form that fits its scores, if the planner has it:

| scores | closed form of the planner |
|---|---|
| a function of the state | `Planner.of_fixed_scores` |
| levels, ties in random order | `Planner.of_levels` |
| level + slope·Z with one standard normal Z | `Planner.of_lines` |
| independent and uniform | `Planner.of_random_scores` |

Under caps, only a list that was the only possible one has a closed form; other propensities are estimated by deciding
again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import numpy as np

from rankloop.math.fair_ties import tied_ranks
from rankloop.propensity import closed_forms
from rankloop.propensity.closed_forms import CERTAIN, ListProbabilities, PlannedList
from rankloop.types import EMPTY, Decision, FloatArray, IntArray, Request, Rows, SlotScore

T = TypeVar("T")

DETERMINISTIC, EXACT, MONTE_CARLO = "deterministic", "exact", "monte-carlo"

Probability = Callable[[Any, Decision], ListProbabilities | None]
"""(state, decision) of one learner -> probabilities of its list; CERTAIN if no other is possible, None if unknown."""

BeliefState = Callable[[Any, Request], object]
"""(state, request) -> the belief's state, of the request's candidates alone where the request has its own."""

Levels = Callable[[Any, Rows], FloatArray]
"""(belief's state, rows) -> levels [B, L]; items of one level are in random order."""

Lines = Callable[[Any, IntArray, Rows], tuple[FloatArray, FloatArray]]
"""(belief's state, t, rows) -> level and slope of each item's score, each [B, L]."""


@dataclass(frozen=True)
class ListDistribution:
    """How the lists of a policy are drawn."""

    kind: str  # of its propensities, without ties: deterministic, exact or monte-carlo
    ties: str  # kind of its propensities where an exact tie affected the list; empty where ties do not matter
    why: str  # how a list is drawn, in a few words
    probability: Probability
    has_closed_form: bool = True  # False where `probability` is None for every list


class SupportsDecide(Protocol):
    """Anything that decides lists from a state that it made itself."""

    def decide(self, state: Any, request: Request, rng: np.random.Generator) -> Decision:
        """Return lists for this request; the state is only read."""


class Composition(SupportsDecide, Protocol):
    """What closed forms need of a policy that is composed of parts."""

    def scores(self, state: Any, request: Request, rng: np.random.Generator) -> SlotScore:
        """Return the scores of all items for a slot after a prefix."""

    @property
    def belief_state(self) -> BeliefState:
        """What levels and lines are computed from."""

    def rows(self, request: Request, prefix: IntArray, slot: int) -> Rows:
        """Return the rows of all items for a slot after a prefix."""

    def with_rule(self, rule: Any) -> Composition:
        """Return the same policy with another exploration rule."""


class HasRounds(Protocol):
    """A state that holds the round of each learner."""

    @property
    def t(self) -> IntArray:
        """The round that each learner decides next, from 1, [B]."""


class ClosedForms(Protocol):
    """The closed forms of a planner, by what is random about the scores."""

    def of_fixed_scores(self, policy: Composition) -> ListDistribution:
        """Return the distribution where scores are a function of the state."""

    def of_levels(self, policy: Composition, levels: Levels) -> ListDistribution:
        """Return the distribution where items of one level are in random order."""

    def of_lines(self, policy: Composition, lines: Lines) -> ListDistribution:
        """Return the distribution where one standard normal number moves all scores."""

    def of_random_scores(self, policy: Composition) -> ListDistribution:
        """Return the distribution where scores are independent and uniform."""


def arbitrary_rng() -> np.random.Generator:
    """Return a generator for decisions whose relevant part does not depend on it."""
    return np.random.default_rng(0)


def unknown(why: str) -> ListDistribution:
    """Return a distribution without a closed form: propensities are estimated by deciding again."""
    return ListDistribution(MONTE_CARLO, "", why, lambda state, decision: None, has_closed_form=False)


def uniform() -> ListDistribution:
    """Return the uniform distribution over lists."""

    def probability(state: object, decision: Decision) -> ListProbabilities | None:
        return None if _capped(decision) else closed_forms.uniform(PlannedList.of(decision))

    return ListDistribution(EXACT, "", "every list is equally likely", probability)


def by_levels(policy: Composition, levels: Levels, bias: FloatArray | None = None) -> ListDistribution:
    """Return the distribution of levels in order, items of one level shuffled."""

    def probability(state: HasRounds, decision: Decision) -> ListProbabilities | None:
        if _capped(decision):
            return None
        planned = PlannedList.of(decision)
        belief = policy.belief_state(state, decision.request)
        level = levels(belief, policy.rows(decision.request, *_top(decision.request)))[0]
        return closed_forms.by_scores(planned, level, _bias_of(bias, planned, decision.request))

    return ListDistribution(EXACT, "", "blocks of items in order, each shuffled", probability)


def by_lines(policy: Composition, lines: Lines) -> ListDistribution:
    """Return the distribution of scores that one normal number moves: a list has the measure of its interval."""

    def probability(state: HasRounds, decision: Decision) -> ListProbabilities | None:
        if _capped(decision):
            return None
        belief = policy.belief_state(state, decision.request)
        level, slope = lines(belief, state.t, policy.rows(decision.request, *_top(decision.request)))
        return closed_forms.by_lines(PlannedList.of(decision), level[0], slope[0])

    return ListDistribution(EXACT, "", "one normal number moves all scores; a list is an interval of it", probability)


def ranked(policy: Composition, bias: FloatArray | None = None, why: str = "") -> ListDistribution:
    """Return the distribution of the largest scores in order, exact ties of items and of slots broken at random."""
    slots_differ = _distinct(bias)

    def probability(state: object, decision: Decision) -> ListProbabilities | None:
        if decision.scores is None:
            return elsewhere(state, decision)
        if decision.rivals is None and slots_differ:
            return CERTAIN
        planned = PlannedList.of(decision, _filled(decision))
        filled = _bias_of(bias, planned, decision.request)
        if decision.rivals is None and _distinct(filled):
            return CERTAIN
        if _capped(decision):
            return None
        scores = decision.scores[0, planned.slots]
        rivals = 0 if decision.rivals is None else decision.rivals[0, planned.slots]
        # The first of several tied items had all others as rivals, whether or not they are in the list.
        size = 1 + np.where(scores == scores[:, None], rivals, 0).max(axis=1, initial=0)
        return closed_forms.ranked(planned, tied_ranks(scores)[0], size, filled)

    def elsewhere(state: object, decision: Decision) -> ListProbabilities | None:
        """Return the probabilities of a list that the policy did not make, from the scores of all items."""
        own = policy.decide(state, decision.request, arbitrary_rng())
        planned = PlannedList.of(decision, _filled(own))
        filled = _bias_of(bias, planned, decision.request)
        if own.rivals is None and _distinct(filled):
            return closed_forms.point_mass(decision.items[0], own.items[0])
        if _capped(decision):
            return None
        scores = policy.scores(state, decision.request, arbitrary_rng())(*_top(decision.request))
        return closed_forms.by_scores(planned, scores[0], filled)

    return ListDistribution(DETERMINISTIC, EXACT, f"the largest scores{why}", probability)


def settled(policy: Composition, why: str) -> ListDistribution:
    """Return the distribution of the single best list; without a closed form where several lists are equally good."""

    def probability(state: object, decision: Decision) -> ListProbabilities | None:
        if decision.scores is not None:
            return CERTAIN if decision.rivals is None else None
        own = policy.decide(state, decision.request, arbitrary_rng())
        return closed_forms.point_mass(decision.items[0], own.items[0]) if own.rivals is None else None

    return ListDistribution(DETERMINISTIC, MONTE_CARLO, why, probability)


def drawn(
    spread: Callable[[IntArray], FloatArray | float], still: ListDistribution, *, always: bool = False
) -> ListDistribution:
    """Return the distribution of parameter draws; with a spread of 0, that of fixed parameters.

    Args:
        spread: the scale of the draws in round t [B].
        still: the distribution of fixed parameters.
        always: the spread is never 0.
    """

    def probability(state: HasRounds, decision: Decision) -> ListProbabilities | None:
        return None if np.asarray(spread(state.t)).any() else still.probability(state, decision)

    why = "parameters are drawn; deterministic with spread 0"
    return ListDistribution(MONTE_CARLO, "", why, probability, has_closed_form=not always)


def epsilon(share: float, random: ListDistribution, rule: ListDistribution) -> ListDistribution:
    """Return the mixture of random scores for the whole list and the rule's; a score does not reveal its source."""
    if random.kind == MONTE_CARLO:
        return random

    def probability(state: object, decision: Decision) -> ListProbabilities | None:
        shown = Decision(decision.items, decision.rows, decision.request)
        return _mixture(share, random.probability(state, shown), rule, state, shown)

    kind = EXACT if rule.kind == DETERMINISTIC else rule.kind
    why = f"with probability {share:g} a random list, otherwise {rule.why}"
    return ListDistribution(kind, rule.ties, why, probability)


def sometimes_random(
    share: Callable[[IntArray], FloatArray | None], when: str, any_length: bool, otherwise: ListDistribution
) -> ListDistribution:
    """Return the mixture of uniformly random lists and `otherwise`.

    The probability [B] of a random list depends on the round; None where it is not known.
    """
    limit = share(np.array([2**62]))
    if limit is None:
        return unknown("the probability of a random list is unknown")
    draw = closed_forms.any_length if any_length else closed_forms.uniform

    def probability(state: HasRounds, decision: Decision) -> ListProbabilities | None:
        p = float(np.asarray(share(state.t))[0])
        if p == 0.0:
            return otherwise.probability(state, decision)
        if _capped(decision):
            return None
        return _mixture(p, draw(PlannedList.of(decision)), otherwise, state, decision)

    kind = EXACT if otherwise.kind == DETERMINISTIC and limit[0] > 0.0 else otherwise.kind
    length = " of random length" if any_length else ""
    why = f"{when} a random list{length} (exact), otherwise {otherwise.why}"
    return ListDistribution(kind, otherwise.ties, why, probability)


def within(inner: ListDistribution, state_of: Callable[[T], object]) -> ListDistribution:
    """Return the distribution of a wrapped policy, for the wrapper's state."""
    return replace(inner, probability=lambda state, decision: inner.probability(state_of(state), decision))


def _mixture(
    share: float, random: ListProbabilities | None, rule: ListDistribution, state: object, decision: Decision
) -> ListProbabilities | None:
    if share >= 1.0 or random is None:
        return random
    own = rule.probability(state, decision)
    return None if own is None else closed_forms.mixture(share, random, own)


def _top(request: Request) -> tuple[IntArray, int]:
    """Return the items above the first slot that a planner fills, [1, slot], and this slot."""
    if request.pinned is None:
        return np.empty((1, 0), dtype=np.int64), 0
    free = np.flatnonzero(request.pinned == EMPTY)
    slot = int(free[0]) if free.size else 0
    return request.pinned[None, :slot], slot


def _bias_of(bias: FloatArray | None, planned: PlannedList, request: Request) -> FloatArray | None:
    """Return the biases of the filled slots, [n], or None where the planner uses none."""
    if bias is None:
        return None
    moved = request.slots is not None and request.pinned is None
    return bias[request.slots][planned.slots] if moved else bias[planned.slots]


def _capped(decision: Decision) -> bool:
    """Return whether caps restrict the list, so that closed forms of lists that hold any items do not apply."""
    return decision.request.active_caps() is not None


def _distinct(bias: FloatArray | None) -> bool:
    return bias is None or len(np.unique(bias)) == len(bias)


def _filled(decision: Decision) -> int:
    """Return how many slots the planner filled."""
    pinned = decision.request.pinned
    held = 0 if pinned is None else np.count_nonzero(pinned != EMPTY)
    return int(np.count_nonzero(decision.items[0] != EMPTY) - held)
