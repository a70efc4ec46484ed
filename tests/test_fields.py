"""Fields of items, of candidates and of contexts: taken, logged, exported, erased and read back as they were given."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from postgres_server import Server, database, server  # noqa: F401
from rankloop.errors import InvalidInput
from rankloop.eventlog import MemoryStore, SqliteStore
from rankloop.eventlog.erasure import exported
from rankloop.eventlog.erasure.tombstones import erase
from rankloop.eventlog.events import DecisionMade, ItemsPut, decode
from rankloop.eventlog.export import export, import_
from rankloop.eventlog.postgres import PostgresStore
from rankloop.eventlog.store import Store
from rankloop.schema.limits import MAX_RAW_ENTRIES, MAX_RAW_FIELDS, MAX_RAW_TEXT
from rankloop.schema.request_bodies import ItemsAnswer
from rankloop.serving import Ranker, RankerConfig
from rankloop.serving.items.raw_fields import RawFields
from rankloop.serving.verification import compare_snapshot, decide_again

PLAIN: dict[str, Any] = {"policy": "cascade-ucb1", "slots": 2}
TEA: dict[str, Any] = {
    "price": 9.5,
    "category": "tea",
    "organic": True,
    "tags": ["green", "loose"],
    "taste": [0.5, -1.0],
    "brand": None,
}
PHONE: dict[str, Any] = {"device": "phone", "hour": 23.0}


def shop(store: Store | None = None, **settings: Any) -> Ranker:
    ranker = Ranker(RankerConfig.of({**PLAIN, **settings}), store=store)
    ranker.put_items([{"id": "a", "fields": TEA}, {"id": "b", "fields": {"price": 3}}, {"id": "c"}])
    return ranker


def decisions(ranker: Ranker) -> list[DecisionMade]:
    ranker.flush()
    return [e for e in map(decode, ranker.store.read(ranker.name)) if type(e) is DecisionMade]


def read(text: str | None) -> Any:
    return None if text is None else json.loads(text)


# Fields are kept as they were given


def test_items_have_the_fields_that_were_put_last_also_after_a_snapshot_and_a_replay() -> None:
    store = MemoryStore()
    ranker = shop(store)
    ranker.put_items([{"id": "b"}, {"id": "c", "fields": {"price": 1.5}}])
    expected = {"a": TEA, "b": {"price": 3.0}, "c": {"price": 1.5}}
    assert {item.id: item.fields for item in ranker.items()} == expected
    ranker.snapshot()
    ranker.put_items([{"id": "b", "fields": {}}])
    ranker.remove_items(["a"])
    assert ranker.item("b").fields in (None, {})
    again = Ranker(ranker.config, store=store)
    assert again.items() == ranker.items()
    found = compare_snapshot(store, ranker.name, ranker.config)
    assert found.usable
    assert found.differences == []


def test_the_block_of_fields_is_written_anew_when_most_of_it_was_replaced() -> None:
    fields = RawFields()
    expected: dict[int, dict[str, Any]] = {}
    for round in range(50):
        for column in range(0, 20, 3):
            expected[column] = {"round": float(round), "name": "x" * (column + round)}
            fields.put(column, expected[column])
        fields.remove(round % 20)
        expected.pop(round % 20, None)
        assert {column: one for column in range(25) if (one := fields.get(column)) is not None} == expected
        assert fields.nbytes < 20_000
    again = RawFields()
    again.restore(fields.arrays())
    assert [again.get(column) for column in range(25)] == [fields.get(column) for column in range(25)]


def test_the_log_has_the_fields_of_items_of_candidates_and_of_contexts() -> None:
    ranker = shop()
    ranker.rank(context=PHONE, items=[{"id": "c", "fields": {"far": 2}}, {"id": "a"}, {"id": "gone"}])
    ranker.rank(context=PHONE)
    ranker.rank()
    put = next(e for e in map(decode, ranker.store.read(ranker.name)) if type(e) is ItemsPut)
    assert [item.fields for item in put.items] == [TEA, {"price": 3.0}, None]
    one, two, three = decisions(ranker)
    assert read(one.context_fields) == PHONE
    assert read(one.item_fields) == [None, {"far": 2.0}]
    assert (two.item_fields, three.context_fields, three.item_fields) == (None, None, None)
    assert decide_again(ranker.store, ranker.name).equal == 3


def test_fields_without_effect_are_named_in_the_answer_and_no_error() -> None:
    ranker = shop()
    made = ranker.rank(
        context={"hour": 3, "device": "tv"}, items=[{"id": "a", "fields": {"x": 1, "y": 2}}, {"id": "b"}]
    )
    assert made.unknown_fields == ("context.hour", "context.device", "items.x", "items.y")
    assert made.answer().unknown_fields == made.unknown_fields
    assert ranker.rank().unknown_fields == ()
    told = ranker.put_items([{"id": "d", "fields": {"size": 1}}, {"id": "e", "fields": {"size": 2, "weight": 3}}])
    assert told == ItemsAnswer(("size", "weight"))
    assert ranker.put_items([{"id": "f"}]) is None


# What cannot be a field is refused in one sentence


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), 1e308, -1e16, 10**400, "x" * (MAX_RAW_TEXT + 1), b"x", {}]
)
def test_a_value_that_no_field_has_is_refused_with_nothing_changed(value: object) -> None:
    ranker = shop()
    before = ranker.items(), ranker.position
    odd: dict[str, Any] = {"price": value}
    for call in (
        lambda: ranker.put_items([{"id": "d"}, {"id": "a", "fields": {"price": value}}]),
        lambda: ranker.rank(context=odd),
        lambda: ranker.rank(items=[{"id": "a", "fields": {"price": value}}]),
        lambda: ranker.rank(context={"price": [odd["price"]]}),
    ):
        with pytest.raises(InvalidInput, match=r"price(\[0\])? is .*; accepted: .*\.$") as told:
            call()
        assert str(told.value).count("\n") == 0
    assert (ranker.items(), ranker.position) == before


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {f"f{n}": 1.0 for n in range(MAX_RAW_FIELDS + 1)},
            "; accepted: a .*mapping",
        ),
        (
            {"tags": ["x"] * (MAX_RAW_ENTRIES + 1)},
            f"of at most {MAX_RAW_ENTRIES} numbers or",
        ),
        ({"": 1.0}, "is ''; accepted: a text of 1 to 200 characters"),
        ({"tag": "\ud800"}, "accepted: texts of valid Unicode characters"),
    ],
)
def test_too_many_fields_and_broken_text_are_refused(fields: dict[str, Any], said: str) -> None:
    ranker = shop()
    before = ranker.position
    with pytest.raises(InvalidInput, match=said):
        ranker.rank(context=fields)
    with pytest.raises(InvalidInput, match=said):
        ranker.put_items([{"id": "a", "fields": fields}])
    assert ranker.position == before


def test_a_ranker_with_a_context_of_numbers_takes_no_fields_in_its_place() -> None:
    ranker = Ranker(RankerConfig.of({"policy": "lin-ts-ltr", "slots": 1, "dim": 2, "context": 2}))
    ranker.put_items([{"id": "a", "features": [1.0, 0.0]}])
    with pytest.raises(
        InvalidInput, match=r"context is \{'device': 'phone'.*; accepted: 2 numbers, as ranker\.context"
    ):
        ranker.rank(context=PHONE)


# Export, import and erasure


def test_an_imported_log_has_the_fields_of_the_exported_one(tmp_path: Path) -> None:
    ranker = shop()
    made = ranker.rank(context=PHONE, items=[{"id": "c", "fields": {"far": 2}}, {"id": "a"}])
    ranker.feedback(made.id, clicked=[0], final=True)
    ranker.rank()
    ranker.flush()
    export(ranker.store, ranker.name, ranker.config, tmp_path / "log.parquet")
    copy = MemoryStore()
    import_(tmp_path / "log.parquet", copy, "copy")
    events = [e for e in map(decode, copy.read("copy")) if type(e) is DecisionMade]
    texts = [(one.context_fields, one.item_fields) for one in events]
    assert texts == [(one.context_fields, one.item_fields) for one in decisions(ranker)]
    assert Ranker(ranker.config, name="copy", store=copy).items() == ranker.items()


@pytest.fixture(params=["sqlite", "postgres"])
def erasable(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    sqlite = request.param == "sqlite"
    store: Any = SqliteStore(tmp_path / "log.db") if sqlite else PostgresStore(request.getfixturevalue("database"))
    yield store
    store.close()


HIDDEN = ("Elm Street", "night owl", "77123")
VISITS: tuple[tuple[str | None, dict[str, Any]], ...] = (
    ("bob", {"device": "phone", "street": "Elm Street", "likes": ["tea", "night owl"], "zip": 77123}),
    ("eve", {"device": "phone", "likes": ["tea"], "zip": 12}),
    (None, {"device": "tv"}),
)


def test_erasing_a_visitor_leaves_only_texts_that_others_have(erasable: Any) -> None:
    ranker = shop(erasable)
    for visitor, context in VISITS:
        made = ranker.rank(visitor=visitor, context=context, items=[{"id": "a", "fields": {"street": "Elm Street"}}])
        ranker.feedback(made.id, clicked=[0], final=True)
    ranker.snapshot()
    before = decisions(ranker)
    ranker._writer.close()
    assert erase(erasable, ["bob"], 1.0).decisions == 1
    bob, *others = (e for e in map(decode, erasable.read(ranker.name)) if type(e) is DecisionMade)
    assert [one.context_fields for one in others] == [one.context_fields for one in before[1:]]
    assert bob.item_fields is None
    left = read(bob.context_fields)
    assert left.keys() == {"device", "street", "likes"}
    assert (left["device"], left["likes"][0]) == ("phone", "tea")
    assert all(re.fullmatch(r"erased-[0-9a-f]{16}", one) for one in (left["street"], left["likes"][1]))
    assert not any(text in str(bob.context_fields) for text in HIDDEN)
    assert decide_again(erasable, ranker.name).equal == 3


def test_erasing_a_visitor_in_an_exported_file_does_the_same(tmp_path: Path) -> None:
    ranker, file = shop(), tmp_path / "log.parquet"
    for visitor, context in VISITS:
        ranker.rank(visitor=visitor, context=context, items=[{"id": "a", "fields": {"street": "Elm Street"}}])
    ranker.flush()
    export(ranker.store, ranker.name, ranker.config, file)
    assert exported.erase(file, ["bob"]).decisions == 1
    copy = MemoryStore()
    import_(file, copy, "copy")
    bob, eve, _ = (e for e in map(decode, copy.read("copy")) if type(e) is DecisionMade)
    assert bob.item_fields is None
    assert eve.item_fields is not None
    assert read(eve.context_fields) == VISITS[1][1]
    assert read(bob.context_fields)["device"] == "phone"
    assert not any(text in str(bob.context_fields) for text in HIDDEN)
