"""Every policy in every kind of world: it runs, or says in one sentence what it misses."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rankloop import catalogue, simulate
from rankloop.errors import InvalidInput, Unsupported
from rankloop.simulator import streams
from rankloop.types import EMPTY, IntArray, Request
from rankloop.worlds import KINDS, from_spec
from small_worlds import CASCADE, DEPENDENT, POSITION, ShowsAlways, matrix_file, random_users

ROUNDS, B = 30, 4
X = [[0.6, 0.8, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.6, -0.8], [0.0, 0.0, 1.0], [0.36, 0.48, 0.8]]
COVERAGE = [[0.9, 0.1, 0.0], [0.2, 0.7, 0.4], [0.5, 0.5, 0.5], [0.0, 0.3, 1.0], [0.8, 0.6, 0.1]]
WEIGHTS = [1.5, -1.0, 0.7]
ALPHA = [0.1, 0.5, 0.3, 0.4, 0.2]
FRESH: dict[str, Any] = {"fresh": {"items": 6, "dim": 3}, "weights": WEIGHTS}
VARIES: dict[str, Any] = {"budget": [3, 0, 2], "scenario": "exponential"}
POSITIONS: dict[str, Any] = {"kind": "item-position", "items": 5, "dim": 2, "k": 3}

WORLDS: dict[str, tuple[dict[str, Any], set[str]]] = {
    # the world, and what it offers
    "cascade": (CASCADE | {"features": X, "prior": {"a": 1, "b": 2}}, {"lasting", "features", "prior"}),
    "dependent-click": (DEPENDENT, {"lasting"}),
    "position-based": (POSITION, {"lasting", "bias"}),
    "matrix": ({"kind": "matrix", "dim": 2, "k": 2}, {"lasting", "features"}),
    "revenue": (
        CASCADE | {"features": X, "objective": "revenue", "prices": {"fresh": [0, 3]}},
        {"lasting", "features"},
    ),
    "contexts": (
        {"kind": "cascade", "k": 2, "attraction": {"logistic": {"items": 5, "dim": 2}}, "context": {"dim": 2}},
        {"lasting", "features", "context"},
    ),
    "changing-features": (
        POSITION | {"attraction": {"linear": {"items": 5, "dim": 2, "fresh_features": True}}},
        {"lasting", "features", "bias"},
    ),
    "attraction": ({"kind": "cascade-rewards", "attraction": ALPHA} | VARIES, {"lasting"}),
    "beta": (
        {"kind": "cascade-rewards", "attraction": {"beta": {"items": 5, "a": 1, "b": 3}}} | VARIES,
        {"lasting", "prior"},
    ),
    "logistic": (
        {"kind": "cascade-rewards", "attraction": {"logistic": {"items": 6, "dim": 3}}} | VARIES,
        {"lasting", "prior", "features"},
    ),
    "weights": ({"kind": "cascade-rewards", "features": X, "weights": WEIGHTS, "budget": 4}, {"lasting", "features"}),
    "fresh": ({"kind": "cascade-rewards"} | FRESH | VARIES, {"features"}),
    "coverage": (
        {"kind": "coverage-rewards", "coverage": COVERAGE, "weights": WEIGHTS} | VARIES,
        {"lasting", "features", "coverage"},
    ),
    "fresh-coverage": ({"kind": "coverage-rewards"} | FRESH | VARIES, {"features", "coverage"}),
    "pivot": ({"kind": "pivot", "pivot": 2, "chunk": 6} | VARIES, {"features", "coverage"}),
    "rated": ({"kind": "rated", "chunk": 6} | VARIES, {"features", "coverage"}),
    "choice": ({"kind": "choice", "attraction": ALPHA, "bias": [0.5, 1.0, 0.2]}, {"lasting", "bias"}),
    "item-position": (POSITIONS, {"lasting", "context"}),
    "item-position-features": (
        POSITIONS | {"features": X, "intercept": 0.5, "objective": "revenue", "prices": [1, 2, 0, 4, 3]},
        {"lasting", "context", "features"},
    ),
}
WORDS = {
    "features": "item features",
    "prior": "a Beta prior",
    "bias": "known position biases",
    "context": "a context of each visitor",
    "coverage": "items that cover topics",
    "lasting": "no item returns",
    "prices": "the objective 'revenue'",
}
SCENARIO_IDS = ("ind", "dep", "eps-ind", "c-ucb1", "gl-cdcm", "random")
CHOOSE_THEIR_LENGTH = ("ind", "dep", "eps-ind")
MAY_LEAVE_CHEAP_ITEMS_OUT = ("epoch-ucb-upb", "epoch-ucb-upb-star")
CANNOT_WEIGH_PRICES = ("ranked-lin-ts", "toprank")
IDS = [entry.id for entry in catalogue.entries()]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder: Path = tmp_path_factory.mktemp("worlds")
    rng = np.random.default_rng(1)
    x, label, coverage = rng.standard_normal((200, 3)), rng.integers(0, 4, 200), rng.dirichlet([0.5] * 3, size=200)
    np.savez(folder / "labelled.npz", x=x, label=label, coverage=coverage)
    np.savez(folder / "rated.npz", x=x, rate=rng.random(200), coverage=coverage)
    return {
        "pivot": str(folder / "labelled.npz"),
        "rated": str(folder / "rated.npz"),
        "matrix": matrix_file(folder, random_users(40, 6, seed=2)),
    }


def spec_of(name: str, files: dict[str, str]) -> dict[str, Any]:
    spec = WORLDS[name][0]
    return spec | {"file": files[spec["kind"]]} if spec["kind"] in files else spec


def legal(items: IntArray, request: Request, allowed: Any = True) -> bool:
    """Within the budget, distinct, allowed, empty slots last."""
    may = np.broadcast_to(allowed, (request.learners, request.items))
    for row, here in zip(items, may, strict=True):
        shown = row[row != EMPTY]
        if len(set(shown)) != len(shown) or (row[len(shown) :] != EMPTY).any():
            return False
        if shown.size and not (shown.min() >= 0 and shown.max() < request.items and here[shown].all()):
            return False
    return items.shape == (request.learners, request.k)


def play(id: str, spec: dict[str, Any], *, seed: int = 3, masks: bool = False, **params: Any) -> list[IntArray]:
    """Lists of ROUNDS rounds, each checked; `masks` allows a random part of the items in each round."""
    world = from_spec(spec).prepare(streams.shared(seed))
    instance = world.draw([streams.replication(seed, r) for r in range(B)], ROUNDS)
    policy = catalogue.build(id, instance.setting, **params)
    state = policy.init(B)
    visitors, rng = np.random.default_rng(seed), np.random.default_rng(seed + 1)
    lists = []
    for _ in range(ROUNDS):
        visit = instance.visit(visitors)
        allowed = rng.random((B, visit.request.items)) < rng.choice([0.0, 0.5, 0.9], size=(B, 1)) if masks else None
        request = replace(visit.request, allowed=allowed)
        decision = policy.decide(state, request, rng)
        assert legal(decision.items, request, True if allowed is None else allowed)
        policy.learn(state, decision, policy.feedback.keep(visit.click(decision.items)[0]))
        regret = visit.best - visit.value(decision.items)
        assert np.isfinite(regret).all()
        if spec["kind"] not in ("coverage-rewards", "matrix") and not masks:  # there the best list is approximated
            assert (regret >= -1e-9).all(), "no list is better than the best"
        lists.append(decision.items)
    return lists


def missing(id: str, name: str) -> list[str]:
    """What this policy needs and this world does not offer."""
    needs, offers = catalogue.find(id).needs, WORLDS[name][1]
    if id == "hybrid" and "context" in offers:  # it uses a context in products with item features
        needs = (*needs, "features")
    lacking = [need for need in needs if need not in offers]
    return [*lacking, "prices"] if id in CANNOT_WEIGH_PRICES and with_prices(name) else lacking


def with_prices(name: str) -> bool:
    return WORLDS[name][0].get("objective") == "revenue"


def test_every_kind_is_tested_here() -> None:
    """All but amounts, whose outcomes are no clicks and which has a test file of its own."""
    assert {spec["kind"] for spec, _ in WORLDS.values()} == set(KINDS) - {"amounts"}


# Everything everywhere


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("id", IDS)
def test_a_policy_runs_or_says_what_is_missing(id: str, name: str, files: dict[str, str]) -> None:
    spec = spec_of(name, files)
    lacks = missing(id, name)
    if lacks:
        with pytest.raises(Unsupported) as refused:
            play(id, spec)
        sentence = str(refused.value)
        assert sentence.startswith(f"{id} ")
        assert any(WORDS[need] in sentence for need in lacks)
        assert sentence.endswith(".")
        assert sentence.count(". ") == sentence.count("\n") == 0
    else:
        lists = play(id, spec)
        shorter = (*CHOOSE_THEIR_LENGTH, *(MAY_LEAVE_CHEAP_ITEMS_OUT if with_prices(name) else ()))
        assert id in shorter or all((items != EMPTY).all() for items in lists), "full lists"


@pytest.mark.parametrize("name", WORLDS)
def test_regrets_and_rewards_are_numbers(name: str, files: dict[str, str]) -> None:
    ids = [id for id in IDS if not missing(id, name)]
    result = simulate(ids, spec_of(name, files), rounds=6, replications=B, seed=5)
    for id in ids:
        assert np.isfinite(result[id].regret).all()
        assert np.isfinite(result[id].reward).all()


@pytest.mark.parametrize("kind", ["fresh", "fresh-coverage", "pivot", "rated"])
@pytest.mark.parametrize("id", [e.id for e in catalogue.entries() if "lasting" in e.needs])
def test_policies_that_learn_about_items_are_refused_where_no_item_returns(
    id: str, kind: str, files: dict[str, str]
) -> None:
    with pytest.raises(Unsupported, match=rf"{id} learns about each item, and in this world no item returns\.$"):
        simulate([id], spec_of(kind, files), rounds=5, replications=1)


@pytest.mark.parametrize("id", ["cascade-ucb1", "gts", "ts-cascade", "toprank", "mnl-bandit", "pbm-ucb", "ucr"])
def test_policies_that_learn_about_items_say_that_items_must_return(id: str) -> None:
    assert "lasting" in catalogue.find(id).needs


@pytest.mark.parametrize("name", ["attraction", "weights", "coverage", "choice", "item-position"])
def test_a_refusal_gives_advice_that_can_be_followed(name: str, files: dict[str, str]) -> None:
    """A field that the world is said to take is one that it takes."""
    spec = spec_of(name, files)
    with pytest.raises(InvalidInput) as unknown:
        from_spec(spec | {"nonsense": 1})
    accepted = unknown.value.accepted.removeprefix("only the fields ").split(", ")
    for id in (id for id in IDS if missing(id, name)):
        with pytest.raises(Unsupported) as refused:
            simulate([id], spec, rounds=5, replications=1)
        for field in re.findall(r"give (?:the world )?'(\w+)", str(refused.value)):
            assert field in accepted, f"{refused.value} But {spec['kind']} takes {accepted}"


@pytest.mark.parametrize("name", ["attraction", "coverage", "choice", "item-position"])
@pytest.mark.parametrize("id", ["ts-beta", "bayes-ucb", "ensemble"])
def test_a_prior_may_be_given_to_the_policy(id: str, name: str) -> None:
    assert len(play(id, WORLDS[name][0], a=1.0, b=2.0)) == ROUNDS


# Scenarios, budgets and items that change


@pytest.mark.parametrize("scenario", ["vanilla", "exponential"])
@pytest.mark.parametrize("name", ["coverage", "fresh-coverage", "pivot", "rated"])
@pytest.mark.parametrize("id", SCENARIO_IDS)
def test_the_papers_policies_run_in_both_scenarios_with_any_budget(
    id: str, name: str, scenario: str, files: dict[str, str]
) -> None:
    """Budgets 4, 0, 1 by round; items that stay, and items that change."""
    lists = play(id, spec_of(name, files) | {"scenario": scenario, "budget": [4, 0, 1]})
    assert [items.shape[1] for items in lists[:6]] == [4, 0, 1, 4, 0, 1]


@pytest.mark.parametrize("name", ["coverage", "fresh-coverage"])
@pytest.mark.parametrize("id", SCENARIO_IDS)
def test_the_papers_policies_run_where_items_come_and_go(id: str, name: str) -> None:
    """Another part of the items is allowed in every round, at times none."""
    lists = play(id, WORLDS[name][0] | {"budget": [3, 0, 2]}, masks=True)
    assert any((items == EMPTY).any() for items in lists)


@pytest.mark.parametrize("id", SCENARIO_IDS)
def test_only_policies_that_choose_a_length_show_less_than_the_budget(id: str) -> None:
    """Hopeless items in the exponential scenario: policies that choose a length show nothing, others fill the list.

    c̄ is near (-1, -1, -1)/√3, so success is near σ(-3√3) < 1/100; one item pays above p - 0.6(1-p) = -0.2, p = 1/4.
    """
    hopeless = [[0.1 * c for c in row] for row in COVERAGE]
    spec = {"kind": "coverage-rewards", "coverage": hopeless, "weights": [3, 3, 3], "scenario": "exponential"}
    shown = [(items != EMPTY).sum(axis=1).mean() for items in play(id, spec | {"budget": 3})[-5:]]
    assert np.mean(shown) < 1 if id in CHOOSE_THEIR_LENGTH else np.mean(shown) == 3


def test_in_the_vanilla_scenario_nobody_shows_less_than_the_budget() -> None:
    """A longer list never costs there, and ties go to the longest."""
    for id in ("ind", "dep", "c-ucb1", "gl-cdcm", "random"):
        for items in play(id, WORLDS["coverage"][0] | {"scenario": "vanilla", "budget": 3}):
            assert (items != EMPTY).all()


@pytest.mark.parametrize(
    ("id", "name"),
    [(id, name) for id in IDS for name in ("attraction", "logistic", "coverage") if not missing(id, name)],
)
def test_a_budget_of_nothing_is_legal_for_everyone(id: str, name: str) -> None:
    """Budget 0 in every round: the empty list is the best one and costs ℓ_0, and no policy stumbles over it."""
    result = simulate([id], WORLDS[name][0] | {"budget": 0}, rounds=10, replications=2)[id]
    assert not result.regret.any()
    np.testing.assert_allclose(result.reward[-1], 10 * (0.8 - 1.0), rtol=1e-9)


@pytest.mark.parametrize("id", [e.id for e in catalogue.entries() if set(e.needs) <= {"lasting", "bias"}])
def test_one_item_and_one_slot_are_enough(id: str) -> None:
    result = simulate([id], {"kind": "choice", "attraction": [0.5], "bias": [0.8]}, rounds=20, replications=3)[id]
    np.testing.assert_allclose(result.regret, 0.0, atol=1e-12)


# Regret


def test_the_best_list_has_no_regret() -> None:
    """Sorted by attraction and cut: of [1, 3, 2] with exponential rewards some length is the best."""
    spec = {"kind": "cascade-rewards", "attraction": ALPHA, "budget": 3, "scenario": "exponential"}
    finals = []
    for length in range(4):
        items = [*[1, 3, 2][:length], *[EMPTY] * (3 - length)]

        def shows(setting: Any, items: list[int] = items) -> ShowsAlways:
            return ShowsAlways(items)

        finals.append(simulate([shows], spec, rounds=10, replications=2)["shows"].final)
    assert min(final.max() for final in finals) == pytest.approx(0.0, abs=1e-12)
    assert max(final.min() for final in finals) > 0.1, "the other lengths cost"


@pytest.mark.parametrize("id", ["ind", "c-ucb1", "gl-cdcm"])
def test_regret_grows_by_what_the_shown_list_lacks(id: str) -> None:
    """Σ best - value over the rounds is what the simulator reports."""
    spec = WORLDS["fresh"][0]
    world = from_spec(spec).prepare(streams.shared(8))
    instance = world.draw([streams.replication(8, r) for r in range(B)], ROUNDS)
    params = catalogue.resolve(id, {})
    policy = catalogue.build(id, instance.setting)
    state, visitors, rng = policy.init(B), streams.visitors(8, 0), streams.policy(8, 0, id, params)
    lost = np.zeros(B)
    for _ in range(ROUNDS):
        visit = instance.visit(visitors)
        decision = policy.decide(state, visit.request, rng)
        policy.learn(state, decision, visit.click(decision.items)[0])
        lost += visit.best - visit.value(decision.items)
    final = simulate([id], spec, rounds=ROUNDS, replications=B, seed=8)[id].final
    np.testing.assert_allclose(final, lost, rtol=1e-12, atol=1e-12)


# Processes


def test_the_number_of_processes_changes_nothing() -> None:
    """Item-position in two chunks."""
    ids = ["ucr", "epoch-ucb-upb-star"]
    one, two = (simulate(ids, POSITIONS, rounds=20, replications=4, seed=6, chunk=2, jobs=jobs) for jobs in (1, 2))
    for id in ids:
        np.testing.assert_array_equal(one[id].regret, two[id].regret)
        np.testing.assert_array_equal(one[id].reward, two[id].reward)


@pytest.mark.parametrize("name", ["fresh", "fresh-coverage", "choice", "item-position", "pivot", "rated"])
def test_the_same_seed_gives_the_same_numbers(name: str, files: dict[str, str]) -> None:
    id = "mnl-bandit" if "lasting" in WORLDS[name][1] else "eps-ind"
    one, same, other = (
        simulate([id], spec_of(name, files), rounds=20, replications=3, seed=seed)[id].reward for seed in (6, 6, 7)
    )
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()
