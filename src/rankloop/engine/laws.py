"""The law of a policy's lists: what is random about them, and their probabilities where those can be had exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rankloop.engine import chances
from rankloop.engine.chances import CERTAIN, Chances, Frame
from rankloop.explore import (
    Blocks,
    Bound,
    EpsilonList,
    Greedy,
    Quantile,
    Sensitive,
    SharedNoise,
    Thompson,
    Ucb,
    UcbOutsideLink,
)
from rankloop.math.fair import places
from rankloop.plan import Assignment, BestLength, BySlotBias, GreedyBySlot, TopK, Uniform
from rankloop.policy import Policy, Ranks
from rankloop.types import EMPTY, Decision, FloatArray, IntArray, Request, Rows
from rankloop.wrappers import EpochRepeat, EveryN, RandomLists

DETERMINISTIC, EXACT, MONTE_CARLO = "deterministic", "exact", "monte-carlo"

WITHOUT_CHANCE = (Bound, Greedy, Quantile, Sensitive, Ucb, UcbOutsideLink)
"""Exploration rules whose scores follow from the state alone."""

ANY = np.random.default_rng(0)
"""Luck for decisions that are made again only to see what does not depend on it."""

Find = Callable[[Any, Decision], Chances | None]
"""(state, decision) of one learner -> probabilities of its list, CERTAIN if it is the only one, None if not known."""


@dataclass(frozen=True)
class Law:
    """How the lists of a policy come about."""

    kind: str  # what its propensities are, as a rule: deterministic, exact or monte-carlo
    ties: str  # what they are where an exact tie decided the list; empty where ties play no part
    why: str  # how a list comes about, in a few words
    chances: Find


def law_of(policy: Ranks) -> Law:
    """The law of a policy. Of parts that are not this package's own nothing is known."""
    made: Any = policy
    kind = type(policy)
    if kind is RandomLists:
        return _at_times(made, law_of(made.policy))
    if kind is EpochRepeat:
        return _kept(made, law_of(made.policy))
    if kind is EveryN:
        inner = law_of(made.policy)
        return replace(inner, chances=lambda state, decision: inner.chances(state.inner, decision))
    return _composed(made) if kind is Policy else _unknown("nothing is known of its parts")


def _composed(policy: Policy[Any]) -> Law:
    rule: Any = policy.explore
    kind, plan = type(rule), type(policy.plan)
    if plan is Uniform:
        return Law(EXACT, "", "every list is equally likely", lambda state, decision: chances.even(Frame.of(decision)))
    if kind is Blocks and plan in (TopK, BySlotBias):
        return _shuffled(policy)
    if kind is SharedNoise and plan is TopK:
        return _together(policy)
    if kind is EpsilonList and plan in (TopK, BySlotBias, GreedyBySlot):
        return _epsilon(rule.epsilon, law_of(replace(policy, explore=rule.rule)))
    if kind is Thompson:
        return _drawn(rule, _planned(policy))
    return _planned(policy) if kind in WITHOUT_CHANCE else _unknown("nothing is known of its exploration rule")


def _planned(policy: Policy[Any]) -> Law:
    """The law of a policy whose scores are not random."""
    plan: Any = policy.plan
    cut = type(plan) is BestLength
    kind = type(plan.planner if cut else plan)
    if kind is TopK or (kind is BySlotBias and not cut):
        return _ranked(policy)
    if kind is GreedyBySlot:
        return _settled(policy, "the largest score slot by slot, given the items above")
    if kind is Assignment and not cut:
        return _settled(policy, "the best matching of items and slots")
    return _unknown("nothing is known of its planner")


def _unknown(why: str) -> Law:
    return Law(MONTE_CARLO, "", why, lambda state, decision: None)


def _shuffled(policy: Policy[Any]) -> Law:
    """Blocks in order: equal levels are equal scores."""

    def find(state: Any, decision: Decision) -> Chances:
        frame = Frame.of(decision)
        level = state.belief.level[:, _rows(policy, decision.request).model][0]
        return chances.by_scores(frame, 0.0 - level, _bias(policy, frame, decision.request))

    return Law(EXACT, "", "blocks of items in order, each shuffled", find)


def _together(policy: Policy[Any]) -> Law:
    """All scores moved by one normal number: the measure of those that give this list."""
    rule: Any = policy.explore

    def find(state: Any, decision: Decision) -> Chances:
        tally = state.belief.tally(_rows(policy, decision.request))
        return chances.by_lines(Frame.of(decision), tally.mean[0], rule.sd(tally, state.t)[0])

    return Law(EXACT, "", "one normal number moves all scores, and a list is an interval of it", find)


def _ranked(policy: Policy[Any]) -> Law:
    """The largest scores first; which of exactly equal ones is a fair draw, and which of equal slots too."""
    plan: Any = policy.plan
    slots_differ = type(plan) is not BySlotBias or _distinct(plan.bias)

    def find(state: Any, decision: Decision) -> Chances:
        if decision.scores is None:
            return elsewhere(state, decision)
        if decision.rivals is None and slots_differ:
            return CERTAIN
        frame = Frame.of(decision, _filled(decision))
        bias = _bias(policy, frame, decision.request)
        if decision.rivals is None and _distinct(bias):
            return CERTAIN
        scores = decision.scores[0, frame.slots]
        rivals = 0 if decision.rivals is None else decision.rivals[0, frame.slots]
        # The first of equal ones had the others as rivals, listed or not.
        size = 1 + np.where(scores == scores[:, None], rivals, 0).max(axis=1, initial=0)
        return chances.ranked(frame, places(scores)[0], size, bias)

    def elsewhere(state: Any, decision: Decision) -> Chances:
        """Of a list that the policy did not make, from the scores of all items."""
        own = policy.decide(state, decision.request, ANY)
        frame = Frame.of(decision, _filled(own))
        bias = _bias(policy, frame, decision.request)
        if own.rivals is None and _distinct(bias):
            return chances.same(decision.items[0], own.items[0])
        scores = policy.scores(state, decision.request, ANY)(*_top(decision.request))
        return chances.by_scores(frame, scores[0], bias)

    why = {TopK: "", BySlotBias: ", the most seen slots first", BestLength: ", as many as it pays to show"}
    return Law(DETERMINISTIC, EXACT, f"the largest scores{why[type(plan)]}", find)


def _settled(policy: Policy[Any], why: str) -> Law:
    """The one list that is best; where others are as good, which of them is shown has no simple form."""

    def find(state: Any, decision: Decision) -> Chances | None:
        if decision.scores is not None:
            return CERTAIN if decision.rivals is None else None
        own = policy.decide(state, decision.request, ANY)
        return chances.same(decision.items[0], own.items[0]) if own.rivals is None else None

    return Law(DETERMINISTIC, MONTE_CARLO, why, find)


def _drawn(rule: Thompson, still: Law) -> Law:
    """Parameters are drawn; where their spread is 0 they are not."""

    def find(state: Any, decision: Decision) -> Chances | None:
        return None if np.asarray(rule.spread(state.t)).any() else still.chances(state, decision)

    return Law(MONTE_CARLO, "", "parameters are drawn; with spread 0 as if they were not", find)


def _epsilon(epsilon: float, rule: Law) -> Law:
    """Random scores for the whole list, or else the rule's; a score does not tell which of them it is."""

    def find(state: Any, decision: Decision) -> Chances | None:
        shown = Decision(decision.items, decision.rows, decision.request)
        return _mixture(epsilon, chances.even(Frame.of(shown)), rule, state, shown)

    kind = EXACT if rule.kind == DETERMINISTIC else rule.kind
    return Law(kind, rule.ties, f"with probability {epsilon:g} a random list, otherwise {rule.why}", find)


def _at_times(policy: RandomLists[Any], otherwise: Law) -> Law:
    """Random lists with a chance that depends on the round."""
    chance: Any = getattr(policy.when, "chance", None)
    if chance is None:
        return _unknown("nothing is known of when its lists are random")
    draw = chances.any_length if policy.any_length else chances.even

    def find(state: Any, decision: Decision) -> Chances | None:
        p = float(chance(state.t)[0])
        if p == 0.0:
            return otherwise.chances(state, decision)
        return _mixture(p, draw(Frame.of(decision)), otherwise, state, decision)

    in_the_end = float(chance(np.array([2**62]))[0])
    kind = EXACT if otherwise.kind == DETERMINISTIC and in_the_end > 0.0 else otherwise.kind
    length = " of random length" if policy.any_length else ""
    why = f"{policy.when} a random list{length} (exact), otherwise {otherwise.why}"
    return Law(kind, otherwise.ties, why, find)


def _kept(policy: EpochRepeat[Any], new: Law) -> Law:
    """A list that is shown again until nobody clicks."""

    def find(state: Any, decision: Decision) -> Chances | None:
        k = decision.request.k
        if decision.scores is None and policy.kept(state, decision.request)[0]:
            return chances.same(decision.items[0], state.items[0, :k])
        return new.chances(state.inner, decision)

    return replace(new, why=f"a list is kept until nobody clicks; a new one: {new.why}", chances=find)


def _mixture(chance: float, even: Chances, law: Law, state: Any, decision: Decision) -> Chances | None:
    if chance >= 1.0:
        return even
    own = law.chances(state, decision)
    return None if own is None else chances.mixed(chance, even, own)


def _top(request: Request) -> tuple[IntArray, int]:
    """The first slot that a planner asks about, and what stands above it, [1, slot]."""
    if request.pinned is None:
        return np.empty((1, 0), dtype=np.int64), 0
    free = np.flatnonzero(request.pinned == EMPTY)
    slot = int(free[0]) if free.size else 0
    return request.pinned[None, :slot], slot


def _rows(policy: Policy[Any], request: Request) -> Rows:
    return policy.design.rows(request, *_top(request))


def _bias(policy: Policy[Any], frame: Frame, request: Request) -> FloatArray | None:
    """Of the slots that are filled, [n], where the planner minds it."""
    bias: FloatArray | None = getattr(policy.plan, "bias", None)
    if bias is None:
        return None
    moved = request.slots is not None and request.pinned is None
    return bias[request.slots][frame.slots] if moved else bias[frame.slots]


def _distinct(bias: FloatArray | None) -> bool:
    return bias is None or len(np.unique(bias)) == len(bias)


def _filled(decision: Decision) -> int:
    """How many slots the planner filled."""
    pinned = decision.request.pinned
    held = 0 if pinned is None else np.count_nonzero(pinned != EMPTY)
    return int(np.count_nonzero(decision.items[0] != EMPTY) - held)
