"""The choice world: one click at most, with the probabilities of the multinomial logit."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest

from rankloop.types import EMPTY, IntArray
from small_worlds import settled

ALPHA = [0.1, 0.5, 0.3, 0.4, 1.0]
BIAS = [0.4, 1.0, 0.7]
CHOICE: dict[str, Any] = {"kind": "choice", "attraction": ALPHA, "bias": BIAS}
DRAWN: dict[str, Any] = {"kind": "choice", "attraction": {"beta": {"items": 5, "a": 2, "b": 3}}, "bias": BIAS}


def pulls(items: list[int], alpha: list[float], bias: list[float]) -> list[float]:
    """λ_k α of each slot, 0 where it is empty."""
    return [0.0 if i == EMPTY else b * alpha[i] for i, b in zip(items, bias, strict=False)]


def plain_value(items: list[int], alpha: list[float], bias: list[float]) -> float:
    """Σ λα/(1 + Σ λα)."""
    total = sum(pulls(items, alpha, bias))
    return total / (1.0 + total)


def some_lists(rng: np.random.Generator, learners: int, items: int = 5, k: int = 3) -> IntArray:
    lists = rng.permuted(np.tile(np.arange(items), (learners, 1)), axis=1)[:, :k]
    return np.where(rng.random(lists.shape) < 0.2, EMPTY, lists)


def test_values_by_hand() -> None:
    """α = 0.5, 0.4 under λ = 0.4, 1: P(click) = (0.2 + 0.4)/(1 + 0.2 + 0.4)."""
    visit = settled(CHOICE, 1).visit(np.random.default_rng(0))
    np.testing.assert_allclose(visit.value(np.array([[1, 3, EMPTY]])), [(0.2 + 0.4) / (1 + 0.2 + 0.4)], rtol=1e-12)
    np.testing.assert_allclose(visit.value(np.array([[EMPTY, EMPTY, 4]])), [0.7 / 1.7], rtol=1e-12)


@pytest.mark.parametrize("items", [[1, 3, 2], [4, 0, 1], [3, EMPTY, 1], [2, 4, EMPTY]])
def test_each_slot_is_chosen_with_its_probability(items: list[int]) -> None:
    """400,000 visitors, five standard errors for each of three slots and the value: each of the 16 comparisons
    fails with a chance below 1e-6, were the seed free."""
    instance, n = settled(CHOICE, 4000), 400_000
    lists = np.tile(items, (4000, 1))
    rng = np.random.default_rng(1)
    clicks, reward = (
        np.concatenate(part) for part in zip(*(instance.visit(rng).click(lists) for _ in range(100)), strict=True)
    )
    pull = pulls(items, ALPHA, BIAS)
    for slot in range(3):
        p = pull[slot] / (1.0 + sum(pull))
        assert abs(clicks[:, slot].mean() - p) <= 5.0 * np.sqrt(p * (1.0 - p) / n)
    p = plain_value(items, ALPHA, BIAS)
    assert abs(reward.mean() - p) < 5.0 * np.sqrt(p * (1.0 - p) / n)
    np.testing.assert_allclose(instance.visit(rng).value(lists), p, rtol=1e-12)


def test_probabilities_of_all_slots_sum_to_the_value_and_stay_below_one() -> None:
    instance = settled(DRAWN, 300)
    items = some_lists(np.random.default_rng(2), 300)
    p = instance.choice_probabilities(items)
    assert (p >= 0).all()
    assert not p[items == EMPTY].any()
    assert (p.sum(axis=1) < 1).all()
    np.testing.assert_allclose(p.sum(axis=1), instance.visit(np.random.default_rng(0)).value(items), rtol=1e-12)


@pytest.mark.parametrize("spec", [CHOICE, CHOICE | {"attraction": [1] * 5, "bias": [1, 1, 1]}])
def test_one_click_at_most_and_never_on_an_empty_slot(spec: dict[str, Any]) -> None:
    instance = settled(spec, 500)
    rng = np.random.default_rng(3)
    for _ in range(20):
        items = some_lists(rng, 500)
        clicks, reward = instance.visit(rng).click(items)
        assert set(np.unique(clicks)) <= {0.0, 1.0}
        assert (clicks.sum(axis=1) <= 1).all()
        assert not clicks[items == EMPTY].any()
        np.testing.assert_array_equal(reward, clicks.sum(axis=1))


def test_an_empty_list_is_never_clicked() -> None:
    visit = settled(CHOICE, 100).visit(np.random.default_rng(4))
    nothing = np.full((100, 3), EMPTY)
    assert not visit.value(nothing).any()
    assert not visit.click(nothing)[0].any()


def test_best_equals_brute_force_over_all_lists_of_all_lengths() -> None:
    """Forty random instances, biases in no order."""
    rng = np.random.default_rng(5)
    for _ in range(40):
        alpha = rng.uniform(0.01, 1.0, int(rng.integers(3, 6))).tolist()
        bias = rng.uniform(0.01, 1.0, int(rng.integers(1, 4))).tolist()
        best = settled({"kind": "choice", "attraction": alpha, "bias": bias}, 1).best[0]
        lists = [order for s in range(len(bias) + 1) for order in permutations(range(len(alpha)), s)]
        assert best == pytest.approx(max(plain_value(list(items), alpha, bias) for items in lists), rel=1e-12)


def test_best_of_drawn_worlds_belongs_to_each_replication() -> None:
    instance = settled(DRAWN, 7)
    for alpha, best in zip(instance.alpha.tolist(), instance.best, strict=True):
        values = [plain_value(list(items), alpha, BIAS) for items in permutations(range(5), 3)]
        assert best == pytest.approx(max(values), rel=1e-12)


def test_parameters_of_a_replication_depend_on_seed_and_number_only() -> None:
    every, some = settled(DRAWN, 6, seed=3), settled(DRAWN, 2, seed=3, first=3)
    np.testing.assert_array_equal(every.alpha[3:5], some.alpha)
    assert (every.alpha != settled(DRAWN, 6, seed=4).alpha).all()
    assert len(np.unique(every.alpha)) == every.alpha.size


def test_visitors_do_not_depend_on_the_list() -> None:
    """Equal streams, other lists before: the next visitors choose alike, and a visit does not change its mind."""
    one, other = settled(CHOICE, 200), settled(CHOICE, 200)
    streams = [np.random.default_rng(6) for _ in range(2)]
    rng = np.random.default_rng(7)
    for _ in range(5):
        a, b = one.visit(streams[0]), other.visit(streams[1])
        items = some_lists(rng, 200)
        clicks = a.click(items)[0]
        b.click(some_lists(rng, 200))
        np.testing.assert_array_equal(b.click(items)[0], clicks)
        np.testing.assert_array_equal(a.click(items)[0], clicks)


def test_a_longer_list_takes_no_chooser_away() -> None:
    """Who chooses the only item of a list also chooses something when more is shown below: pairs are close."""
    visit = settled(CHOICE, 2000).visit(np.random.default_rng(8))
    short, long = np.tile([4, EMPTY, EMPTY], (2000, 1)), np.tile([4, 1, 3], (2000, 1))
    one, more = visit.click(short)[1], visit.click(long)[1]
    assert (more >= one).all()
    assert (more > one).any()


def test_policies_are_given_biases_and_features() -> None:
    x = [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8], [0.8, 0.6], [0.0, -1.0]]
    setting = settled(CHOICE | {"features": x}, 2).setting
    np.testing.assert_array_equal(setting.bias, BIAS)
    assert (setting.items, setting.slots, setting.dim, setting.lasting) == (5, 3, 2, True)
    request = settled(CHOICE | {"features": x}, 2).visit(np.random.default_rng(0)).request
    np.testing.assert_array_equal(request.features, x)
