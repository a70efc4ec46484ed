"""Worlds whose lists are capped: the best list of regret keeps the cap as well."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rankloop import InvalidInput, catalogue, simulate
from rankloop.types import IntArray
from rankloop.worlds import from_spec
from small_worlds import every_list, settled
from test_objective_worlds import PAIRS, plain_value, random_spec

CAPPED = [pair for pair in PAIRS if pair[1] != "revenue" or pair[0] == "position-based"]


def fits(items: IntArray, groups: list[int], at_most: int) -> bool:
    own = [groups[i] for i in items]
    return all(own.count(group) <= at_most for group in set(own) - {-1})


@pytest.mark.parametrize(("kind", "objective"), CAPPED)
def test_the_best_list_under_a_cap_equals_brute_force(kind: str, objective: str) -> None:
    rng = np.random.default_rng(1)
    for _ in range(60):
        spec = random_spec(kind, objective, rng)
        caps = {"groups": rng.integers(-1, 3, 5).tolist(), "at_most": int(rng.integers(1, 3))}
        lists = [row for row in every_list(5, 3) if fits(row, caps["groups"], caps["at_most"])]
        if not lists:
            with pytest.raises(InvalidInput, match="all 3 slots can be filled"):
                from_spec({**spec, "caps": caps})
            continue
        visit = settled({**spec, "caps": caps}, 1).visit(rng)
        assert visit.best[0] == pytest.approx(max(plain_value(spec, row) for row in lists), rel=1e-12)
        request = visit.request
        assert request.groups.tolist() == [caps["groups"]]
        assert request.caps.tolist() == [caps["at_most"]]


@pytest.mark.parametrize("more", [{}, {"drift": {"abrupt": {"every": 50}}}])
def test_regret_is_that_of_capped_lists(more: dict[str, Any]) -> None:
    """The three best items share a group; a learner's regret falls to nearly nothing, and none is negative."""
    world: dict[str, Any] = {
        "kind": "cascade",
        "attraction": [0.9, 0.85, 0.8, 0.4, 0.3, 0.1],
        "k": 3,
        "caps": {"groups": [0, 0, 0, 1, 2, -1], "at_most": 1},
        **more,
    }
    result = simulate(["cascade-kl-ucb", "random"], world, rounds=2000, replications=10, seed=1)
    learner, random = (trace.regret.mean(axis=-1) for trace in result.traces)
    assert (np.diff(learner) >= -1e-9).all()
    if more:  # the best items change: learning may not pay
        return
    assert learner[-1] < 0.3 * random[-1]
    assert learner[-1] - learner[len(learner) // 2] < 10.0


def test_worlds_with_contexts_keep_the_cap() -> None:
    spec: dict[str, Any] = {
        "kind": "cascade",
        "attraction": {"logistic": {"items": 6, "dim": 2}},
        "context": {"dim": 2},
        "k": 3,
        "caps": {"groups": [0, 0, 1, 1, 2, 2], "at_most": 1},
    }
    rng = np.random.default_rng(3)
    instance = settled(spec, 4)
    policy = catalogue.build("cascade-lin-ts", instance.setting)
    state = policy.init(4)
    for _ in range(20):
        visit = instance.visit(rng)
        decision = policy.decide(state, visit.request, rng)
        assert all(sorted(i // 2 for i in row) == [0, 1, 2] for row in decision.items.tolist())
        assert (visit.value(decision.items) <= visit.best + 1e-12).all()


@pytest.mark.parametrize(
    ("caps", "field"),
    [
        ({"groups": [0, 0, 0], "at_most": 1}, "world.caps"),
        ({"groups": [0, 1], "at_most": 1}, "world.caps.groups"),
        ({"groups": [0, 1, -2], "at_most": 1}, "world.caps.groups[2]"),
        ({"groups": [0, 1, 2], "at_most": 0}, "world.caps.at_most"),
        ({"groups": [0, 1, 2]}, "world.caps.at_most"),
    ],
)
def test_invalid_caps_are_refused(caps: object, field: str) -> None:
    with pytest.raises(InvalidInput) as error:
        from_spec({"kind": "cascade", "attraction": [0.5, 0.4, 0.1], "k": 2, "caps": caps})
    assert error.value.field == field


def test_caps_are_refused_where_the_best_list_is_not_known() -> None:
    caps = {"groups": [0, 0, 1], "at_most": 1}
    for kind in ({"kind": "cascade", "k": 2}, {"kind": "choice", "bias": [1.0, 0.5]}):
        spec = {**kind, "attraction": [0.5, 0.4, 0.1], "objective": "revenue", "prices": [1, 2, 3], "caps": caps}
        with pytest.raises(InvalidInput, match="the best list is not known"):
            from_spec(spec)
