"""A ranker with features: fields become rows, features change while it serves, and the log gives the same state."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from postgres_server import Server, database, server  # noqa: F401
from rankloop.errors import InvalidInput, Unsupported
from rankloop.eventlog import MemoryStore, SqliteStore
from rankloop.eventlog.erasure.tombstones import erase
from rankloop.eventlog.events import ConfigChanged
from rankloop.eventlog.postgres import PostgresStore
from rankloop.eventlog.store import Store
from rankloop.schema.feature_settings import FeatureSettings
from rankloop.serving import Ranker, RankerConfig
from rankloop.serving.config import LoggedConfig
from rankloop.serving.feature_settings import FIRST_CONTEXTS, carried_over, due
from rankloop.serving.items.field_encoding import FieldEncoding
from rankloop.serving.replica import Replica
from rankloop.serving.snapshots import take
from rankloop.serving.verification import compare_snapshot, decide_again

SHOP: dict[str, Any] = {
    "items": {
        "price": {"kind": "number", "transform": "log", "center": 1.0, "scale": 2.0},
        "category": {"kind": "category", "categories": 3},
    },
    "context": {"device": {"kind": "category", "categories": 2}},
    "freeze_after": 10_000,
}
DEVICES = ("phone", "tv", "tablet", "desk", "watch")


def config(features: Any = SHOP, **more: Any) -> RankerConfig:
    return RankerConfig.of({"slots": 2, "features": features, **more})


def with_field(of: str, name: str, settings: Any) -> dict[str, Any]:
    """The features of the shop with one more field."""
    return {**SHOP, of: {**SHOP[of], name: settings}}


def fill(ranker: Ranker) -> None:
    fields = [{"price": 2.0 * n, "category": f"c{n % 4}"} for n in range(6)]
    ranker.put_items([{"id": f"i{n}", "fields": one} for n, one in enumerate(fields)])
    ranker.put_items([{"id": "bare"}, {"id": "odd", "fields": {"price": 1, "size": "large"}}])


def visit(ranker: Ranker, rng: np.random.Generator, n: int) -> None:
    """One visitor: every third brings fields of items, every seventh gives no feedback yet."""
    context: dict[str, Any] = {"device": str(rng.choice(DEVICES)), "hour": float(n % 24)} if n % 5 else {}
    brought: list[dict[str, Any]] = [{"id": f"i{j}", "fields": {"price": float(rng.integers(9))}} for j in range(3)]
    items = [*brought, {"id": "bare"}, {"id": "odd"}] if n % 3 == 0 else None
    made = ranker.rank(context=context, items=items, visitor=f"v{n % 4}")
    if n % 7:
        ranker.feedback(made.id, clicked=[0] if rng.random() < 0.4 else [], final=True)
    if n % 20 == 10:
        ranker.put_items([{"id": "i1", "fields": {"price": float(n), "category": f"new{n}"}}])


def visits(ranker: Ranker, start: int, stop: int) -> None:
    rng = np.random.default_rng(start)
    for n in range(start, stop):
        visit(ranker, rng, n)


def state(replica: Replica) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in take(replica).arrays.items()}


def same_as_replayed(ranker: Ranker) -> None:
    """The state equals a replay of the log by the last configuration, and every list is decided again."""
    ranker.flush()
    replayed = Replica(LoggedConfig.of(ranker.config.as_mapping()))
    replayed.follow(ranker.store.read(ranker.name))
    assert state(replayed) == state(ranker._replica)
    again = decide_again(ranker.store, ranker.name)
    assert (again.equal, again.differences) == (again.decided, [])
    assert again.decided > 0


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    opened: dict[str, Callable[[], Any]] = {
        "memory": MemoryStore,
        "sqlite": lambda: SqliteStore(tmp_path / "log.db"),
        "postgres": lambda: PostgresStore(request.getfixturevalue("database")),
    }
    made = opened[request.param]()
    yield made
    made.close()


# Fields become rows


def test_replay_equals_live_on_every_store_also_after_a_snapshot_and_a_change_of_features(store: Any) -> None:
    ranker = Ranker(config(), store=store)
    fill(ranker)
    visits(ranker, 0, 40)
    ranker.adjust(config(with_field("context", "hour", {"kind": "number", "center": 12.0, "scale": 6.0})))
    visits(ranker, 40, 80)
    same_as_replayed(ranker)
    ranker.snapshot()
    visits(ranker, 80, 100)
    found = compare_snapshot(store, ranker.name, ranker.config)
    assert (found.usable, found.differences) == (True, [])
    same_as_replayed(ranker)


@pytest.mark.parametrize("policy", ["cascade-lin-ts", "lin-ts-ltr", "log-ts-newton", "ranked-lin-ts"])
def test_hashed_rows_replay_and_change_as_dense_ones_do(policy: str) -> None:
    hashed = {**SHOP, "hashed": 2**10}
    ranker = Ranker(config(hashed, policy=policy))
    answer = ranker.features_answer()
    assert answer is not None
    assert (answer.covariance, "1024 coefficients" in (answer.note or "")) == ("diagonal", True)
    fill(ranker)
    visits(ranker, 0, 30)
    same_as_replayed(ranker)
    ranker.adjust(config({**hashed, "items": {**SHOP["items"], "size": "category"}}, policy=policy))
    visits(ranker, 30, 50)
    same_as_replayed(ranker)
    ranker.adjust(config(policy=policy))
    visits(ranker, 50, 60)
    same_as_replayed(ranker)


def test_a_request_overrides_stored_fields_one_by_one() -> None:
    ranker = Ranker(config())
    fill(ranker)
    made = ranker.rank(items=[{"id": "i2", "fields": {"price": 50}}, {"id": "i3"}, {"id": "bare", "fields": {"x": 1}}])
    encoder = ranker._replica.items.encoding
    assert encoder is not None
    assert made.event.rows is not None
    merged = [{"price": 50.0, "category": "c2"}, {"price": 6.0, "category": "c3"}, {}]
    np.testing.assert_array_equal(made.event.rows, encoder.items.rows(merged))
    assert made.event.item_fields is not None
    assert json.loads(made.event.item_fields) == [merged[0], None, {"x": 1.0}]
    assert made.unknown_fields == ("items.x",)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda r: r.put_items([{"id": "n"}, {"id": "i0", "fields": {"price": "9"}}]),
            r"items\[1\]\.fields\.price is '9'",
        ),
        (lambda r: r.rank(items=[{"id": "i0", "fields": {"category": 3}}]), r"items\[0\]\.fields\.category is 3"),
        (lambda r: r.rank(context={"device": ["phone"]}), r"context\.device is \['phone'\]; accepted: a text"),
        (lambda r: r.rank(context=[1.0]), r"context is \[1\.0\]; accepted: a mapping of fields"),
        (lambda r: r.put_items([{"id": "n", "features": [1.0]}]), r"items\[0\]\.features is .*; accepted: no features"),
        (lambda r: r.adjust(config({**SHOP, "items": {"price": "money"}})), r"features.*price"),
        (lambda r: r.adjust(config(dim=3)), r"ranker\.dim is 3; accepted: no dim together with ranker\.features"),
    ],
)
def test_what_does_not_fit_the_features_is_refused_with_nothing_changed(call: Any, said: str) -> None:
    ranker = Ranker(config())
    fill(ranker)
    before = ranker.position, ranker.version, state(ranker._replica)
    with pytest.raises(InvalidInput, match=said):
        call(ranker)
    assert (ranker.position, ranker.version, state(ranker._replica)) == before


def test_a_policy_without_features_refuses_them() -> None:
    with pytest.raises(Unsupported, match=r"cascade-ucb1 does not use ranker\.features; leave it out"):
        config(policy="cascade-ucb1")
    with pytest.raises(
        Unsupported, match=r"with ranker\.features 'auto' there are no features at first .*choose hybrid"
    ):
        config("auto", policy="cascade-lin-ts")


# Growing changes nothing


def estimates(ranker: Ranker) -> dict[str, tuple[float, float]]:
    replica = ranker._replica
    rows = replica.learners.policy.estimates(
        replica.learners.of(""), replica.learners.request(2, replica.learners.no_context())
    )
    assert rows is not None
    mean, width = rows
    assert width is not None
    return {id: (float(mean[0, at]), float(width[0, at])) for id, at in replica.items.column.items()}


def close(one: dict[str, tuple[float, float]], other: dict[str, tuple[float, float]]) -> None:
    for id in one:
        np.testing.assert_allclose(one[id], other[id], rtol=0, atol=1e-9)


@pytest.mark.parametrize(("of", "name"), [("items", "weight"), ("context", "weather")])
@pytest.mark.parametrize("kind", ["number", "boolean", "category", "tags", {"kind": "vector", "size": 2}])
def test_adding_a_field_that_nobody_has_sent_changes_nothing_that_was_learned(of: str, name: str, kind: Any) -> None:
    ranker = Ranker(config())
    fill(ranker)
    visits(ranker, 0, 60)
    before, version = estimates(ranker), ranker.version
    ranker.adjust(config(with_field(of, name, kind)))
    assert ranker.version == version + 1
    close(before, estimates(ranker))
    visits(ranker, 60, 70)
    same_as_replayed(ranker)


def test_items_with_unknown_fields_and_new_categories_change_nothing_about_the_others() -> None:
    ranker, plain = Ranker(config()), Ranker(config())
    for one in (ranker, plain):
        fill(one)
        visits(one, 0, 40)
    before = estimates(ranker)
    ranker.put_items(
        [{"id": "n1", "fields": {"category": "quite new", "sort": "x"}}, {"id": "n2", "fields": {"q": [1]}}]
    )
    after = estimates(ranker)
    close(before, after)
    assert after.keys() - before.keys() == {"n1", "n2"}


def test_a_value_of_another_kind_in_the_log_counts_as_missing_when_its_field_is_declared() -> None:
    ranker = Ranker(config())
    fill(ranker)
    visits(ranker, 0, 20)
    ranker.adjust(config(with_field("items", "size", {"kind": "number", "center": 0.0, "scale": 1.0})))
    encoding = ranker._replica.items.encoding
    assert encoding is not None
    assert encoding.items.encoder.sizes[-1] == -1  # no value yet
    visits(ranker, 20, 30)
    same_as_replayed(ranker)


# Rows as of a position


def test_rows_are_encoded_with_what_was_known_at_a_position() -> None:
    settings = FeatureSettings.of(SHOP)
    encoding, expected = FieldEncoding(settings), []
    mappings: list[dict[str, object]] = [{"category": f"c{n}", "price": 1.0} for n in range(5)] + [{}]
    for n in range(5):
        expected.append(encoding.items.rows(mappings))
        encoding.items.learn([{"category": f"c{n}"}], position=10 * (n + 1))
    expected.append(encoding.items.rows(mappings))
    for n in (3, 0, 5, 1, 4, 2, 0):
        for position in (10 * n, 10 * n + 9):
            np.testing.assert_array_equal(encoding.items.rows(mappings, position), expected[n])
    again = FieldEncoding(settings)
    again.restore(encoding.arrays())
    np.testing.assert_array_equal(again.items.rows(mappings, 25), expected[2])
    np.testing.assert_array_equal(again.items.rows(mappings), expected[5])


# Features that are inferred, and scales that are frozen


def test_features_are_inferred_from_the_first_items_and_contexts_and_each_step_is_in_the_log() -> None:
    ranker = Ranker(config("auto"))
    waiting = ranker.features_answer()
    assert waiting is not None
    assert waiting.settings is None
    fill(ranker)
    known = ranker.config.feature_settings
    assert known is not None
    assert {name: one.kind for name, one in known.items.items()} == {"price": "number", "category": "category"}
    assert known.infer_context
    visits(ranker, 0, 2 * FIRST_CONTEXTS)
    known = ranker.config.feature_settings
    assert known is not None
    assert {name: one.kind for name, one in known.context.items()} == {"device": "category", "hour": "number"}
    assert not known.infer_context
    logged = ranker.store.of_kind(ranker.name, ConfigChanged.kind)
    assert len(logged) == ranker.version > 2
    same_as_replayed(ranker)
    again = Ranker(config("auto"), store=ranker.store)
    assert (again.config.plain(), again.version) == (ranker.config.plain(), ranker.version)


def test_scales_are_frozen_after_the_first_items_and_stay_when_features_change() -> None:
    features = {"items": {"price": "number"}, "freeze_after": 5}
    ranker = Ranker(config(features))
    ranker.put_items([{"id": f"i{n}", "fields": {"price": n}} for n in range(4)])
    assert ranker.config.as_mapping()["features"] == {**features, "items": {"price": {"kind": "number"}}}
    ranker.put_items([{"id": f"j{n}", "fields": {"price": n}} for n in range(4)])
    frozen = ranker.config.feature_settings
    assert frozen is not None
    price = frozen.items["price"]
    assert price.center is not None
    assert price.scale is not None
    ranker.put_items([{"id": f"k{n}", "fields": {"price": 1000 + n}} for n in range(40)])
    ranker.adjust(config({"items": {"price": "number", "size": "number"}, "freeze_after": 5}))
    changed = ranker.config.feature_settings
    assert changed is not None
    assert changed.items["price"] == price
    ranker.adjust(config(features))  # asks for no other scale
    assert ranker.config.feature_settings == frozen


def test_a_scale_is_carried_over_only_between_fields_of_the_same_kind() -> None:
    before = FeatureSettings.of(
        {"items": {"a": {"kind": "number", "scale": 2.0}, "b": {"kind": "number", "scale": 3.0}}}
    )
    given = FeatureSettings.of({"items": {"a": "number", "b": {"kind": "number", "transform": "log"}, "c": "number"}})
    kept = carried_over(given, before)
    assert [kept.items[name].scale for name in "abc"] == [2.0, None, None]
    assert carried_over(kept, before) == kept


def test_nothing_is_due_without_usable_fields_or_with_all_of_them_settled() -> None:
    assert due(None, [], []) is None
    assert due(None, [{"name": [1.0, "x"]}], []) is None
    settled = FeatureSettings.of(SHOP)
    assert due(settled, [{"price": 1.0}], [{"device": "x"}] * 99) is None
    waiting = replace(settled, context={}, infer_context=True)
    found = due(waiting, [{"price": 1.0}], [{"device": "x"}] * FIRST_CONTEXTS)
    assert found is not None
    assert set(found.context) == {"device"}


# Challengers, erasure


def test_a_challenger_may_have_other_features_and_no_change_interferes_with_it() -> None:
    ranker = Ranker(config())
    fill(ranker)
    visits(ranker, 0, 30)
    other = config(with_field("items", "size", "category"))
    ranker.add_challenger(Replica(other))
    with pytest.raises(Unsupported, match="while there is a challenger; discard it first"):
        ranker.adjust(other)
    visits(ranker, 30, 40)
    ranker.promote()
    ranker.discard_challenger()
    visits(ranker, 40, 50)
    assert ranker.config.learning() == other.learning()
    same_as_replayed(ranker)


def test_an_erased_visitor_leaves_the_columns_of_categories_as_they_are(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "log.db")
    ranker = Ranker(config(), store=store)
    fill(ranker)
    first = ("secret street", "v0"), ("phone", "v0"), ("phone", "v1"), ("tv", "v1"), ("tv", None)
    for device, visitor in first:
        made = ranker.rank(context={"device": device}, visitor=visitor)
        ranker.feedback(made.id, clicked=[0], final=True)
    ranker.snapshot()
    before = ranker.rank(context={"device": "phone"}).event.context
    ranker.flush()
    ranker._writer.close()
    assert erase(store, ["v0"], 1.0).decisions == 2
    assert not any(b"secret street" in entry.body for entry in store.read(ranker.name))
    assert store.load_snapshot(ranker.name) is None
    again = Ranker(ranker.config, store=store)
    np.testing.assert_array_equal(again.rank(context={"device": "phone"}).event.context, before)
    same_as_replayed(again)
    again.close()
    store.close()


def test_a_log_without_features_gets_them_and_loses_them_again() -> None:
    store: Store = MemoryStore()
    ranker = Ranker(RankerConfig.of({"slots": 2}), store=store)
    fill(ranker)
    visits(ranker, 0, 30)
    ranker.adjust(config())
    visits(ranker, 30, 50)
    same_as_replayed(ranker)
    ranker.adjust(RankerConfig.of({"slots": 2}))
    visits(ranker, 50, 60)
    same_as_replayed(ranker)
    assert Ranker(ranker.config, store=store).items() == ranker.items()
