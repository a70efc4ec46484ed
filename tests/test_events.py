"""What stands in the log: every record survives being written and read, alone and with others."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, get_type_hints

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankloop.errors import InvalidInput
from rankloop.eventlog.events import (
    KINDS,
    ConfigChanged,
    DecisionMade,
    EventFollower,
    EventSkipped,
    FeedbackReceived,
    GuardrailReset,
    GuardrailTripped,
    HistoryPruned,
    Impression,
    ItemsPut,
    ItemsRemoved,
    LogEvent,
    WindowClosed,
    Withdrawn,
    decode,
    decode_all,
    decode_all_as,
    decode_as,
)
from rankloop.eventlog.events import decoding as module
from rankloop.eventlog.store import LogEntry
from rankloop.propensity import Propensity
from rankloop.schema import Item
from rankloop.schema.limits import MAX_POSITION
from rankloop.serving.items.item_table import ItemTable

numbers = st.floats(allow_nan=False, width=64)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
times = st.floats(0, 2e9)


def arrays(*shape: int) -> st.SearchStrategy[Any]:
    """Floats of a shape."""
    size = int(np.prod(shape))
    return st.lists(numbers, min_size=size, max_size=size).map(lambda values: np.array(values).reshape(shape))


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """That, or nothing."""
    return st.none() | strategy


@st.composite
def propensities(draw: st.DrawFn, k: int) -> Propensity:
    """Of every kind."""
    kind = draw(st.sampled_from(["deterministic", "exact", "monte-carlo"]))
    if kind == "deterministic":
        return Propensity(kind)
    exact = Propensity(kind, 0, draw(numbers), draw(arrays(k)), draw(arrays(k)))
    if kind == "exact":
        return exact
    errors = {"list_error": draw(numbers), "prefix_error": draw(arrays(k)), "slot_error": draw(arrays(k))}
    return replace(exact, draws=draw(st.integers(1, 1000)), **errors)


columns = st.lists(st.integers(0, 9), max_size=5).map(lambda values: np.array(values, dtype=np.int32))


@st.composite
def lists(draw: st.DrawFn) -> DecisionMade:
    """Lists with all that can be said of them."""
    k, d = draw(st.integers(0, 4)), draw(st.integers(1, 3))
    whole = st.lists(st.integers(-1, 9), min_size=k, max_size=k).map(lambda values: np.array(values, dtype=np.int64))
    return DecisionMade(
        time=draw(times),
        id=draw(names),
        number=draw(st.integers(1, 2**53)),
        segment=draw(names),
        items=draw(whole),
        x=draw(maybe(arrays(k, d))),
        context=draw(maybe(arrays(d))),
        scores=draw(maybe(arrays(k))),
        pinned=tuple(draw(st.sets(st.integers(0, 3)))),
        propensity=draw(maybe(propensities(k))),
        policy=draw(names),
        version=draw(names),
        seed=draw(st.integers(0, 2**40)),
        group=draw(st.sampled_from(["policy", "control"])),
        visitor=draw(maybe(names)),
        why=draw(maybe(arrays(3, k))),
        proposed=draw(maybe(whole)),
        allowed=draw(maybe(st.binary(max_size=9).map(lambda bits: np.frombuffer(bits, dtype=np.uint8)))),
        candidates=draw(maybe(columns)),
        excluded=draw(maybe(columns)),
        rows=draw(maybe(arrays(3, d))),
        given_scores=draw(maybe(arrays(3))),
        given_prices=draw(maybe(arrays(3))),
        order=draw(maybe(columns)),
        rewards=draw(maybe(arrays(k))),
        losses=draw(maybe(arrays(k + 1))),
        prices=draw(maybe(arrays(k))),
        exploring=draw(numbers),
        judged=draw(st.integers(0, 4)),
        explored=draw(st.booleans()),
        asked=draw(maybe(names)),
    )


ids = st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=12).filter(
    lambda text: text.strip(".")
)
things = st.builds(
    Item,
    ids,
    features=st.just((0.5, 2.0)),
    default_position=maybe(st.floats(-MAX_POSITION, MAX_POSITION)),
    score=maybe(st.floats(-1e6, 1e6)),
)
happenings = st.builds(
    FeedbackReceived,
    times,
    names,
    names,
    arrays(3),
    st.booleans(),
    maybe(numbers),
    of_kind=st.sampled_from(["click", "purchase"]),
)
others: st.SearchStrategy[LogEvent] = st.one_of(
    st.builds(WindowClosed, times, st.lists(names, max_size=3).map(tuple)),
    st.builds(Withdrawn, times, names),
    st.builds(Impression, times, names),
    st.builds(GuardrailTripped, times, names),
    st.builds(GuardrailReset, times, names),
    st.builds(ItemsRemoved, times, st.lists(names, max_size=3).map(tuple)),
    st.builds(ItemsPut, times, st.lists(things, max_size=2).map(tuple)),
    st.builds(ConfigChanged, times, st.integers(1, 9), st.just({"slots": 3}), st.just({"slots": 3}), maybe(names)),
    st.builds(EventSkipped, times, st.integers(1, 9), names),
    st.builds(HistoryPruned, times, *[st.integers(1, 9)] * 4, st.just({"shop~base-0": {"slots": 3}})),
)
records: st.SearchStrategy[LogEvent] = st.one_of(lists(), happenings, others)


def same(one: Any, other: Any) -> bool:
    """Equal, arrays bit for bit."""
    if isinstance(one, np.ndarray):
        return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
    if isinstance(one, DecisionMade | FeedbackReceived | Propensity):
        return type(one) is type(other) and all(
            same(getattr(one, field.name), getattr(other, field.name)) for field in fields(one)
        )
    return type(one) is type(other) and bool(one == other)


@given(records)
def test_a_record_survives_the_log(record: LogEvent) -> None:
    assert same(decode(record.entry()), record)


@given(st.lists(records, max_size=12), st.data())
def test_records_read_together_are_those_read_alone(found: list[LogEvent], data: st.DataObject) -> None:
    """Also those that share a head, which most do: some of them come several times."""
    if found:
        found = data.draw(st.lists(st.sampled_from(found), max_size=24))
    assert all(map(same, decode_all([record.entry() for record in found]), found))


class Noting(EventFollower[str]):
    """Notes by which methods it hears of records, and gives their names."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, LogEvent]] = []

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("on_"):
            return super().__getattribute__(name)

        def hear(record: LogEvent) -> str:
            self.heard.append((name, record))
            return name

        return hear


@given(records)
def test_a_follower_hears_of_a_record_once_by_the_method_of_its_kind(record: LogEvent) -> None:
    """What the method gives is given back; a follower that does not care about a kind does nothing."""
    noting = Noting()
    name = noting.handle(record)
    assert noting.heard == [(name, record)]
    hints = get_type_hints(getattr(EventFollower, str(name)), vars(module))
    assert hints["event"] is type(record)
    assert EventFollower[str]().handle(record) is None


def test_every_kind_of_record_has_a_method_of_its_own() -> None:
    methods = [name for name in vars(EventFollower) if name.startswith("on_")]
    assert {get_type_hints(getattr(EventFollower, name), vars(module))["event"] for name in methods} == set(
        KINDS.values()
    )
    assert len(methods) == len(KINDS)


@given(lists(), st.integers(1, 3))
def test_an_entry_of_a_known_kind_is_read_as_any_other(shown: DecisionMade, times: int) -> None:
    assert same(decode_as(DecisionMade, shown.entry()), shown)
    assert all(same(one, shown) for one in decode_all_as(DecisionMade, [shown.entry()] * times))


def test_items_of_a_log_that_knew_no_default_positions_are_read() -> None:
    old = b'{"items":[{"id":"a","features":null,"price":1.5,"enabled":true,"prior":null}],"":[]}\n'
    assert decode(LogEntry("items-put", "", "", 1.0, old)) == ItemsPut(1.0, (Item("a", price=1.5),))


def test_an_item_that_an_older_version_accepted_is_replayed_and_shown() -> None:
    """Limits may become stricter; what a log holds stays what it was."""
    old = b'{"id":"..","features":null,"price":1e10,"enabled":true,"prior":{"score":9,"strength":1e9}}'
    put = b'{"items":[' + old + b'],"":[]}\n'
    record = decode(LogEntry("items-put", "", "", 1.0, put))
    assert isinstance(record, ItemsPut)
    table = ItemTable(None)
    table.put(record.items)
    (item,) = table.all()
    assert (item.id, item.price, item.prior) == ("..", 1e10, record.items[0].prior)
    assert decode(record.entry()) == record
    with pytest.raises(InvalidInput, match=r"^item.price is "):
        Item.of(item.as_mapping())


@given(lists())
def test_a_list_alone_is_the_same_and_owns_its_arrays(shown: DecisionMade) -> None:
    alone = decode_all([shown.entry()] * 3)[1]
    assert isinstance(alone, DecisionMade)
    own = alone.detached()
    assert same(own, shown)
    assert all(value.base is None for field in fields(own) if isinstance(value := getattr(own, field.name), np.ndarray))
