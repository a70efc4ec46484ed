"""Caps of a ranker: at most n items of a list with one value of a field, in whatever list it shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from own_parts.planner import own_planner
from rankloop import catalogue
from rankloop.catalogue import registry
from rankloop.errors import InvalidInput, RankloopError, Unsupported
from rankloop.eventlog import MemoryStore
from rankloop.eventlog.events import DecisionMade, decode
from rankloop.eventlog.store import Store
from rankloop.schema import RankerSettings
from rankloop.serving import Ranker, RankerConfig
from rankloop.serving.items.field_groups import FieldGroups
from rankloop.serving.ranking import Ranking
from rankloop.serving.verification import compare_snapshot, decide_again
from rankloop.types import IntArray

BRANDS = ("a", "a", "a", "a", "b", "b", "b", "c", "c", None, None, "d")
"""Of item-0 to item-11."""


def catalog() -> list[dict[str, Any]]:
    """Items in the default order of their numbers; the even ones are of one colour."""
    return [
        {"id": f"item-{i}", "default_position": i, "fields": {"brand": brand, "colour": i % 2 == 0}}
        for i, brand in enumerate(BRANDS)
    ]


def ranker(store: Store | None = None, **settings: Any) -> Ranker:
    made = Ranker(RankerConfig.of({"policy": "gts", "slots": 6, "seed": 3, **settings}), store=store)
    made.put_items(catalog())
    return made


def brands(ids: Sequence[str]) -> Counter[str | None]:
    return Counter(BRANDS[int(id.removeprefix("item-"))] for id in ids)


def most(ranking: Ranking) -> int:
    """Items of the commonest brand of a list."""
    return max((n for brand, n in brands(ranking.ids).items() if brand is not None), default=0)


def teach(ranker: Ranker, lists: int, seed: int = 1) -> list[Ranking]:
    """Rank and report clicks, mostly on items of brand a."""
    rng, made = np.random.default_rng(seed), []
    for n in range(lists):
        ranking = ranker.rank(visitor=f"v{n}")
        chance = [0.7 if brand in ("a", None) else 0.2 for brand in map(BRANDS.__getitem__, map(number, ranking.ids))]
        clicked = np.flatnonzero(rng.random(len(chance)) < chance)[:1].tolist()
        ranker.feedback(ranking.id, clicked=clicked)
        made.append(ranking)
    return made


def number(id: str) -> int:
    return int(id.removeprefix("item-"))


def test_every_list_keeps_the_caps_and_is_decided_again() -> None:
    store = MemoryStore()
    made = ranker(store, caps={"brand": 1}, traffic=0.5)
    lists = teach(made, 60)
    assert {ranking.group for ranking in lists} == {"treatment", "control"}
    assert all(most(ranking) == 1 and len(ranking.ids) == 6 for ranking in lists)  # 4 brands and 2 items without one
    assert not any(ranking.approximate for ranking in lists)
    control = next(ranking for ranking in lists if ranking.group == "control")
    assert control.ids == ("item-0", "item-4", "item-7", "item-9", "item-10", "item-11")
    made.flush()
    result = decide_again(store, made.name)
    assert result.decided == result.equal > 0
    assert result.differences == []


def test_caps_change_while_the_ranker_runs() -> None:
    """What was learned stays; later lists keep the new caps, and the log is decided again with those of their time."""
    store = MemoryStore()
    made = ranker(store)
    before = teach(made, 30)
    assert max(map(most, before)) > 1
    learned = {name: array.copy() for name, array in made._replica.learners.state.arrays()}
    made.adjust(RankerConfig.of({**made.config.as_mapping(), "caps": {"brand": 1}}))
    for name, array in made._replica.learners.state.arrays():
        np.testing.assert_array_equal(array, learned[name])
    assert max(map(most, teach(made, 30))) == 1
    plain = {name: value for name, value in made.config.as_mapping().items() if name != "caps"}
    made.adjust(RankerConfig.of({**plain, "caps": {"colour": 2, "brand": 2}}))
    for ranking in teach(made, 30):
        assert most(ranking) <= 2
        assert len(ranking.ids) == 4  # two of each colour
        assert ranking.approximate
        assert ranking.answer().approximate
    made.adjust(RankerConfig.of(plain))
    assert made.config.caps is None
    assert max(map(most, teach(made, 30))) > 2
    made.flush()
    result = decide_again(store, made.name)
    assert result.decided == result.equal == 120
    made.snapshot()
    found = compare_snapshot(store, made.name, made.config)
    assert found.usable
    assert found.differences == []
    events = [event for event in map(decode, store.read(made.name)) if isinstance(event, DecisionMade)]
    assert [event.approximate for event in events] == [False] * 60 + [True] * 30 + [False] * 30


def test_values_of_request_items_count() -> None:
    """A value of the request replaces the stored one; null and a list take the item out of the cap."""
    store = MemoryStore()
    made = ranker(store, caps={"brand": 1}, slots=12)
    same = made.rank(items=[{"id": f"item-{i}", "fields": {"brand": "new"}} for i in range(6)])
    assert len(same.ids) == 1
    assert same.answer().unknown_fields == ()
    own = made.rank(items=[{"id": f"item-{i}", "fields": {"brand": f"new-{i}"}} for i in range(4)])
    assert len(own.ids) == 4
    none = made.rank(
        items=[{"id": f"item-{i}", "fields": {"brand": value}} for i, value in enumerate([None, ["a"], "a"])]
    )
    assert len(none.ids) == 3
    mixed = made.rank(items=[{"id": "item-0"}, {"id": "item-4", "fields": {"brand": "a"}}, {"id": "item-7"}])
    assert len(mixed.ids) == 2
    assert "item-7" in mixed.ids
    kinds = made.rank(
        items=[{"id": f"item-{i}", "fields": {"brand": v}} for i, v in enumerate([1, 1.0, True, "1", "true"])]
    )
    assert len(kinds.ids) == 4  # 1 and 1.0 are equal; true and the texts are other values
    made.flush()
    assert decide_again(store, made.name).equal == 5


def test_pins_count_and_may_exceed_a_cap() -> None:
    for group in (1.0, 0.0):
        made = ranker(caps={"brand": 1}, traffic=group)
        for _ in range(10):
            ranking = made.rank(pin={0: "item-0", 2: "item-1"})
            assert ranking.ids[0] == "item-0"
            assert ranking.ids[2] == "item-1"
            found = brands(ranking.ids)
            assert found["a"] == 2
            assert max(n for brand, n in found.items() if brand not in ("a", None)) == 1
            assert len(ranking.ids) == 6


def test_a_cap_that_cannot_be_met_makes_lists_shorter() -> None:
    for traffic in (1.0, 0.0):
        made = ranker(caps={"brand": 1}, traffic=traffic)
        assert len(made.rank(candidates=["item-0", "item-1", "item-2", "item-9"]).ids) == 2
        assert len(made.rank(candidates=["item-0", "item-1", "item-2"], k=1).ids) == 1


def test_limits_of_exploration_keep_the_caps() -> None:
    for limit in ({"explore_from": 2}, {"explore_daily": 3}):
        store = MemoryStore()
        made = ranker(store, caps={"brand": 1}, **limit)
        assert {most(ranking) for ranking in teach(made, 40)} == {1}
        made.flush()
        assert decide_again(store, made.name).equal == 40


def test_control_lists_show_the_callers_order_as_given() -> None:
    made = ranker(caps={"brand": 1}, traffic=0.0)
    assert made.rank(order=["item-2", "item-1", "item-0", "item-5"]).ids == ("item-2", "item-1", "item-0", "item-5")


def test_caps_follow_the_items() -> None:
    """A changed brand counts from the next list on, also in new columns and after a restart."""
    store = MemoryStore()
    made = ranker(store, caps={"brand": 1}, slots=40)
    assert len(made.rank().ids) == 6
    made.put_items([{"id": "item-1", "fields": {"brand": "e"}}])
    assert len(made.rank().ids) == 7
    made.put_items([{"id": f"new-{i}", "fields": {"brand": f"new-{i}"}} for i in range(20)])
    assert len(made.rank().ids) == 27
    made.put_items([{"id": f"new-{i}"} for i in range(20)])  # without fields: they keep theirs
    made.remove_items(["item-11"])
    made.put_items([{"id": "item-11", "fields": {"brand": "a"}}])
    assert len(made.rank().ids) == 26
    made.snapshot()
    again = Ranker(made.config, store=store)
    assert len(again.rank().ids) == 26
    again.flush()
    assert decide_again(store, made.name).equal == 5


@pytest.mark.parametrize(
    ("caps", "field"),
    [
        ({}, "ranker.caps"),
        ({"brand": 0}, "ranker.caps.brand"),
        ({"brand": 1.5}, "ranker.caps.brand"),
        ({"brand": "two"}, "ranker.caps.brand"),
        ({f"f{i}": 1 for i in range(9)}, "ranker.caps"),
        (3, "ranker.caps"),
    ],
)
def test_invalid_caps_are_refused(caps: object, field: str) -> None:
    with pytest.raises(InvalidInput) as error:
        RankerSettings.of({"slots": 2, "caps": caps})
    assert error.value.field == field


def test_a_policy_that_keeps_no_caps_refuses_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))
    catalogue.load("tests.own_parts.planner:own_planner")
    with pytest.raises(Unsupported, match=r"leave out ranker\.caps"):
        RankerConfig(policy="own-planner", slots=2, caps={"brand": 1})
    assert not own_planner(RankerConfig(policy="gts", slots=2).setting(3, np.ones(3))).keeps_caps


@settings(max_examples=40, deadline=None)
@given(
    id=st.sampled_from([entry.id for entry in catalogue.entries()]),
    seed=st.integers(0, 10**6),
    cap=st.integers(1, 3),
    two=st.booleans(),
    traffic=st.sampled_from([0.0, 0.5, 1.0]),
)
def test_any_policy_serves_capped_lists(id: str, seed: int, cap: int, two: bool, traffic: float) -> None:
    """Whatever is asked, lists keep the caps and are decided again."""
    store, rng = MemoryStore(), np.random.default_rng(seed)
    caps = {"brand": cap} | ({"colour": 2} if two else {})
    more: dict[str, Any] = {"slots": 4, "seed": seed, "traffic": traffic, "caps": caps}
    try:
        config = RankerConfig.of({"policy": id, "rounds": 1000, **more})
    except RankloopError:
        try:
            config = RankerConfig.of({"policy": id, **more})
        except RankloopError:
            return  # it needs features, biases or a prior
    made = Ranker(config, store=store)
    made.put_items(catalog())
    for n in range(12):
        asked: dict[str, Any] = {"k": int(rng.integers(0, 5)), "visitor": f"v{n}"}
        if n % 3 == 1:
            asked["candidates"] = [f"item-{i}" for i in np.flatnonzero(rng.random(12) < 0.6)]
        if n % 4 == 2:
            asked["exclude"] = [f"item-{i}" for i in np.flatnonzero(rng.random(12) < 0.3)]
        try:
            ranking = made.rank(**asked)
        except Unsupported:
            continue  # candidates of the request
        assert most(ranking) <= cap
        assert not two or max(Counter(number(id) % 2 for id in ranking.ids).values(), default=0) <= 2
        made.feedback(ranking.id, clicked=[0] if ranking.ids and rng.random() < 0.5 else [])
    made.flush()
    result = decide_again(store, made.name)
    assert result.decided == result.equal
    assert result.differences == []


def test_codes_of_values_kept_while_items_are_put_are_those_of_all_items_at_once() -> None:
    rng = np.random.default_rng(5)
    values = ['"a"', '"b"', "1", "1.0", "true", "null", '["a"]', "-2.5e3", '"\\u00e9"']
    texts: dict[int, bytes] = {}
    groups = FieldGroups(lambda: sorted(texts.items()))
    names = ("x", "y")
    for step in range(300):
        column = int(rng.integers(0, 5 + step // 4))
        given = ", ".join(f'"{name}": {rng.choice(values)}' for name in names if rng.random() < 0.8)
        texts[column] = f"{{{given}}}".encode()
        groups.put(column, texts[column])
        if step % 10 == 9:
            capacity = max(texts) + 1
            fresh = FieldGroups(lambda: sorted(texts.items()))
            for kept, one in zip(groups.of_items(names, capacity), fresh.of_items(names, capacity), strict=True):
                assert _partition(kept[:capacity]) == _partition(one[:capacity])


def _partition(codes: IntArray) -> set[frozenset[int]]:
    return {frozenset(np.flatnonzero(codes == code).tolist()) for code in set(codes.tolist()) - {-1}}


FEATURES: dict[str, Any] = {"items": {"brand": "category", "tags": "tags", "price": "number"}}


def test_a_cap_on_an_undeclared_field_is_refused() -> None:
    given: dict[str, Any] = {"slots": 6, "features": FEATURES}
    for name in ("bran", "tags", "colour"):
        with pytest.raises(InvalidInput, match=r"a field of items in ranker\.features with one value") as error:
            RankerConfig.of({**given, "caps": {name: 1}})
        assert error.value.meant == ("brand" if name == "bran" else None)
    made = Ranker(RankerConfig.of({**given, "caps": {"brand": 1, "price": 3}}))
    made.put_items([{"id": f"item-{i}", "fields": {"brand": brand}} for i, brand in enumerate(BRANDS)])
    assert most(made.rank()) == 1
    assert most(made.rank(items=[{"id": f"item-{i}", "fields": {"price": 2.0}} for i in range(8)])) == 1


def test_caps_stay_while_features_are_inferred() -> None:
    """Nobody has declared fields: a cap may name one that the first items do not have."""
    store = MemoryStore()
    made = Ranker(RankerConfig.of({"slots": 6, "features": "auto", "caps": {"brand": 1}}), store=store)
    made.put_items([{"id": f"other-{i}", "fields": {"price": float(i)}} for i in range(200)])
    made.put_items([{"id": f"item-{i}", "fields": {"brand": b, "price": 1.0}} for i, b in enumerate(BRANDS)])
    assert made.config.feature_settings is not None
    assert made.config.caps == {"brand": 1}
    for n in range(10):
        ranking = made.rank(candidates=[f"item-{i}" for i in range(12)])
        assert most(ranking) == 1
        made.feedback(ranking.id, clicked=[n % 3])
    made.flush()
    assert decide_again(store, made.name).equal == 10
