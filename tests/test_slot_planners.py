"""Planners for slots that differ, against exhaustive search; designs, against arithmetic."""

from __future__ import annotations

import math
from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from scipy.special import expit, logit

from helpers import agree, assert_uniform, count_lists
from rankloop.design import Coverage, Interaction, PerItemSlot, Positional
from rankloop.errors import InvalidInput
from rankloop.objective import Amount, AnyClick, Clicks, Objective, Revenue
from rankloop.plan import Assignment, BestLength, BySlotBias, GreedyBySlot, Planner, TopK
from rankloop.plan.pinned import around_pins
from rankloop.plan.slots import best_length, values_by_length
from rankloop.types import EMPTY, BoolArray, FloatArray, IntArray, Request, SlotScore

NOTHING = np.empty((1, 0), dtype=np.int64)

WHOLE = pytest.mark.parametrize("whole", [4096, 0])
"""Matching all items, or only the best of each slot: the way it is done where items are many."""


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def by_slot(u: FloatArray) -> SlotScore:
    """Scores u [B, K, L] as a planner asks for them."""
    return lambda prefix, slot: u[:, slot]


def plain_gain(objective: Objective, u: float, item: int) -> float:
    """What an item with score u adds to a list, by the definition of the objective."""
    if isinstance(objective, AnyClick):
        return -math.log(1 - 1 / (1 + math.exp(-u)))
    if isinstance(objective, Clicks):
        return 1 / (1 + math.exp(-u))
    if isinstance(objective, Revenue):
        return float(objective.prices[item]) / (1 + math.exp(-u))
    return max(u, 0.0)


def objectives(items: int, seed: int) -> list[Objective]:
    return [AnyClick(), Clicks(), Revenue(rng(seed).uniform(0.0, 5.0, items)), Amount()]


def total(objective: Objective, u: FloatArray, items: tuple[int, ...]) -> float:
    """The gain of a list under scores u [K, L]."""
    return math.fsum(plain_gain(objective, float(u[k, i]), i) for k, i in enumerate(items))


def assert_matching(row: list[int], allowed: list[bool]) -> None:
    """Distinct allowed items in the first slots, as many as there can be, -1 in the others."""
    n = min(len(row), sum(allowed))
    assert all(0 <= i < len(allowed) and allowed[i] for i in row[:n])
    assert len(set(row[:n])) == n
    assert row[n:] == [EMPTY] * (len(row) - n)


# ---------------------------------------------------------------------------- assignment


@WHOLE
@given(
    L=st.integers(1, 6), k=st.integers(0, 8), mask=st.sampled_from(["all", "shared", "own"]), seed=st.integers(0, 10**6)
)
@settings(deadline=None, max_examples=100)
def test_assignment_equals_the_best_of_all_lists(whole: int, L: int, k: int, mask: str, seed: int) -> None:
    draw, B = rng(seed), 2
    u = draw.uniform(-3.0, 3.0, (B, k, L))
    allowed: BoolArray | None = None
    if mask != "all":
        allowed = draw.random(L if mask == "shared" else (B, L)) < 0.7
    may = np.broadcast_to(True if allowed is None else allowed, (B, L))
    request = Request(B, L, k, allowed=allowed)
    for objective in objectives(L, seed):
        kept = u.copy()
        plan = Assignment(objective, max_full_items=whole)(by_slot(u), request, rng(seed))
        assert u.tobytes() == kept.tobytes()
        assert plan.items.shape == (B, k)
        for b in range(B):
            row = plan.items[b].tolist()
            assert_matching(row, may[b].tolist())
            n = min(k, int(may[b].sum()))
            every = permutations(np.flatnonzero(may[b]).tolist(), n)
            best = max(total(objective, u[b], items) for items in every)
            assert total(objective, u[b], tuple(row[:n])) == pytest.approx(best, rel=1e-12, abs=1e-12)
            assert plan.scores[b, :n].tolist() == [u[b, slot, row[slot]] for slot in range(n)]


@WHOLE
@pytest.mark.parametrize("L, K", [(60, 10), (200, 5), (30, 30), (25, 1)])
def test_assignment_of_many_items_equals_scipys(L: int, K: int, whole: int) -> None:
    B = 4
    u = rng(L).normal(0.0, 2.0, (B, K, L))
    for objective in objectives(L, K):
        items = Assignment(objective, max_full_items=whole)(by_slot(u), Request(B, L, K), rng(1)).items
        for b in range(B):
            W = np.array([[plain_gain(objective, float(u[b, k, i]), i) for i in range(L)] for k in range(K)])
            slots, best = linear_sum_assignment(W, maximize=True)
            assert_matching(items[b].tolist(), [True] * L)
            agree(W[np.arange(K), items[b]].sum(), W[slots, best].sum(), 1e-12)


def test_assignment_of_large_log_odds_does_not_saturate() -> None:
    """σ(40) and σ(50) are the same double; softplus(40) = 40 + e⁻⁴⁰ and softplus(50) are not."""
    u = np.array([[[50.0, 40.0, 0.0], [45.0, 44.0, 0.0]]])
    # 50 + 44 = 94 against 40 + 45 = 85.
    assert Assignment(AnyClick())(by_slot(u), Request(1, 3, 2), rng()).items.tolist() == [[0, 1]]


def counted_first(u: FloatArray, items: tuple[int, ...]) -> tuple[int, float]:
    """How many gains of a list are infinite, and the sum of the others, for scores u [K, L] that are amounts."""
    gains = [max(float(u[k, i]), 0.0) for k, i in enumerate(items)]
    return sum(math.isinf(g) for g in gains), math.fsum(g for g in gains if not math.isinf(g))


@WHOLE
@given(L=st.integers(1, 6), k=st.integers(1, 6), share=st.floats(0.0, 1.0), seed=st.integers(0, 10**6))
@settings(deadline=None, max_examples=100)
def test_assignment_counts_infinite_gains_before_any_finite_one(
    whole: int, L: int, k: int, share: float, seed: int
) -> None:
    """First as many pairs never tried as a list can have."""
    draw, n = rng(seed), min(k, L)
    u = draw.uniform(0.0, 30.0, (1, k, L))
    u[draw.random(u.shape) < share] = np.inf
    row = Assignment(Amount(), max_full_items=whole)(by_slot(u), Request(1, L, k), rng(seed)).items[0].tolist()
    assert_matching(row, [True] * L)
    most = max(counted_first(u[0], items)[0] for items in permutations(range(L), n))
    assert counted_first(u[0], tuple(row[:n]))[0] == most


@WHOLE
@given(L=st.integers(1, 6), k=st.integers(1, 6), share=st.floats(0.0, 1.0), seed=st.integers(0, 10**6))
@settings(deadline=None, max_examples=100)
def test_assignment_of_lists_with_equally_many_infinite_gains_is_decided_by_the_finite_ones(
    whole: int, L: int, k: int, share: float, seed: int
) -> None:
    draw, n = rng(seed), min(k, L)
    u = draw.uniform(0.0, 30.0, (1, k, L))
    u[draw.random(u.shape) < share] = np.inf
    row = Assignment(Amount(), max_full_items=whole)(by_slot(u), Request(1, L, k), rng(seed)).items[0].tolist()
    most, best = max(counted_first(u[0], items) for items in permutations(range(L), n))
    found, finite = counted_first(u[0], tuple(row[:n]))
    assert found == most
    assert finite == pytest.approx(best, rel=1e-6, abs=1e-6)


def test_an_infinite_gain_comes_before_a_finite_one_of_another_slot_however_large() -> None:
    u = np.array([[[np.inf, 0.0], [1e9, 0.0]]])
    assert Assignment(Amount())(by_slot(u), Request(1, 2, 2), rng()).items.tolist() == [[0, 1]]


@WHOLE
def test_assignment_of_equal_scores_is_a_fair_choice_of_all_lists(whole: int) -> None:
    """24,000 learners and 5·4·3 = 60 lists; chi-square, fails for one seed in 10,000."""
    B, L, K = 24_000, 5, 3
    items = Assignment(AnyClick(), max_full_items=whole)(by_slot(np.zeros((B, K, L))), Request(B, L, K), rng(3)).items
    assert_uniform(count_lists(items, L))


@WHOLE
def test_assignment_breaks_a_tie_of_two_items_fairly(whole: int) -> None:
    """Items 1 and 2 have equal scores in both slots, item 0 belongs into slot 0; fails for one seed in 10,000."""
    u = np.broadcast_to(np.array([[5.0, 1.0, 1.0, 0.0], [0.0, 1.0, 1.0, 0.0]]), (10_000, 2, 4))
    lists = Counter(
        map(tuple, Assignment(Amount(), max_full_items=whole)(by_slot(u), Request(10_000, 4, 2), rng(4)).items.tolist())
    )
    assert set(lists) == {(0, 1), (0, 2)}
    assert_uniform(list(lists.values()))


@WHOLE
def test_assignment_to_equal_slots_is_a_fair_choice_of_all_orders(whole: int) -> None:
    """Where slots do not differ every order of the three best items is optimal; fails for one seed in 10,000."""
    u = np.broadcast_to(np.array([1.0, 2.0, 3.0, 4.0]), (12_000, 3, 4))
    lists = Counter(
        map(tuple, Assignment(Amount(), max_full_items=whole)(by_slot(u), Request(12_000, 4, 3), rng(5)).items.tolist())
    )
    assert set(lists) <= set(permutations([1, 2, 3]))
    assert_uniform([lists[order] for order in permutations([1, 2, 3])])


@WHOLE
def test_assignment_of_learners_with_different_numbers_of_allowed_items(whole: int) -> None:
    u = np.tile(np.array([[3.0, 2.0, 1.0], [3.0, 2.9, 0.0]]), (4, 1, 1))
    allowed = np.array([[True, True, True], [True, False, False], [False, True, True], [False, False, False]])
    items = Assignment(Amount(), max_full_items=whole)(by_slot(u), Request(4, 3, 2, allowed=allowed), rng()).items
    # All: 3 + 2.9 > 2 + 3. One: the first slot. Two: 1 + 2.9 > 2 + 0. None: nothing.
    assert items.tolist() == [[0, 1], [0, EMPTY], [2, 1], [EMPTY, EMPTY]]


@WHOLE
def test_assignment_of_no_slots_is_empty(whole: int) -> None:
    assert Assignment(Clicks(), max_full_items=whole)(
        by_slot(np.zeros((3, 0, 4))), Request(3, 4, 0), rng()
    ).items.shape == (
        3,
        0,
    )


# ---------------------------------------------------------------------------- by slot bias


def test_the_kth_largest_score_goes_into_the_slot_of_the_kth_largest_bias() -> None:
    scores = np.array([[0.1, 0.5, 0.3, 0.4, 0.2], [5.0, 4.0, 3.0, 2.0, 1.0]])
    plan = BySlotBias(np.array([0.4, 1.0, 0.7]))(lambda prefix, slot: scores, Request(2, 5, 3), rng())
    # Slots in order of attention: 1, 2, 0.
    assert plan.items.tolist() == [[2, 1, 3], [2, 0, 1]]
    assert plan.scores.tolist() == [[0.3, 0.5, 0.4], [3.0, 5.0, 4.0]]


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 10**6))
@settings(deadline=None)
def test_placement_by_bias_maximises_the_sum_of_bias_times_score(L: int, k: int, seed: int) -> None:
    """The rearrangement inequality, against all lists."""
    draw, k = rng(seed), min(k, L)
    bias, scores = draw.random(k), draw.random((1, L))
    row = BySlotBias(bias)(lambda prefix, slot: scores, Request(1, L, k), rng(seed)).items[0].tolist()
    best = max(float(bias @ scores[0, list(items)]) for items in permutations(range(L), k))
    agree(bias @ scores[0, row], best, 1e-12)


def test_equal_biases_share_their_items_fairly() -> None:
    """Slots 0 and 2 tie for the second place: item 1 is as often in either; fails for one seed in 10,000."""
    scores, draw = np.array([[3.0, 2.0, 1.0, 0.0]]), rng(6)
    plan = BySlotBias(np.array([0.5, 1.0, 0.5]))
    lists = Counter(tuple(plan(lambda p, s: scores, Request(1, 4, 3), draw).items[0].tolist()) for _ in range(4000))
    assert set(lists) == {(1, 0, 2), (2, 0, 1)}
    assert_uniform(list(lists.values()))


def test_placement_by_bias_with_fewer_slots_than_biases_and_fewer_items_than_slots() -> None:
    scores = np.array([[3.0, 2.0, 1.0]])
    plan = BySlotBias(np.array([0.5, 1.0, 0.8, 0.1]))
    assert plan(lambda p, s: scores, Request(1, 3, 2), rng()).items.tolist() == [[1, 0]]
    falling = BySlotBias(np.array([1.0, 0.5, 0.2, 0.1]))
    assert falling(lambda p, s: scores, Request(1, 3, 4), rng()).items.tolist() == [[0, 1, 2, EMPTY]]


# ---------------------------------------------------------------------------- length


def plain_value(p: list[float], rewards: list[float], losses: list[float]) -> float:
    """The reward of the first success, or the loss of a list of this length, times their probabilities."""
    value, failed = 0.0, 1.0
    for q, reward in zip(p, rewards, strict=False):
        value += failed * q * reward
        failed *= 1 - q
    return value + failed * losses[len(p)]


def scenario(seed: int, budget: int) -> tuple[FloatArray, FloatArray]:
    """Rewards that do not rise with the slot, and losses that are not gains."""
    draw = rng(seed)
    return np.sort(draw.random(budget))[::-1].copy(), -draw.random(budget + 1)


@given(st.integers(1, 6), st.integers(0, 6), st.integers(0, 10**6))
@settings(deadline=None, max_examples=100)
def test_sorting_and_cutting_equals_the_best_of_all_lists_of_all_lengths(L: int, budget: int, seed: int) -> None:
    """Lemma 1: with non-increasing rewards and non-positive losses, the best list is sorted by p and cut."""
    budget = min(L, budget)
    p = rng(seed + 1).random(L)
    rewards, losses = scenario(seed, budget)
    best = max(
        plain_value(p[list(items)].tolist(), rewards.tolist(), losses.tolist())
        for length in range(budget + 1)
        for items in permutations(range(L), length)
    )
    ordered = np.sort(p)[::-1][:budget]
    length = best_length(ordered[None, :], np.array([budget]), rewards, losses)
    assert length.shape == (1,)
    cut = plain_value(ordered[: int(length[0])].tolist(), rewards.tolist(), losses.tolist())
    assert cut == pytest.approx(best, rel=1e-12, abs=1e-12)
    every = values_by_length(ordered[None, :], rewards, losses)[0]
    agree(every, [plain_value(ordered[:s].tolist(), rewards.tolist(), losses.tolist()) for s in range(budget + 1)])


def test_ties_of_length_go_to_the_longest_list() -> None:
    # A sure success in slot 1 makes all longer lists worth its reward; without success all are worth 0.
    for p in ([1.0, 0.5, 0.5], [0.0, 0.0, 0.0]):
        length = best_length(np.array([p, p]), np.array([3, 2]), np.ones(3), np.zeros(4))
        assert length.tolist() == [3, 2]
    # Half a chance of winning 1 against half a chance of losing 1 is worth 0, as the empty list is.
    assert best_length(np.array([[0.5]]), np.array([1]), np.ones(1), np.array([0.0, -1.0])).tolist() == [1]


def test_a_budget_of_nothing_gives_the_empty_list() -> None:
    assert best_length(np.array([[0.9, 0.8]]), np.array([0]), np.ones(2), np.zeros(3)).tolist() == [0]
    plan = BestLength(TopK(), np.ones(3), np.zeros(4))
    assert plan(lambda p, s: np.ones((2, 5)), Request(2, 5, 0), rng()).items.shape == (2, 0)


def test_a_list_that_costs_more_than_it_brings_is_empty() -> None:
    # 0.2·1 - 0.8·1 = -0.6 < 0 with one slot; -0.28 with two: 0.2 + 0.16 - 0.64.
    u = np.array([[logit(0.2), logit(0.2)]])
    plan = BestLength(TopK(), np.ones(2), np.array([0.0, -1.0, -1.0]))
    assert plan(lambda p, s: u, Request(1, 2, 2), rng()).items.tolist() == [[EMPTY, EMPTY]]


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 10**6))
@settings(deadline=None, max_examples=100)
def test_best_length_around_top_k_equals_exhaustive_search(L: int, k: int, seed: int) -> None:
    B = 2
    u = rng(seed + 1).normal(0.0, 2.0, (B, L))
    allowed = rng(seed + 2).random((B, L)) < 0.8
    rewards, losses = scenario(seed, k)
    r, loss = rewards.tolist(), losses.tolist()
    request = Request(B, L, k, allowed=allowed)
    lists = BestLength(TopK(), rewards, losses)(lambda p, s: u, request, rng(seed)).items
    for b, row in enumerate(lists.tolist()):
        shown = [i for i in row if i != EMPTY]
        assert row == shown + [EMPTY] * (k - len(shown))
        may = np.flatnonzero(allowed[b]).tolist()
        best = max(
            plain_value([float(expit(u[b, i])) for i in items], r, loss)
            for length in range(min(k, len(may)) + 1)
            for items in permutations(may, length)
        )
        assert set(shown) <= set(may)
        assert plain_value([float(expit(u[b, i])) for i in shown], r, loss) == pytest.approx(best, rel=1e-9, abs=1e-12)


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 10**6))
@settings(deadline=None, max_examples=60)
def test_best_length_cuts_a_greedy_list_by_the_scores_it_was_made_of(L: int, k: int, seed: int) -> None:
    """An item's score depends on how many stand above it, so the cut needs the score of its own slot."""
    u = rng(seed + 1).normal(0.0, 2.0, (1, k, L))
    rewards, losses = scenario(seed, k)
    whole = GreedyBySlot()(by_slot(u), Request(1, L, k), rng(seed)).items[0]
    shown = [int(i) for i in whole if i != EMPTY]
    p = [float(expit(u[0, slot, i])) for slot, i in enumerate(shown)]
    values = [plain_value(p[:s], rewards.tolist(), losses.tolist()) for s in range(len(p) + 1)]
    cut = BestLength(GreedyBySlot(), rewards, losses)(by_slot(u), Request(1, L, k), rng(seed)).items[0].tolist()
    length = len([i for i in cut if i != EMPTY])
    assert cut == shown[:length] + [EMPTY] * (k - length)
    assert values[length] == pytest.approx(max(values), rel=1e-12, abs=1e-12)


# ---------------------------------------------------------------------------- designs


def plain_addition(coverage: FloatArray, item: int, above: list[int]) -> FloatArray:
    """c̄ = (2c′-1)/√topics, c′ what the item covers and none above it does."""
    c = coverage[item].copy()
    for other in above:
        c = c * (1 - coverage[other])
    return np.asarray((2 * c - 1) / math.sqrt(coverage.shape[1]))


@pytest.mark.parametrize("own", [False, True])
def test_coverage_and_greedy_equal_a_plain_greedy_search(own: bool) -> None:
    B, L, K, topics = 5, 7, 4, 3
    table = rng(7).dirichlet(np.full(topics, 0.5), (B, L)) if own else rng(7).dirichlet(np.full(topics, 0.5), L)
    w = rng(8).normal(0.0, 2.0, (B, topics))
    request = Request(B, L, K, coverage=table)

    def score(prefix: IntArray, slot: int) -> FloatArray:
        x = Coverage().rows(request, prefix, slot).x
        assert x is not None
        assert x.shape == (B, L, topics)
        return np.asarray(np.matvec(x, w))

    lists = GreedyBySlot()(score, request, rng()).items
    for b in range(B):
        coverage = np.broadcast_to(table, (B, L, topics))[b]
        chosen: list[int] = []
        for _ in range(K):
            left = [i for i in range(L) if i not in chosen]
            worth = [float(plain_addition(coverage, i, chosen) @ w[b]) for i in left]
            chosen.append(left[worth.index(max(worth))])
        assert lists[b].tolist() == chosen


@given(st.integers(1, 6), st.integers(1, 5), st.booleans(), st.integers(0, 10**6))
@settings(deadline=None)
def test_picked_coverage_is_that_of_each_slot_when_it_was_filled(L: int, k: int, own: bool, seed: int) -> None:
    """Also with empty slots, which cover nothing."""
    draw, B, topics = rng(seed), 3, 4
    k = min(k, L)
    table = draw.random((B, L, topics) if own else (L, topics))
    request = Request(B, L, k, coverage=table)
    lists = draw.permuted(np.tile(np.arange(L), (B, 1)), axis=1)[:, :k]
    lists[draw.random(lists.shape) < 0.2] = EMPTY
    picked = Coverage().pick(request, lists)
    assert picked.x is not None
    assert picked.model == 0
    for slot in range(k):
        rows = Coverage().rows(request, lists[:, :slot], slot)
        assert rows.x is not None
        for b in range(B):
            if lists[b, slot] == EMPTY:
                continue
            agree(picked.x[b, slot], rows.x[b, lists[b, slot]], 1e-14)
            above = [int(i) for i in lists[b, :slot] if i != EMPTY]
            coverage = np.broadcast_to(table, (B, L, topics))[b]
            agree(picked.x[b, slot], plain_addition(coverage, int(lists[b, slot]), above), 1e-12)


def test_positional_rows_are_the_slot_counted_from_one_and_the_context() -> None:
    request = Request(2, 3, 2, context=np.array([[0.5, -1.0], [7.0, 8.0]]))
    rows = Positional(2).rows(request, NOTHING, 1)
    assert rows.x is not None
    assert rows.model == slice(None)
    assert np.broadcast_to(rows.x, (2, 3, 3)).tolist() == [[[2.0, 0.5, -1.0]] * 3, [[2.0, 7.0, 8.0]] * 3]
    picked = Positional(2).pick(request, np.array([[2, 0], [1, EMPTY]]))
    assert picked.x is not None
    assert isinstance(picked.model, np.ndarray)
    assert picked.model.tolist() == [[2, 0], [1, EMPTY]]
    assert picked.x.tolist() == [[[1.0, 0.5, -1.0], [2.0, 0.5, -1.0]], [[1.0, 7.0, 8.0], [2.0, 7.0, 8.0]]]


def test_interaction_rows_are_slot_context_features_and_all_their_products() -> None:
    x, y = [[2.0, 3.0]], [[5.0, 7.0], [11.0, 13.0]]
    request = Request(1, 2, 2, features=np.array(y), context=np.array(x))
    products = [[2 * 5.0, 2 * 7.0, 3 * 5.0, 3 * 7.0], [2 * 11.0, 2 * 13.0, 3 * 11.0, 3 * 13.0]]
    rows = Interaction(2).rows(request, NOTHING, 1)
    assert rows.x is not None
    assert rows.model == 0
    assert rows.x.tolist() == [[[2.0, *x[0], *y[i], *products[i]] for i in range(2)]]
    picked = Interaction(2).pick(request, np.array([[1, 0]]))
    assert picked.x is not None
    assert picked.model == 0
    assert picked.x.tolist() == [[[1.0, *x[0], *y[1], *products[1]], [2.0, *x[0], *y[0], *products[0]]]]


def test_interaction_without_context_or_features_is_the_slot_and_which_item() -> None:
    rows = Interaction(0).rows(Request(2, 3, 2), NOTHING, 0)
    assert rows.x is not None
    assert rows.x.tolist() == [[[1.0, 1, 0, 0], [1.0, 0, 1, 0], [1.0, 0, 0, 1]]] * 2


def test_a_model_for_each_pair_of_item_and_slot() -> None:
    """Item i in slot k feeds model i·K + k."""
    K, L = 3, 4
    for slot in range(K):
        rows = PerItemSlot(K).rows(Request(1, L, K), NOTHING, slot)
        assert np.arange(L * K)[rows.model].tolist() == [i * K + slot for i in range(L)]
    picked = PerItemSlot(K).pick(Request(2, L, K), np.array([[2, 0, 3], [EMPTY, 1, EMPTY]])).model
    assert isinstance(picked, np.ndarray)
    assert picked.tolist() == [[2 * K + 0, 0 * K + 1, 3 * K + 2], [EMPTY, 1 * K + 1, EMPTY]]


def test_every_pair_of_item_and_slot_has_its_own_model() -> None:
    K, L = 3, 4
    rows = [np.arange(L * K)[PerItemSlot(K).rows(Request(1, L, K), NOTHING, slot).model] for slot in range(K)]
    assert sorted(np.concatenate(rows).tolist()) == list(range(L * K))


# ---------------------------------------------------------------------------- requests that do not fit


def test_where_few_items_are_allowed_the_first_slots_are_filled_not_the_best_seen() -> None:
    scores = np.array([[0.3, 0.9, 0.5]])
    request = Request(1, 3, 3, allowed=np.array([True, True, False]))
    plan = BySlotBias(np.array([0.2, 1.0, 0.9]))(lambda prefix, slot: scores, request, np.random.default_rng(0))
    assert plan.items.tolist() == [[0, 1, EMPTY]]


def test_lengths_that_tie_but_for_rounding_are_the_longest() -> None:
    """Exponential scenario, p = (0.9, 2/13): both lengths are worth 0.84 exactly."""
    rewards, losses = 2.0 ** -np.arange(2.0), 0.8 * 2.0 ** -np.arange(3.0) - 1.0
    p = np.array([[0.9, 2.0 / 13.0]])
    values = values_by_length(p, rewards, losses)
    assert abs(values[0, 2] - values[0, 1]) < 1e-15
    assert best_length(p, np.array([2]), rewards, losses).tolist() == [2]


@pytest.mark.parametrize("plan", [BySlotBias(np.ones(2)), BestLength(TopK(), np.ones(2), np.zeros(3))])
def test_a_request_for_more_slots_than_planned_for_is_refused(plan: BySlotBias | BestLength) -> None:
    with pytest.raises(InvalidInput, match=r"request\.k is 3; accepted: at most 2"):
        plan(lambda prefix, slot: np.zeros((1, 4)), Request(1, 4, 3), np.random.default_rng(0))


@pytest.mark.parametrize("design", [Positional(2), Interaction(2)])
@pytest.mark.parametrize("context", [None, np.zeros((1, 3))])
def test_a_context_of_another_length_is_refused_in_words(
    design: Positional | Interaction, context: FloatArray | None
) -> None:
    request = Request(1, 3, 2, context=context)
    with pytest.raises(InvalidInput, match=r"request\.context .* accepted: 2 numbers for each learner"):
        design.rows(request, NOTHING, 0)
    with pytest.raises(InvalidInput, match=r"request\.context"):
        design.pick(request, np.array([[0, 1]]))


# ---------------------------------------------------------------------------- pins


def slot_scores(table: FloatArray) -> SlotScore:
    """Scores [L, K] that depend on the slot alone."""
    return lambda prefix, slot: np.broadcast_to(table[:, slot], (len(prefix), len(table)))


@pytest.mark.parametrize("seed", range(30))
def test_a_matching_around_pins_equals_brute_force(seed: int) -> None:
    draws = np.random.default_rng(seed)
    L, k = 5, 3
    table = draws.random((L, k))
    pinned = np.full(k, EMPTY, dtype=np.int64)
    pinned[draws.integers(k)] = draws.integers(L)
    plan = around_pins(Assignment(Amount()), slot_scores(table), Request(2, L, k, pinned=pinned), draws)
    best = max(
        (
            lists
            for lists in permutations(range(L), k)
            if all(p in (EMPTY, i) for p, i in zip(pinned, lists, strict=True))
        ),
        key=lambda lists: sum(table[i, s] for s, i in enumerate(lists)),
    )
    assert plan.items.tolist() == [list(best)] * 2


def test_a_request_without_pins_is_the_planner_s_own() -> None:
    with pytest.raises(InvalidInput, match=r"request\.pinned is None"):
        around_pins(TopK(), lambda p, s: np.zeros((1, 4)), Request(1, 4, 3), rng())


def test_by_slot_bias_fills_the_free_slots_by_their_own_bias() -> None:
    scores = np.array([[0.1, 0.9, 0.5, 0.7]])
    request = Request(1, 4, 3, pinned=np.array([EMPTY, 1, EMPTY]))
    plan = around_pins(BySlotBias(np.array([0.2, 1.0, 0.9])), lambda p, s: scores, request, np.random.default_rng(0))
    assert plan.items.tolist() == [[2, 1, 3]]


def test_greedy_sees_the_pinned_items_above() -> None:
    """Each slot takes the largest number below the one above it."""

    def score(prefix: IntArray, slot: int) -> FloatArray:
        last = prefix[:, -1] if slot else np.array([9])
        return np.where(np.arange(5.0) < last[:, None], np.arange(5.0), -10.0)

    request = Request(1, 5, 3, pinned=np.array([EMPTY, 2, EMPTY]))
    plan = around_pins(GreedyBySlot(), score, request, np.random.default_rng(0))
    assert plan.items.tolist() == [[4, 2, 1]]


@pytest.mark.parametrize(
    "planner",
    [TopK(), GreedyBySlot(), BySlotBias(np.ones(2)), Assignment(Amount())],
    ids=lambda planner: type(planner).__name__,
)
def test_where_every_slot_is_pinned_no_score_is_asked_for(planner: Planner) -> None:
    def score(prefix: IntArray, slot: int) -> FloatArray:
        raise AssertionError("no slot is free")

    plan = around_pins(planner, score, Request(2, 4, 2, pinned=np.array([3, 1])), rng())
    assert plan.items.tolist() == [[3, 1], [3, 1]]
    assert plan.scores.shape == (2, 2)
    assert plan.rivals is None


@pytest.mark.parametrize("pinned", [[0], [0, 0, EMPTY], [7, EMPTY, EMPTY], [-2, EMPTY, EMPTY]])
def test_impossible_pins_are_refused(pinned: list[int]) -> None:
    with pytest.raises(InvalidInput, match=r"request\.pinned"):
        Request(1, 4, 3, pinned=np.array(pinned))
