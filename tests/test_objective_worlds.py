"""Objectives and prices of click worlds: values follow the objective, and best lists equal brute force."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rankloop import InvalidInput, simulate
from rankloop.math.cascade_revenue import _revenue_recursion, revenue_recursion
from rankloop.types import EMPTY, FloatArray, IntArray
from rankloop.worlds import from_spec
from small_worlds import every_list, settled

PAIRS = [
    ("cascade", "any-click"),
    ("cascade", "clicks"),
    ("cascade", "revenue"),
    ("position-based", "any-click"),
    ("position-based", "clicks"),
    ("position-based", "revenue"),
    ("dependent-click", "any-click"),
    ("dependent-click", "satisfied"),
    ("choice", "any-click"),
    ("choice", "clicks"),
    ("choice", "revenue"),
]
REFUSED = [
    ("cascade", "satisfied"),
    ("position-based", "satisfied"),
    ("dependent-click", "clicks"),
    ("dependent-click", "revenue"),
    ("choice", "satisfied"),
]
every_pair = pytest.mark.parametrize(("kind", "objective"), PAIRS)


def random_spec(kind: str, objective: str, rng: np.random.Generator, *, falling: bool = False) -> dict[str, Any]:
    """Five items in three slots; slots in no order, or falling; prices of very different size, some of them 0."""
    slots = rng.uniform(0.05, 1, 3)
    slots = np.sort(slots)[::-1] if falling else slots
    by_kind: dict[str, Any] = {
        "cascade": {"k": 3},
        "position-based": {"bias": slots.tolist()},
        "dependent-click": {"termination": slots.tolist()},
        "choice": {"bias": slots.tolist()},
    }
    prices = (rng.integers(0, 2, 5) * rng.exponential(3.0, 5)).tolist()
    spec = {"kind": kind, "attraction": rng.uniform(0.01, 1, 5).tolist(), "objective": objective, **by_kind[kind]}
    return spec | {"prices": prices} if objective == "revenue" else spec


def plain_value(spec: dict[str, Any], items: IntArray, prices: FloatArray | None = None) -> float:
    """The value of one list by listing what a visitor may do."""
    shown = [(k, i) for k, i in enumerate(items) if i != EMPTY]
    nu, objective = spec["attraction"], spec["objective"]
    price: Any = prices if prices is not None else spec.get("prices")
    if spec["kind"] == "choice":
        pull = {k: spec["bias"][k] * nu[i] for k, i in shown}
        chance = {k: p / (1 + sum(pull.values())) for k, p in pull.items()}
        return float(sum(chance[k] * (price[i] if objective == "revenue" else 1) for k, i in shown))
    if spec["kind"] == "position-based":
        p = [spec["bias"][k] * nu[i] for k, i in shown]
        if objective == "any-click":
            return float(1 - np.prod([1 - q for q in p]))
        return float(sum(q * (price[i] if objective == "revenue" else 1) for q, (_, i) in zip(p, shown, strict=True)))
    reached, value = 1.0, 0.0
    for k, i in shown:  # cascade and dependent click: the visitor goes on
        counts = spec["termination"][k] if objective == "satisfied" else 1.0
        value += reached * nu[i] * counts * (price[i] if objective == "revenue" else 1)
        reached *= 1 - nu[i] * counts
    return value


def every_prefix(items: int, k: int) -> list[IntArray]:
    """All lists of 0 … k items, empty slots last."""
    lists = []
    for s in range(k + 1):
        for one in every_list(items, s):
            lists.append(np.concatenate([one, np.full(k - s, EMPTY)]).astype(np.int64))
    return lists


@every_pair
def test_values_equal_the_definition_and_the_best_list_equals_brute_force(kind: str, objective: str) -> None:
    """Forty random worlds, slots in no order: over all full lists, or over all lists where slots happen to fall."""
    rng = np.random.default_rng(1)
    for _ in range(40):
        spec = random_spec(kind, objective, rng)
        visit = settled(spec, 1).visit(rng)
        falls = kind == "choice" and (np.diff(spec["bias"]) <= 0).all()
        values = [plain_value(spec, items) for items in (every_prefix(5, 3) if falls else every_list(5, 3))]
        assert visit.best[0] == pytest.approx(max(values), rel=1e-12)
        for items in ([0, 3, 1], [2, EMPTY, EMPTY], [4, 1, EMPTY]):
            shown = np.array([items])
            assert visit.value(shown)[0] == pytest.approx(plain_value(spec, shown[0]), rel=1e-12)


@pytest.mark.parametrize(("kind", "objective"), [pair for pair in PAIRS if pair[1] == "revenue"])
def test_the_best_revenue_of_falling_slots_is_over_lists_of_all_lengths(kind: str, objective: str) -> None:
    """A choice among fewer items may earn more: the dear item is then chosen more often."""
    rng, shorter = np.random.default_rng(2), 0
    for _ in range(40):
        spec = random_spec(kind, objective, rng, falling=True)
        best = settled(spec, 1).visit(rng).best[0]
        values = [plain_value(spec, items) for items in every_prefix(5, 3)]
        assert best == pytest.approx(max(values), rel=1e-12)
        shorter += max(values) > 1.0001 * max(plain_value(spec, items) for items in every_list(5, 3))
    assert (shorter > 0) == (kind == "choice")


@every_pair
def test_the_reward_of_many_visitors_has_the_value_as_its_mean(kind: str, objective: str) -> None:
    """200,000 visitors, five standard errors: each case fails with a chance below 1e-6, were the seed free."""
    spec = random_spec(kind, objective, np.random.default_rng(3))
    instance, rng = settled(spec, 2000), np.random.default_rng(4)
    shown = np.tile([3, 0, 2], (2000, 1))
    seen = np.concatenate([instance.visit(rng).click(shown)[1] for _ in range(100)])
    expected = instance.visit(rng).value(shown)[0]
    assert abs(seen.mean() - expected) <= 5 * seen.std() / np.sqrt(seen.size)


@every_pair
def test_policies_are_told_the_objective(kind: str, objective: str) -> None:
    spec = random_spec(kind, objective, np.random.default_rng(5))
    told = settled(spec, 2).setting.objective
    assert told.name == objective
    if objective == "revenue":
        np.testing.assert_array_equal(told.prices, spec["prices"])
    unnamed = {name: value for name, value in spec.items() if name not in ("objective", "prices")}
    assert settled(unnamed, 2).setting.objective.name == "any-click"


@pytest.mark.parametrize("kind", ["cascade", "position-based", "dependent-click", "choice"])
def test_the_default_objective_is_the_worlds_own_value(kind: str) -> None:
    own = {"position-based": "clicks", "dependent-click": "satisfied"}.get(kind, "any-click")
    spec = random_spec(kind, own, np.random.default_rng(6))
    unnamed = {name: value for name, value in spec.items() if name != "objective"}
    one, two = (settled(s, 3).visit(np.random.default_rng(7)) for s in (spec, unnamed))
    items = np.tile([2, 1, 4], (3, 1))
    np.testing.assert_array_equal(one.best, two.best)
    np.testing.assert_array_equal(one.value(items), two.value(items))
    np.testing.assert_array_equal(one.click(items)[1], two.click(items)[1])


# Prices that are drawn


@pytest.mark.parametrize("kind", ["cascade", "position-based", "choice"])
@pytest.mark.parametrize("when", ["uniform", "fresh"])
def test_drawn_prices_come_with_the_request(kind: str, when: str) -> None:
    """Of each replication or of each round, and the best list follows them."""
    spec = random_spec(kind, "revenue", np.random.default_rng(8)) | {"prices": {when: [2.0, 6.0]}}
    instance, rng = settled(spec, 3), np.random.default_rng(9)
    np.testing.assert_array_equal(instance.setting.objective.prices, np.full(5, 4.0))
    rounds = [instance.visit(rng) for _ in range(3)]
    prices = [visit.request.prices for visit in rounds]
    assert all(p.shape == (3, 5) and (p >= 2).all() and (p <= 6).all() for p in prices)
    assert (prices[0] != prices[1]).all() == (when == "fresh")
    assert (prices[0][0] != prices[0][1]).all()
    for visit, price in zip(rounds, prices, strict=True):
        for b in range(3):
            values = [plain_value(spec, items, price[b]) for items in every_list(5, 3)]
            assert visit.best[b] == pytest.approx(max(values), rel=1e-12)


def test_prices_of_a_replication_depend_on_seed_and_index_only() -> None:
    spec = random_spec("cascade", "revenue", np.random.default_rng(10)) | {"prices": {"uniform": [0, 1]}}
    np.testing.assert_array_equal(settled(spec, 4).prices[2:], settled(spec, 2, first=2).prices)


def test_prices_in_a_world_that_changes_by_round() -> None:
    """Context, fresh features and fresh prices: the best list of every visitor equals brute force."""
    spec = {
        "kind": "cascade",
        "attraction": {"logistic": {"items": 5, "dim": 2, "fresh_features": True}},
        "context": {"dim": 2},
        "k": 3,
        "objective": "revenue",
        "prices": {"fresh": [0, 9]},
    }
    instance, rng = settled(spec, 2), np.random.default_rng(11)
    for _ in range(5):
        visit = instance.visit(rng)
        for b in range(2):
            now = {"kind": "cascade", "objective": "revenue", "attraction": visit.instance.nu[b]}
            values = [plain_value(now, items, visit.request.prices[b]) for items in every_list(5, 3)]
            assert visit.best[b] == pytest.approx(max(values), rel=1e-12)


def test_revenue_with_drift() -> None:
    spec = random_spec("cascade", "revenue", np.random.default_rng(12)) | {"drift": {"abrupt": {"every": 2}}}
    instance, rng = settled(spec, 1), np.random.default_rng(13)
    for _ in range(6):
        visit = instance.visit(rng)
        now = spec | {"attraction": visit.instance.nu[0]}
        assert visit.best[0] == pytest.approx(max(plain_value(now, i) for i in every_list(5, 3)), rel=1e-12)


def test_the_compiled_recursion_equals_its_plain_form() -> None:
    rng = np.random.default_rng(14)
    w, prices = rng.random((7, 9)), np.sort(rng.random((7, 9)), axis=1)
    for k in (1, 4, 9):
        one, two = np.empty(7), np.empty(7)
        revenue_recursion(w, prices, k, one)
        _revenue_recursion(w, prices, k, two)
        np.testing.assert_array_equal(one, two)


def test_the_number_of_processes_changes_nothing() -> None:
    spec = random_spec("position-based", "revenue", np.random.default_rng(15)) | {"prices": {"fresh": [0, 2]}}
    one, two = (
        simulate(["gts"], spec, rounds=15, replications=4, seed=6, chunk=2, jobs=jobs)["gts"] for jobs in (1, 2)
    )
    np.testing.assert_array_equal(one.regret, two.regret)
    np.testing.assert_array_equal(one.reward, two.reward)


# Refusals


@pytest.mark.parametrize(("kind", "objective"), REFUSED)
def test_an_objective_without_an_exact_best_list_is_refused(kind: str, objective: str) -> None:
    spec = random_spec(kind, objective, np.random.default_rng(16))
    with pytest.raises(InvalidInput, match=f"world.objective is '{objective}'.*the best list of no other objective"):
        from_spec({name: value for name, value in spec.items() if name != "prices"})


def test_prices_and_objectives_that_are_wrong_are_named() -> None:
    spec = {"kind": "cascade", "attraction": [0.5, 0.4], "k": 1}
    for fields, words in (
        (
            {"objective": "profit"},
            "world.objective is 'profit'; accepted: one of any-click, clicks, satisfied, revenue",
        ),
        ({"objective": "revenue"}, "world.prices is missing; accepted: 2 prices of at least 0"),
        ({"prices": [1, 2]}, "prices only with the objective revenue"),
        ({"objective": "clicks", "prices": [1, 2]}, "prices only with the objective revenue"),
        ({"objective": "revenue", "prices": [1]}, "world.prices is a list of 1; accepted: a list of 2"),
        ({"objective": "revenue", "prices": [1, -1]}, r"world.prices\[1\] is -1"),
        ({"objective": "revenue", "prices": {"uniform": 3}}, "world.prices.uniform is 3; accepted: two numbers"),
        ({"objective": "revenue", "prices": {"fresh": [2, 1]}}, r"world.prices.fresh\[1\] is 1"),
        ({"objective": "revenue", "prices": {}}, "either uniform or fresh"),
    ):
        with pytest.raises(InvalidInput, match=words):
            from_spec(spec | fields)
    with pytest.raises(InvalidInput, match=r"world\.prices is"):
        from_spec({"kind": "dependent-click", "attraction": [0.5], "termination": [1], "prices": [1]})
