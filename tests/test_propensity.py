"""Propensities: exact ones against enumeration of all there is to draw, and against 20,000 decisions."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, permutations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from rankloop import catalogue
from rankloop.belief import PairwiseOrder
from rankloop.belief.base import EstimateState, Estimating, HasMean
from rankloop.design import PerItem
from rankloop.errors import InvalidInput
from rankloop.eventlog.events import DecisionMade, decode
from rankloop.explore import Blocks, EpsilonList, Greedy, Thompson
from rankloop.feedback import Cascade, SemiBandit
from rankloop.math.assignment import assign
from rankloop.objective import Amount
from rankloop.plan import Assignment, BestLength, BySlotBias, GreedyBySlot, Plan, Planner, TopK, Uniform
from rankloop.policy import Policy, PolicyState
from rankloop.propensity import DETERMINISTIC, DETERMINISTIC_PROPENSITY, EXACT, MONTE_CARLO, Propensity, estimate, of
from rankloop.ranking_policy import RankingPolicy
from rankloop.types import (
    EMPTY,
    BetaPrior,
    BoolArray,
    Decision,
    Evidence,
    FloatArray,
    IntArray,
    Request,
    Rows,
    Score,
    Setting,
    SlotScore,
)
from rankloop.wrappers import RandomLists, RandomListSchedule, before_round, with_probability

MANY = 20_000
"""Decisions that a probability is compared with; it is off by more than 4 standard errors for one in 16,000."""

L, K = 5, 3

List = tuple[int, ...]
Chance = Mapping[List, float]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


# ---------------------------------------------------------------------------- what there is to draw, one by one


def frame(request: Request) -> tuple[list[int], list[int]]:
    """Free slots, and items that they may show."""
    may = np.ones(request.items, dtype=bool) if request.allowed is None else request.allowed.reshape(-1)
    pinned = [EMPTY] * request.k if request.pinned is None else request.pinned.tolist()
    return [s for s in range(request.k) if pinned[s] == EMPTY], [
        i for i in range(request.items) if may[i] and i not in pinned
    ]


def around(request: Request, filled: Mapping[int, int]) -> List:
    """The list with these items in these slots, and what is pinned in the others."""
    pinned = [EMPTY] * request.k if request.pinned is None else request.pinned.tolist()
    return tuple(filled.get(slot, pinned[slot]) for slot in range(request.k))


def every_ranking(
    request: Request, scores: Sequence[float], bias: Sequence[float] | None = None, length: int | None = None
) -> Chance:
    """All orders of the items and of the slots, both sorted: how often each list comes out."""
    free, may = frame(request)
    slots = free[: min(len(may), len(free) if length is None else length)]
    found: Counter[List] = Counter()
    for order in permutations(may):
        ranking = sorted(order, key=lambda item: -scores[item])
        for ordered in permutations(slots) if bias is not None else [slots]:
            places = ordered if bias is None else sorted(ordered, key=lambda slot: -bias[slot])
            found[around(request, dict(zip(places, ranking, strict=False)))] += 1
    return {row: count / found.total() for row, count in found.items()}


def every_length(request: Request) -> Chance:
    """All lists, each cut at all lengths."""
    found: dict[List, float] = defaultdict(float)
    free, _ = frame(request)
    for row, chance in every_ranking(request, [0.0] * request.items).items():
        most = sum(item != EMPTY for item in row)
        for length in range(most + 1):
            cut = tuple(EMPTY if s >= length and s in free else item for s, item in enumerate(row))
            found[cut] += chance / (most + 1)
    return found


def every_line(request: Request, level: FloatArray, slope: FloatArray) -> Chance:
    """Between all points where two lines cross, the rankings of one point."""
    crossings = {
        (level[i] - level[j]) / (slope[j] - slope[i])
        for i, j in permutations(range(request.items), 2)
        if slope[i] != slope[j]
    }
    ends = [-40.0, *sorted(z for z in crossings if abs(z) < 40.0), 40.0]
    found: dict[List, float] = defaultdict(float)
    for low, high in pairwise(ends):
        between = norm.cdf(high) - norm.cdf(low) if low < 0 else norm.sf(low) - norm.sf(high)
        middle = (low + high) / 2
        # Equal lines have equal heights; lines that cross nearby do not, if the middle is not a crossing itself.
        for row, chance in every_ranking(request, (level + middle * slope).tolist()).items():
            found[row] += chance * between
    return found


def mixture(epsilon: float, one: Chance, other: Chance) -> Chance:
    return {row: epsilon * one.get(row, 0.0) + (1 - epsilon) * other.get(row, 0.0) for row in {*one, *other}}


def every_list(request: Request) -> list[List]:
    """All lists that anybody could think of: allowed items, each once, and empty slots anywhere."""
    may = range(request.items) if request.allowed is None else np.flatnonzero(request.allowed.reshape(-1)).tolist()
    rows = product([EMPTY, *may], repeat=request.k)
    return [row for row in rows if len(shown := [i for i in row if i != EMPTY]) == len(set(shown))]


def table(policy: RankingPolicy[Any], state: Any, request: Request) -> dict[List, Propensity]:
    """The propensity of every list."""
    law, found = policy.list_distribution(), {}
    for row in every_list(request):
        shown = np.array(row, dtype=np.int64)[None, :]
        likely = of(policy, state, policy.adopt(request, shown), law)
        assert likely is not None
        found[row] = likely
    return found


def assert_law(
    policy: RankingPolicy[Any], state: Any, request: Request, expected: Chance | None = None
) -> dict[List, float]:
    """The chances of all lists are as expected, add up to 1, and prefixes and slots are sums of them."""
    found = table(policy, state, request)
    chance = {row: 1.0 if one.list is None else one.list for row, one in found.items()}
    if expected is not None:
        assert set(expected) <= set(chance)
        for row, value in chance.items():
            assert value == pytest.approx(expected.get(row, 0.0), rel=1e-9, abs=1e-14), row
    assert sum(chance.values()) == pytest.approx(1.0, abs=1e-12)
    begins: dict[List, float] = defaultdict(float)
    shows: dict[tuple[int, int], float] = defaultdict(float)
    for row, value in chance.items():
        for j in range(request.k):
            begins[row[: j + 1]] += value
            shows[j, row[j]] += value
    for row, one in found.items():
        if one.kind == DETERMINISTIC:
            assert one is DETERMINISTIC_PROPENSITY
            assert chance[row] == 1.0
            continue
        assert one.kind == EXACT
        assert one.draws == 0
        assert (one.list_error, one.prefix_error, one.slot_error) == (None, None, None)
        assert one.prefix is not None
        assert one.slot is not None
        assert one.prefix.shape == one.slot.shape == (request.k,)
        np.testing.assert_allclose(one.prefix, [begins[row[: j + 1]] for j in range(request.k)], rtol=1e-9, atol=1e-14)
        np.testing.assert_allclose(one.slot, [shows[j, row[j]] for j in range(request.k)], rtol=1e-9, atol=1e-14)
    return chance


def agree(one: Propensity | None, other: Propensity | None) -> None:
    """The same kind and numbers."""
    assert one is not None
    assert other is not None
    assert one.kind == other.kind
    if one.kind != DETERMINISTIC:
        for name in ("list", "prefix", "slot"):
            np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-9)


def assert_drawn(lists: IntArray, chance: Chance) -> None:
    """As often as it is likely, each within 4 standard errors."""
    counts = Counter(tuple(row) for row in lists.tolist())
    for row in {*counts, *chance}:
        p = chance.get(row, 0.0)
        error = (max(p * (1 - p), 0.0) / len(lists)) ** 0.5
        assert abs(counts[row] / len(lists) - p) <= 4 * error + 1e-12, row


def repeated(policy: RankingPolicy[Any], state: Any, times: int) -> Any:
    """This number of learners in the same state."""
    many = policy.init(times)
    many.assign({name: np.repeat(array, times, axis=0) for name, array in state.arrays()})
    return many


def many_lists(policy: RankingPolicy[Any], state: Any, request: Request, seed: int = 1) -> IntArray:
    """What 20,000 learners in this state show."""
    context = None if request.context is None else np.repeat(request.context, MANY, axis=0)
    asked = replace(request, learners=MANY, context=context)
    return policy.decide(repeated(policy, state, MANY), asked, rng(seed)).items


# ---------------------------------------------------------------------------- small requests and policies

FLOATS = st.sampled_from([0.0, 0.25, 0.5, 1.0])


@st.composite
def requests(draw: st.DrawFn, items: int = L) -> Request:
    """At most 5 items and 3 slots, some items not allowed, some slots pinned."""
    k = draw(st.integers(0, K))
    allowed = None
    if draw(st.booleans()):
        allowed = np.array(draw(st.lists(st.booleans(), min_size=items, max_size=items)), dtype=np.bool_)
        if draw(st.booleans()):
            allowed = allowed[None, :]
    pinned = None
    if draw(st.booleans()):
        may = list(range(items)) if allowed is None else np.flatnonzero(allowed.reshape(-1)).tolist()
        pins = draw(st.permutations([*may, *[EMPTY] * k]))[:k]
        pinned = np.array(pins, dtype=np.int64)
    return Request(1, items, k, allowed=allowed, pinned=pinned)


@dataclass
class GivenState(EstimateState):
    """Numbers that never change."""

    estimate: FloatArray  # [B, L]

    def mean(self, rows: Rows) -> FloatArray:
        return self.estimate[:, rows.model]


@dataclass(frozen=True)
class GivenEstimates(Estimating[GivenState]):
    """Learns nothing."""

    items: int
    binary = False
    fractional = True

    def init(self, learners: int) -> GivenState:
        return GivenState(np.zeros((learners, self.items)))

    def update(self, state: GivenState, decision: Decision, evidence: Evidence) -> None:
        return None


def by_estimate(
    estimates: Sequence[float], plan: Planner | None = None, explore: Any = None
) -> tuple[Policy[Any], PolicyState[GivenState]]:
    """A greedy policy with these estimates."""
    policy = Policy(
        PerItem(), GivenEstimates(len(estimates)), Greedy() if explore is None else explore, plan or TopK(), Cascade()
    )
    state: Any = policy.init(1)
    state.belief.estimate[0] = estimates
    return policy, state


ESTIMATES = st.lists(FLOATS, min_size=L, max_size=L)


# ---------------------------------------------------------------------------- laws, against enumeration


@given(requests())
@settings(deadline=None, max_examples=60)
def test_uniform_lists_are_equally_likely(request: Request) -> None:
    policy = catalogue.build("random", Setting(L, K))
    assert_law(policy, policy.init(1), request, every_ranking(request, [0.0] * L))


@given(requests(), ESTIMATES)
@settings(deadline=None, max_examples=80)
def test_ties_of_a_rule_without_chance_are_fair_draws(request: Request, estimates: list[float]) -> None:
    policy, state = by_estimate(estimates)
    chance = assert_law(policy, state, request, every_ranking(request, estimates))
    for seed in range(5):
        decision = policy.decide(state, request, rng(seed))
        likely = of(policy, state, decision)
        agree(likely, of(policy, state, policy.adopt(request, decision.items)))
        assert (likely is DETERMINISTIC_PROPENSITY) == (chance[tuple(decision.items[0].tolist())] == 1.0)


@given(requests(), ESTIMATES, st.lists(FLOATS, min_size=K, max_size=K))
@settings(deadline=None, max_examples=80)
def test_equal_slots_are_fair_draws_too(request: Request, estimates: list[float], bias: list[float]) -> None:
    policy, state = by_estimate(estimates, BySlotBias(np.array(bias)))
    chance = assert_law(policy, state, request, every_ranking(request, estimates, bias))
    for seed in range(5):
        decision = policy.decide(state, request, rng(seed))
        agree(of(policy, state, decision), of(policy, state, policy.adopt(request, decision.items)))
        assert chance[tuple(decision.items[0].tolist())] > 0.0


def test_slots_of_the_page_that_are_asked_for_have_their_own_bias() -> None:
    bias = np.array([0.5, 0.2, 0.5])
    policy, state = by_estimate([3.0, 2.0, 1.0], BySlotBias(bias))
    assert_law(policy, state, Request(1, 3, 2, slots=np.array([0, 2])), {(0, 1): 0.5, (1, 0): 0.5})
    assert_law(policy, state, Request(1, 3, 2, slots=np.array([1, 2])), {(1, 0): 1.0})


@given(requests(), ESTIMATES, st.lists(FLOATS, min_size=K, max_size=K))
@settings(deadline=None, max_examples=60)
def test_equal_items_do_not_change_where_a_list_is_cut(
    request: Request, estimates: list[float], losses: list[float]
) -> None:
    policy, state = by_estimate(estimates, BestLength(TopK(), np.ones(K), np.array([0.0, *losses])))
    length = _free_length(policy.decide(state, request, rng(0)))
    assert_law(policy, state, request, every_ranking(request, estimates, length=length))
    decision = policy.decide(state, request, rng(1))
    agree(of(policy, state, decision), of(policy, state, policy.adopt(request, decision.items)))


def _free_length(decision: Decision) -> int:
    pinned = decision.request.pinned
    return int((decision.items != EMPTY).sum() - (0 if pinned is None else (pinned != EMPTY).sum()))


@given(requests(), st.lists(st.integers(0, 2), min_size=L, max_size=L), st.sampled_from([None, [0.5, 1.0, 0.5]]))
@settings(deadline=None, max_examples=80)
def test_blocks_are_shuffled_and_come_in_order(request: Request, level: list[int], bias: list[float] | None) -> None:
    plan = TopK() if bias is None else BySlotBias(np.array(bias))
    policy = Policy(PerItem(), PairwiseOrder(L, 0.1), Blocks(), plan, SemiBandit())
    state: Any = policy.init(1)
    state.belief.level[0] = level
    assert_law(policy, state, request, every_ranking(request, [-float(one) for one in level], bias))


@given(
    requests(4),
    st.lists(st.sampled_from([(0, 0), (0, 2), (1, 1), (1, 3), (2, 2), (3, 0)]), min_size=4, max_size=4),
    st.integers(1, 99),
)
@settings(deadline=None, max_examples=80)
def test_lists_that_share_their_noise_are_intervals_of_it(
    request: Request, seen: list[tuple[int, int]], t: int
) -> None:
    policy = catalogue.build("ts-cascade", Setting(4, K))
    state: Any = policy.init(1)
    state.t[0] = t
    clicks, more = np.array(seen, dtype=float).T
    state.belief.clicks[0], state.belief.exposure[0] = clicks, clicks + more
    tally = state.belief.tally(Rows(slice(None)))
    slope = policy.explore.sd(tally, state.t)[0]  # type: ignore[attr-defined]
    assert_law(policy, state, request, every_line(request, tally.mean[0], slope))


def test_rare_lists_of_shared_noise_keep_their_digits() -> None:
    """Item 1 leads only where Z > 9: the probability is 1e-19, and not what is left of 1."""
    policy = catalogue.build("ts-cascade", Setting(2, 1))
    policy = replace(policy, explore=replace(policy.explore, sd=lambda tally, t: np.array([[0.0, 0.1]])))  # type: ignore[type-var,attr-defined]
    state: Any = policy.init(1)
    state.belief.clicks[0], state.belief.exposure[0] = [9.0, 0.0], [10.0, 10.0]
    likely = of(policy, state, policy.adopt(Request(1, 2, 1), [[1]]))
    assert likely is not None
    assert likely.list == pytest.approx(norm.sf(9.0), rel=1e-9)


@given(requests(), ESTIMATES, st.sampled_from([0.0, 0.3, 1.0]))
@settings(deadline=None, max_examples=60)
def test_epsilon_lists_are_mixtures(request: Request, estimates: list[float], epsilon: float) -> None:
    even, own = every_ranking(request, [0.0] * L), every_ranking(request, estimates)
    policy, state = by_estimate(estimates, explore=EpsilonList(Greedy(), epsilon))
    expected = mixture(epsilon, even, own)
    assert_law(policy, state, request, expected)
    inner, _ = by_estimate(estimates)
    wrapped: RankingPolicy[Any] = RandomLists(inner, with_probability(epsilon))
    assert_law(wrapped, state, request, expected)
    short: RankingPolicy[Any] = RandomLists(inner, with_probability(epsilon), any_length=True)
    assert_law(short, state, request, mixture(epsilon, every_length(request), own))
    for made, seed in product((policy, wrapped, short), range(5)):
        decision = made.decide(state, request, rng(seed))
        agree(of(made, state, decision), of(made, state, made.adopt(request, decision.items)))


@given(requests(), st.booleans())
@settings(deadline=None, max_examples=40)
def test_a_warm_up_is_random_and_then_over(request: Request, any_length: bool) -> None:
    estimates = [0.1, 0.5, 0.3, 0.3, 0.2]
    inner, state = by_estimate(estimates)
    policy = RandomLists(inner, before_round(3), any_length)
    even = every_length(request) if any_length else every_ranking(request, [0.0] * L)
    assert_law(policy, state, request, even)
    state.t[0] = 3
    assert_law(policy, state, request, every_ranking(request, estimates))


@given(
    st.integers(1, 4).flatmap(
        lambda k: st.lists(st.lists(st.integers(0, 3), min_size=4, max_size=4), min_size=k, max_size=k)
    )
)
@settings(deadline=None, max_examples=300)
def test_a_matching_is_the_only_one_if_no_other_is_as_good(gains: list[list[int]]) -> None:
    for scale in (1.0, 1e-3, 1e6 / 3):
        weights = scale * np.array(gains, dtype=float)[None]
        chosen, sole = np.empty((1, len(gains)), dtype=np.int64), np.empty(1, dtype=np.bool_)
        assign(weights, chosen, sole)
        totals = Counter(sum(gains[k][i] for k, i in enumerate(row)) for row in permutations(range(4), len(gains)))
        assert sole[0] == (totals[max(totals)] == 1)


@pytest.mark.parametrize("whole", [256, 0])
def test_a_matching_that_is_not_the_only_one_is_not_certain(whole: int) -> None:
    """Scores do not depend on the slot: any order of two items is as good, and so is any of two equal items."""
    for estimates, k, only in (([3.0, 2.0, 1.0], 1, True), ([3.0, 2.0, 1.0], 2, False), ([3.0, 3.0, 1.0], 1, False)):
        policy, state = by_estimate(estimates, Assignment(Amount(), max_full_items=whole))
        decision = policy.decide(state, Request(1, 3, k), rng())
        assert of(policy, state, decision) is (DETERMINISTIC_PROPENSITY if only else None)
        adopted = policy.adopt(Request(1, 3, k), decision.items)
        assert of(policy, state, adopted) is (DETERMINISTIC_PROPENSITY if only else None)


@given(requests(), ESTIMATES)
@settings(deadline=None, max_examples=40)
def test_what_is_filled_slot_by_slot_is_certain_unless_it_ties(request: Request, estimates: list[float]) -> None:
    policy, state = by_estimate(estimates, GreedyBySlot())
    lists = every_ranking(request, estimates)
    assert of(policy, state, policy.decide(state, request, rng())) is (
        DETERMINISTIC_PROPENSITY if len(lists) == 1 else None
    )
    if len(lists) == 1:
        assert_law(policy, state, request, lists)


# ---------------------------------------------------------------------------- never made up


class Own(TopK):
    """A custom planner whose lists differ from the closed forms of its base class."""

    def __call__(self, score: SlotScore, request: Request, rng: np.random.Generator) -> Plan:
        return super().__call__(score, request, rng)


class OwnRule(Greedy):
    """A custom exploration rule."""

    def __call__(self, state: HasMean, t: IntArray, rng: np.random.Generator) -> Score:
        return state.mean


class Sometimes(RandomListSchedule):
    """A custom warm-up without a stated probability."""

    def __call__(self, t: IntArray, rng: np.random.Generator) -> BoolArray:
        return np.asarray(t < 5)


@pytest.mark.parametrize(
    "change",
    [
        lambda policy: replace(policy, plan=Own()),
        lambda policy: replace(policy, plan=BestLength(Uniform(), np.ones(2), np.zeros(3))),
        lambda policy: replace(policy, plan=BestLength(BySlotBias(np.ones(2)), np.ones(2), np.zeros(3))),
        lambda policy: replace(policy, explore=OwnRule()),
        lambda policy: replace(policy, explore=EpsilonList(Greedy(), 0.5), plan=Assignment(Amount())),
        lambda policy: replace(policy, explore=EpsilonList(Thompson(), 0.5)),
        lambda policy: RandomLists(policy, Sometimes()),
    ],
)
def test_nothing_is_said_of_what_is_not_known(change: Callable[[Policy[Any]], RankingPolicy[Any]]) -> None:
    policy, state = by_estimate([0.1, 0.2, 0.3])
    changed = change(policy)
    assert changed.list_distribution().kind == MONTE_CARLO
    shown = policy.adopt(Request(1, 3, 2), [[2, 1]])
    assert of(changed, state, shown) is None


def test_a_list_of_several_learners_is_refused() -> None:
    policy = catalogue.build("random", Setting(L, K))
    state = policy.init(2)
    with pytest.raises(InvalidInput, match="the list of one learner"):
        of(policy, state, policy.decide(state, Request(2, L, K), rng()))


def test_counting_where_ties_decided_comes_to_the_exact_numbers() -> None:
    """A rule without chance that knows nothing yet: 1/3 and 1/6, and no claim that they are 1."""
    policy = catalogue.build("cascade-ucb1", Setting(3, 2))
    state: Any = policy.init(1)
    decision = policy.decide(state, Request(1, 3, 2), rng())
    exact, counted = of(policy, state, decision), estimate(policy, state, decision, rng(71), 4000)
    assert exact is not None
    assert (exact.kind, counted.kind) == (EXACT, MONTE_CARLO)
    assert exact.prefix == pytest.approx([1 / 3, 1 / 6])
    assert exact.slot == pytest.approx([1 / 3, 1 / 3])
    assert counted.slot is not None
    assert counted.slot_error is not None
    assert (np.abs(counted.slot - 1 / 3) < 4 * counted.slot_error).all()
    state.belief.exposure[0] = state.belief.shown[0] = [4.0, 4.0, 4.0]
    state.belief.clicks[0] = [3.0, 2.0, 1.0]
    assert (
        estimate(policy, state, policy.decide(state, Request(1, 3, 2), rng()), rng(71), 10) is DETERMINISTIC_PROPENSITY
    )


# ---------------------------------------------------------------------------- every policy of the catalogue

FEATURES = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0], [0.8, 0.6], [0.8, 0.6]])  # the last two are equal
SETTING = Setting(
    L,
    K,
    rounds=100,
    dim=2,
    prior=BetaPrior(np.array([1.0, 2.0, 1.0, 2.0, 2.0]), np.array([2.0, 2.0, 4.0, 4.0, 4.0])),
    bias=np.array([0.9, 0.3, 0.6]),
    context=2,
    coverage=2,
)
POLICIES = pytest.mark.parametrize("id", [entry.id for entry in catalogue.entries()])


def asked(learners: int = 1, k: int = K, **fields: Any) -> Request:
    return Request(learners, L, k, FEATURES, np.tile([0.3, -0.5], (learners, 1)), FEATURES**2, **fields)


REQUESTS = {
    "all": asked(),
    "some": asked(k=2, allowed=np.array([True, False, True, True, True])),
    "few": asked(allowed=np.array([False, False, False, True, True])),
    "pinned": asked(pinned=np.array([EMPTY, 1, EMPTY])),
    "nothing": asked(k=0),
}


def taught(id: str, rounds: int, **params: Any) -> tuple[RankingPolicy[Any], Any]:
    """A policy of the catalogue after some random lists, clicked at random."""
    policy = catalogue.build(id, SETTING, **params)
    state, draw = policy.init(1), rng(rounds)
    for _ in range(rounds):
        items = draw.permutation(L)[None, :K]
        clicks = np.zeros((1, K))
        clicks[0, draw.integers(K)] = draw.random() < 0.5
        policy.learn(state, policy.adopt(asked(), items), clicks)
    return policy, state


@POLICIES
@pytest.mark.parametrize("rounds", [0, 6, 40])
def test_every_policy_says_what_is_true(id: str, rounds: int) -> None:
    """Exact probabilities match 20,000 decisions, deterministic lists do not depend on the seed, others are unknown."""
    policy, state = taught(id, rounds)
    law = policy.list_distribution()
    for name, request in REQUESTS.items():
        decisions = [policy.decide(state, request, rng(seed)) for seed in range(20)]
        said = [of(policy, state, decision, law) for decision in decisions]
        kinds = {None if one is None else one.kind for one in said}
        assert len(kinds) == 1, "in one state, either all lists have a closed form or none has"
        kind = kinds.pop()
        if kind == DETERMINISTIC:
            assert all((one.items == decisions[0].items).all() for one in decisions)
        elif kind == EXACT:
            chance = assert_law(policy, state, request)
            assert_drawn(many_lists(policy, state, request), chance)
            for decision, one in zip(decisions, said, strict=True):
                agree(one, of(policy, state, policy.adopt(request, decision.items), law))
        else:
            assert law.kind == MONTE_CARLO or (law.ties == MONTE_CARLO and decisions[0].rivals is not None), name
        if law.kind == EXACT:
            assert kind == EXACT
        if law.kind == MONTE_CARLO:
            assert (kind is None) == _spread(policy, state)


def _spread(policy: Any, state: Any) -> bool:
    return bool(np.any(policy.explore.spread(state.t)))


@POLICIES
def test_every_policy_is_in_the_table_as_the_code_has_it(id: str) -> None:
    page = (Path(__file__).parent.parent / "docs" / "explanation" / "propensity.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([a-z0-9-]+)` \| (.*) \|$", page.split("propensities:start")[1], flags=re.MULTILINE))
    law = catalogue.build(id, SETTING).list_distribution()
    assert rows[id] == f"{law.kind} | {law.ties or '–'} | {law.why}"
    assert set(rows) == {entry.id for entry in catalogue.entries()}


@pytest.mark.parametrize(
    ("id", "params", "kind"),
    [
        ("lin-ts-ltr", {"scale": 0.0}, DETERMINISTIC),
        ("cascade-ucb1", {"every": 10}, DETERMINISTIC),
        ("toprank", {"every": 10}, EXACT),
        ("eps-ind", {"every": 10}, EXACT),
        ("ucr", {"every": 10, "fit": "mle"}, DETERMINISTIC),
        ("eps-ind", {"eps": 1.0}, EXACT),
        ("gts", {"every": 10}, None),
    ],
)
def test_parameters_and_wrappers_change_what_is_random(id: str, params: dict[str, Any], kind: str | None) -> None:
    policy, state = taught(id, 40, **params)
    request = asked(allowed=np.array([True, True, True, True, False]))  # of two equal items one
    decision = policy.decide(state, request, rng())
    likely = of(policy, state, decision)
    assert (None if likely is None else likely.kind) == kind
    if kind == EXACT:
        assert_drawn(many_lists(policy, state, request), assert_law(policy, state, request))
    if kind == DETERMINISTIC:
        assert (many_lists(policy, state, request) == decision.items).all()


@pytest.mark.parametrize("id", ["epoch-ucb", "mnl-bandit", "epoch-ucb-upb"])
def test_a_list_that_is_kept_is_certain_and_one_that_cannot_be_is_not(id: str) -> None:
    policy, state = taught(id, 0)
    decision = policy.decide(state, asked(), rng())
    policy.learn(state, decision, [[0.0, 1.0, 0.0]])
    again = policy.decide(state, asked(), rng(1))
    assert (again.items == decision.items).all()
    assert of(policy, state, again) is DETERMINISTIC_PROPENSITY
    other = of(policy, state, policy.adopt(asked(), np.roll(decision.items, 1, axis=1)))
    assert other is not None
    assert (other.kind, other.list) == (EXACT, 0.0)
    without = np.arange(L) != decision.items[0, 0]
    new = policy.decide(state, asked(allowed=without), rng(2))
    assert of(policy, state, new) is not DETERMINISTIC_PROPENSITY  # items that were never shown tie


def test_equal_biases_of_a_policy_are_fair_draws() -> None:
    """One decision after the other: learners of a batch share the order of equal slots."""
    policy = catalogue.build("pbm-ucb", replace(SETTING, bias=np.array([0.5, 0.9, 0.5])))
    state: Any = policy.init(1)
    state.t[0] = 5
    state.belief.clicks[0], state.belief.exposure[0] = [1.0, 2.0, 2.0, 2.0, 0.5], 4.0
    state.belief.shown[0] = 4.0
    lists = np.concatenate([policy.decide(state, asked(), rng(seed)).items for seed in range(4000)])
    assert_drawn(lists, assert_law(policy, state, asked()))
    assert policy.list_distribution().kind == DETERMINISTIC


@pytest.mark.parametrize("request_", [asked(), asked(k=0)], ids=["list", "empty"])
def test_exact_propensities_are_kept_in_the_log(request_: Request) -> None:
    policy, state = taught("toprank", 6)
    decision = policy.decide(state, request_, rng())
    likely = of(policy, state, decision)
    assert likely is not None
    shown = DecisionMade(0.0, "a", 1, "", decision.items[0], None, None, None, (), likely)
    read = decode(shown.entry())
    assert isinstance(read, DecisionMade)
    assert read.propensity is not None
    for name in likely.__dataclass_fields__:
        ours, theirs = getattr(likely, name), getattr(read.propensity, name)
        assert np.array_equal(ours, theirs) if isinstance(ours, np.ndarray) else ours == theirs
