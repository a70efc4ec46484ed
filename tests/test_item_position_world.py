"""The item-position world: contexts, an attention of each item's own down the list, and three objectives."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from scipy import stats

from rankloop.types import EMPTY, FloatArray, IntArray
from small_worlds import settled

ALPHA = [0.2, 0.9, 0.0, 0.5, 0.3]
BETA = [[1.0, -0.5], [0.3, 0.8], [-0.7, 0.2], [0.0, 1.5], [0.6, 0.6]]
PRICES = [1.0, 5.0, 0.0, 2.0, 3.0]
GIVEN: dict[str, Any] = {"kind": "item-position", "alpha": ALPHA, "beta": BETA, "k": 3}
SIZES: dict[str, Any] = {"kind": "item-position", "items": 5, "dim": 2, "k": 3}
OBJECTIVES: dict[str, dict[str, Any]] = {
    "any-click": {"objective": "any-click"},
    "clicks": {"objective": "clicks"},
    "revenue": {"objective": "revenue", "prices": PRICES},
}
INTERCEPTS: dict[str, Any] = {"one": 0.7, "each": [0.1, -0.2, 0.3, 0.0, -1.0]}


def chance(x: FloatArray, alpha: FloatArray, beta: FloatArray, intercept: Any, item: int, k: int) -> float:
    """σ(intercept + xᵀβ_j - α_j k), k from 1."""
    own = intercept[item] if isinstance(intercept, list) else intercept
    return float(1.0 / (1.0 + np.exp(-(own + x @ beta[item] - alpha[item] * k))))


def worth(objective: str, p: dict[int, float]) -> float:
    """Worth of items that are clicked with these probabilities, by the objective."""
    if objective == "any-click":
        return float(1.0 - np.prod([1.0 - v for v in p.values()]))
    return sum(v * (PRICES[j] if objective == "revenue" else 1.0) for j, v in p.items())


def plain_value(spec: dict[str, Any], instance: Any, visit: Any, b: int, items: tuple[int, ...]) -> float:
    """The definition, for the list of learner b; EMPTY shows nothing."""
    x = visit.request.context[b, : instance.beta.shape[2]]
    p = {
        j: chance(x, instance.alpha[b], instance.beta[b], spec.get("intercept", 0.0), j, k)
        for k, j in enumerate(items, start=1)
        if j != EMPTY
    }
    return worth(spec.get("objective", "any-click"), p)


def some_lists(rng: np.random.Generator, learners: int, empty: float = 0.2) -> IntArray:
    lists = rng.permuted(np.tile(np.arange(5), (learners, 1)), axis=1)[:, :3]
    return np.where(rng.random(lists.shape) < empty, EMPTY, lists)


# Values


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("base", [GIVEN, SIZES, GIVEN | {"intercept": 0.7}, SIZES | {"intercept": INTERCEPTS["each"]}])
def test_value_is_its_definition(base: dict[str, Any], objective: str) -> None:
    spec = base | OBJECTIVES[objective]
    instance = settled(spec, 25)
    rng = np.random.default_rng(1)
    for _ in range(4):
        visit, items = instance.visit(rng), some_lists(rng, 25)
        expected = [plain_value(spec, instance, visit, b, tuple(items[b])) for b in range(25)]
        np.testing.assert_allclose(visit.value(items), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("base", [GIVEN, SIZES | {"intercept": 0.7}])
def test_value_is_the_mean_reward_of_many_visitors(base: dict[str, Any], objective: str) -> None:
    """50,000 visitors, each with a context and a list of their own, five standard errors of reward - value:
    each case fails with a chance below 1e-6, were the seed free."""
    instance = settled(base | OBJECTIVES[objective], 2000)
    rng = np.random.default_rng(2)
    off = []
    for _ in range(25):
        visit, items = instance.visit(rng), some_lists(rng, 2000)
        off.append(visit.click(items)[1] - visit.value(items))
    error = np.concatenate(off)
    assert abs(error.mean()) < 5.0 * error.std() / np.sqrt(error.size)
    assert error.std() > 0.1, "rewards are random"


def test_given_parameters_are_used_in_every_replication() -> None:
    instance = settled(GIVEN, 3)
    np.testing.assert_array_equal(instance.alpha, [ALPHA] * 3)
    np.testing.assert_array_equal(instance.beta, [BETA] * 3)
    assert (instance.setting.items, instance.setting.slots, instance.setting.context) == (5, 3, 2)


def test_sizes_may_be_given_with_parameters_when_they_agree() -> None:
    instance = settled(GIVEN | {"items": 5, "dim": 2}, 1)
    np.testing.assert_array_equal(instance.alpha, [ALPHA])


def test_slots_are_counted_from_one() -> None:
    """β = 0: P(click) in slots 1, 2, 3 is σ(-α), σ(-2α), σ(-3α), here with α = log 2: 1/3, 1/5, 1/9."""
    spec = {"kind": "item-position", "alpha": [np.log(2.0).item()] * 3, "beta": [[0.0]] * 3, "k": 3}
    visit = settled(spec | {"objective": "clicks"}, 1).visit(np.random.default_rng(0))
    for items, expected in (([0, EMPTY, EMPTY], 1 / 3), ([EMPTY, 0, EMPTY], 1 / 5), ([1, 2, 0], 1 / 3 + 1 / 5 + 1 / 9)):
        np.testing.assert_allclose(visit.value(np.array([items])), [expected], rtol=1e-12)


def test_an_empty_list_is_worth_nothing() -> None:
    for objective in OBJECTIVES.values():
        visit = settled(GIVEN | objective, 50).visit(np.random.default_rng(3))
        nothing = np.full((50, 3), EMPTY)
        clicks, reward = visit.click(nothing)
        assert not visit.value(nothing).any()
        assert not clicks.any()
        assert not reward.any()


# Best lists


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("base", [GIVEN, SIZES, SIZES | {"intercept": INTERCEPTS["each"]}])
def test_best_equals_brute_force_over_all_lists_of_all_lengths(base: dict[str, Any], objective: str) -> None:
    spec = base | OBJECTIVES[objective]
    instance = settled(spec, 6)
    rng = np.random.default_rng(4)
    lists = [order for s in range(4) for order in permutations(range(5), s)]
    for _ in range(4):
        visit = instance.visit(rng)
        for b in range(6):
            best = max(plain_value(spec, instance, visit, b, items) for items in lists)
            assert visit.best[b] == pytest.approx(best, rel=1e-9)


def test_the_best_list_depends_on_who_asks() -> None:
    """One good item for each half of the contexts."""
    spec = {"kind": "item-position", "alpha": [0.1, 0.1], "beta": [[5.0], [-5.0]], "k": 1}
    visit = settled(spec, 100).visit(np.random.default_rng(5))
    right = np.where(visit.request.context[:, 0] > 0, 0, 1)
    np.testing.assert_allclose(visit.value(right[:, None]), visit.best, rtol=1e-12)


# Clicks and visitors


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_reward_is_what_the_objective_says(objective: str) -> None:
    instance = settled(GIVEN | OBJECTIVES[objective], 300)
    rng = np.random.default_rng(6)
    visit, items = instance.visit(rng), some_lists(rng, 300)
    clicks, reward = visit.click(items)
    assert set(np.unique(clicks)) == {0.0, 1.0}
    assert not clicks[items == EMPTY].any()
    assert clicks.sum(axis=1).max() >= 2, "more than one click is possible"
    expected = {
        "any-click": clicks.any(axis=1),
        "clicks": clicks.sum(axis=1),
        "revenue": (clicks * np.array(PRICES)[items]).sum(axis=1),
    }[objective]
    np.testing.assert_allclose(reward, expected, rtol=1e-12)


def test_slots_are_clicked_independently() -> None:
    """P(both) = p_1 p_2. 100,000 visitors with β = 0, five standard errors: chance to fail below 1e-6 for each of
    three pairs, were the seed free."""
    spec = {"kind": "item-position", "alpha": [0.2, 0.1, 0.3], "beta": [[0.0]] * 3, "k": 3}
    instance, rng = settled(spec, 4000), np.random.default_rng(7)
    clicks = np.concatenate([instance.visit(rng).click(np.tile([0, 1, 2], (4000, 1)))[0] for _ in range(25)])
    p = [1 / (1 + np.exp(a * k)) for a, k in ((0.2, 1), (0.1, 2), (0.3, 3))]
    for i, j in ((0, 1), (0, 2), (1, 2)):
        both = p[i] * p[j]
        seen = (clicks[:, i] * clicks[:, j]).mean()
        assert abs(seen - both) < 5.0 * np.sqrt(both * (1 - both) / len(clicks))


def test_visitors_do_not_depend_on_the_list() -> None:
    """A click hangs on item and slot only, and who clicks an item further down clicks it further up (α ≥ 0)."""
    instance, rng = settled(GIVEN, 300), np.random.default_rng(8)
    for _ in range(5):
        visit = instance.visit(rng)
        alone = np.zeros((5, 3, 300))
        for item in range(5):
            for slot in range(3):
                lists = np.full((300, 3), EMPTY)
                lists[:, slot] = item
                alone[item, slot] = visit.click(lists)[0][:, slot]
        assert (np.diff(alone, axis=1) <= 0).all()
        items = some_lists(rng, 300)
        expected = np.where(items != EMPTY, alone[items, np.arange(3), np.arange(300)[:, None]], 0.0)
        np.testing.assert_array_equal(visit.click(items)[0], expected)


def test_every_policy_meets_the_same_visitors() -> None:
    one, other = settled(SIZES, 40), settled(SIZES, 40)
    streams = [np.random.default_rng(9) for _ in range(2)]
    rng = np.random.default_rng(10)
    for _ in range(4):
        a, b = one.visit(streams[0]), other.visit(streams[1])
        a.click(some_lists(rng, 40))
        np.testing.assert_array_equal(a.request.context, b.request.context)
        items = some_lists(rng, 40)
        np.testing.assert_array_equal(a.click(items)[0], b.click(items)[0])


def test_contexts_are_fresh_for_every_round_and_replication() -> None:
    instance, rng = settled(SIZES, 30), np.random.default_rng(11)
    contexts = np.stack([instance.visit(rng).request.context for _ in range(6)])
    assert contexts.shape == (6, 30, 2)
    assert len(np.unique(contexts)) == contexts.size


# Generators


def uniform_in_the_ball(points: FloatArray) -> bool:
    """radius^d is uniform, and the square of a coordinate of the direction is Beta(½, (d-1)/2), signs fair.

    Kolmogorov and Smirnov at level 1e-6: each of the 1 + 2d tests refuses the truth with that chance.
    """
    d = points.shape[1]
    radius = np.linalg.norm(points, axis=1)
    direction = points / radius[:, None]
    good = stats.kstest(radius**d, "uniform").pvalue > 1e-6
    for j in range(d):
        good &= stats.kstest(direction[:, j] ** 2, stats.beta(0.5, (d - 1) / 2).cdf).pvalue > 1e-6
        good &= stats.binomtest(int((points[:, j] > 0).sum()), len(points)).pvalue > 1e-6
    return bool(good)


@pytest.mark.parametrize("dim", [2, 3, 7])
def test_parameters_are_drawn_as_the_paper_says(dim: int) -> None:
    """10,000 draws of α ~ U[0, 1] and of β and 2,000 of x uniform in the unit ball, levels as stated above."""
    instance = settled(SIZES | {"dim": dim}, 2000)
    assert instance.alpha.shape == (2000, 5)
    assert instance.beta.shape == (2000, 5, dim)
    assert stats.kstest(instance.alpha.ravel(), "uniform").pvalue > 1e-6
    beta = instance.beta.reshape(-1, dim)
    assert uniform_in_the_ball(beta)
    assert not uniform_in_the_ball(beta / np.linalg.norm(beta, axis=1, keepdims=True) ** 0.5), "the test can tell"
    assert uniform_in_the_ball(instance.visit(np.random.default_rng(12)).request.context)


def test_parameters_of_a_replication_depend_on_seed_and_number_only() -> None:
    every, some = settled(SIZES, 6, seed=3), settled(SIZES, 2, seed=3, first=3)
    np.testing.assert_array_equal(every.alpha[3:5], some.alpha)
    np.testing.assert_array_equal(every.beta[3:5], some.beta)
    assert (every.alpha != settled(SIZES, 6, seed=4).alpha).all()
    assert len(np.unique(every.alpha)) == every.alpha.size


# Intercept and features


@pytest.mark.parametrize("intercept", [0.7, -2, [0.1, -0.2, 0.3, 0.0, -1.0], 0, [0, 0, 0, 0, 0]], ids=str)
def test_an_intercept_adds_a_constant_one_to_the_context(intercept: Any) -> None:
    instance = settled(GIVEN | {"intercept": intercept}, 4)
    context = instance.visit(np.random.default_rng(13)).request.context
    assert instance.setting.context == 3
    np.testing.assert_array_equal(context[:, 2], 1.0)
    plain = settled(GIVEN, 4).visit(np.random.default_rng(13)).request.context
    np.testing.assert_array_equal(context[:, :2], plain, err_msg="the same visitors")


def test_an_intercept_raises_the_chance_of_a_click() -> None:
    """β = 0, α = 0, intercept log 3: P(click) = 3/4 in every slot."""
    spec = {"kind": "item-position", "alpha": [0.0, 0.0], "beta": [[0.0], [0.0]], "k": 2, "objective": "clicks"}
    visit = settled(spec | {"intercept": np.log(3.0).item()}, 1).visit(np.random.default_rng(0))
    np.testing.assert_allclose(visit.value(np.array([[1, 0]])), [2 * 3 / 4], rtol=1e-12)


def test_features_of_items_are_passed_on() -> None:
    x = [[1.0, 0.0, 2.0]] * 5
    instance = settled(GIVEN | {"features": x}, 2)
    np.testing.assert_array_equal(instance.visit(np.random.default_rng(0)).request.features, x)
    assert (instance.setting.dim, instance.setting.context) == (3, 2)
