"""One schema per payload: the constructor, decoding and the signatures agree, and errors name what was meant."""

from __future__ import annotations

import inspect
import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rankloop
from rankloop.client import AsyncClient, Client
from rankloop.client.calls import Calls
from rankloop.errors import InvalidInput, Unsupported
from rankloop.schema import (
    Decoder,
    FeedbackEvent,
    Guardrail,
    Item,
    Payload,
    Prior,
    RankerSettings,
    RankRequest,
    SegmentPrior,
)
from rankloop.schema.api_key import ApiKey
from rankloop.schema.base import field_defaults, field_readers
from rankloop.schema.connection_settings import ConnectionSettings
from rankloop.schema.field_descriptions import describe_fields
from rankloop.schema.service_settings import ServiceLimits, ServiceSettings, SnapshotSettings
from rankloop.serving import Ranker, RankerConfig

ROOT = Path(__file__).parent.parent
PAYLOADS = (
    RankRequest,
    FeedbackEvent,
    Item,
    Prior,
    RankerSettings,
    Guardrail,
    ServiceSettings,
    ApiKey,
    ServiceLimits,
    ConnectionSettings,
    SnapshotSettings,
)


# An option is what its structure says


@pytest.mark.parametrize(
    ("call", "kind"),
    [(one.rank, RankRequest) for one in (Ranker, Calls, Client, AsyncClient)]
    + [(one.feedback, FeedbackEvent) for one in (Ranker, Calls, Client, AsyncClient)],
)
def test_a_signature_has_the_names_defaults_and_order_of_its_payload(call: Callable[..., Any], kind: Any) -> None:
    options = [p for p in inspect.signature(call).parameters.values() if p.name not in ("self", "ranker")]
    usual = {name: value for name, value in field_defaults(kind).items() if value != "missing"}
    assert [p.name for p in options] == list(kind.__struct_fields__)
    assert {p.name: p.default for p in options if p.default is not p.empty} == usual


SNIPPET = """
import rankloop
from rankloop import Connection, Ranker
from rankloop.client import AsyncClient, Client

def right(ranker: Ranker, client: Client) -> None:
    made = ranker.rank(k=2, pin={0: "a"}, exclude=["b"], candidates=("a", "c"), context=[1.0])
    ranker.feedback(made.id, clicked=[0], event="e", final=True)
    told = client.rank("shop", k=2, pin={0: "a"}, visitor="v")
    client.feedback("shop", told.id, item_values={"a": 2.0})

async def also_right(client: AsyncClient) -> None:
    told = await client.rank("shop", k=2, pin={0: "a"})
    await client.feedback("shop", told.id, items=["a"])

def right_anywhere() -> None:
    with rankloop.connect("shop.db") as shop:
        shop.put_ranker("shop", policy="gts", slots=2)
        made = shop.rank("shop", k=2, pin={0: "a"})
        shop.feedback("shop", made.id, clicked=[0])

def wrong_anywhere(shop: Connection) -> None:
    shop.rank("shop", kk=2)  # wrong
    shop.rank("shop", pin={"a": 1})  # wrong
    shop.feedback("shop", "d", clicked=["a"])  # wrong
    shop.put_ranker("shop", policy="gts", slots="two")  # wrong
    shop.put_ranker("shop", policy="gts", slot=2)  # wrong

async def wrong(ranker: Ranker, client: Client, soon: AsyncClient) -> None:
    ranker.rank(kk=2)  # wrong
    ranker.rank(pin={"a": 1})  # wrong
    ranker.feedback("d", click=[0])  # wrong
    ranker.put_items(["a"])  # wrong
    client.rank("shop", kk=2)  # wrong
    client.rank("shop", pin={"a": 1})  # wrong
    client.feedback("shop", "d", clicked=["a"])  # wrong
    await soon.rank("shop", kk=2)  # wrong
    await soon.rank("shop", pin={"a": 1})  # wrong
"""


def test_mypy_refuses_unknown_options_and_wrong_types_of_them(tmp_path: Path) -> None:
    file = tmp_path / "calls.py"
    file.write_text(SNIPPET)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), str(file)]
    options = ["--config-file", str(ROOT / "pyproject.toml"), "--no-error-summary", "--hide-error-context"]
    run = subprocess.run([*command, *options], capture_output=True, text=True, cwd=ROOT)
    found = {int(line.split(":")[1]) for line in run.stdout.splitlines() if ": error:" in line and "calls.py" in line}
    wrong = {number for number, line in enumerate(SNIPPET.splitlines(), 1) if line.endswith("# wrong")}
    assert found == wrong, run.stdout + run.stderr


def test_the_client_and_the_schema_load_neither_numpy_nor_the_engine() -> None:
    code = (
        "import sys, rankloop.client, rankloop.schema; print(sorted({'numpy', 'rankloop.serving'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_every_public_name_is_found_and_no_other() -> None:
    for name in rankloop.__all__:
        assert getattr(rankloop, name) is not None
    assert set(rankloop.__all__) <= set(dir(rankloop))
    with pytest.raises(AttributeError, match="no_such"):
        rankloop.no_such  # noqa: B018


# The constructor and decoding refuse the same, in the same words

WRONG: list[tuple[type[Payload], dict[str, Any], str]] = [
    (RankRequest, {"k": -1}, "k is -1; accepted: a whole number from 0 to 1000."),
    (RankRequest, {"k": True}, "k is True; accepted: a whole number from 0 to 1000."),
    (RankRequest, {"k": "two"}, "k is 'two'; accepted: a whole number from 0 to 1000."),
    (RankRequest, {"candidates": "a"}, "candidates is 'a'; accepted: a list of ids."),
    (RankRequest, {"candidates": ["a", 7]}, "candidates[1] is 7; accepted: a printable text of 1 to 200 characters"),
    (RankRequest, {"pin": ["a"]}, "pin is ['a']; accepted: a mapping from slots to ids of items."),
    (RankRequest, {"pin": {"x": "a"}}, "pin is 'x'; accepted: a mapping from slots to ids of items."),
    (RankRequest, {"context": [0.0, 2e6]}, "context[1] is 2000000.0; accepted: a number in [-1e+06, 1e+06]."),
    (RankRequest, {"segment": "a\n"}, "segment is 'a\\n'; accepted: a printable text"),
    (RankRequest, {"strict": 1}, "strict is 1; accepted: true or false."),
    (RankRequest, {"exlude": []}, "exlude is []; accepted: only the fields k, budget,"),
    (FeedbackEvent, {}, "decision is missing; accepted: a value, since it needs decision."),
    (FeedbackEvent, {"decision": "d", "clicked": [0], "items": ["a"]}, "items is ['a']; accepted: only clicked."),
    (FeedbackEvent, {"decision": "d", "values": {"a": 1.0}}, "numbers by item are item_values"),
    (FeedbackEvent, {"decision": "d", "item_values": {"a": "1"}}, "item_values.a is '1'; accepted: a number in"),
    (FeedbackEvent, {"decision": "d", "seen": 1.5}, "seen is 1.5; accepted: the last visible slot, or a list of the"),
    (FeedbackEvent, {"decision": "d", "seen": [0, "a"]}, "seen[1] is 'a'; accepted: a whole number from 0 to"),
    (Item, {"id": ".."}, "item.id is '..'; accepted: a printable text"),
    (Item, {"id": "a", "price": -1}, "item.price is -1; accepted: a number in [0, 1e+09]."),
    (Item, {"id": "a", "prior": {"score": 1.0}}, "item.prior.strength is missing; accepted: a value"),
    (Item, {"id": "a", "prior": {"score": 1.0, "strength": -1}}, "item.prior.strength is -1; accepted: a number in"),
    (RankerSettings, {"policy": "gts", "slots": 0}, "ranker.slots is 0; accepted: a whole number from 1 to 1000."),
    (
        RankerSettings,
        {"policy": "gts", "slots": 2, "bias": [1.0]},
        "ranker.bias is a list of 1; accepted: a list of 2.",
    ),
    (
        RankerSettings,
        {"policy": "gts", "slots": 2, "prior": [1, 2, 3]},
        "ranker.prior is a list of 3; accepted: a list",
    ),
    (RankerSettings, {"policy": "gts", "slots": 2, "explore_from": 3}, "accepted: a whole number from 0 to 2."),
    (
        RankerSettings,
        {"policy": "gts", "slots": 2, "guardrail": {"drop": 2}},
        "ranker.guardrail.drop is 2; accepted: a number",
    ),
    (
        RankerSettings,
        {"policy": "gts", "slots": 2, "window": 0},
        "ranker.window is 0; accepted: a finite number above 0.",
    ),
]


@pytest.mark.parametrize(("kind", "fields", "said"), WRONG)
def test_an_error_is_the_same_in_process_and_over_http(kind: Any, fields: dict[str, Any], said: str) -> None:
    words = set()
    body = json.dumps(fields).encode()
    ways: list[Callable[[], object]] = [lambda: kind(**fields), lambda: kind.of(fields), lambda: Decoder(kind)(body)]
    for made in ways:
        with pytest.raises(InvalidInput) as told:
            made()
        words.add(str(told.value))
        assert str(pickle.loads(pickle.dumps(told.value))) == str(told.value)
    assert len(words) == 1
    assert said in words.pop()


@pytest.mark.parametrize(
    ("make", "meant"),
    [
        (lambda: RankRequest.of({"exlude": []}), "exclude"),
        (lambda: RankerConfig.of({"policy": "gts", "slots": 2, "windw": 1}), "window"),
        (lambda: RankerConfig.of({"policy": "gts", "slots": 2, "mode": "shadw"}), "shadow"),
        (lambda: RankerConfig.of({"policy": "cascade-ucb", "slots": 2}), "cascade-ucb1"),
        (lambda: RankerConfig.of({"policy": "gts", "slots": 2, "params": {"sgma": 1}}), "sigma"),
        (lambda: rankloop.build("gtss", rankloop.Setting(items=3, slots=2)), "gts"),
    ],
)
def test_an_error_suggests_a_similar_name(make: Callable[[], object], meant: str) -> None:
    with pytest.raises(InvalidInput, match=rf"Did you mean '{meant}'\?$") as told:
        make()
    assert told.value.meant == meant


def test_settings_are_checked_however_they_are_constructed() -> None:
    with pytest.raises(InvalidInput, match=r"^ranker.slots is -1"):
        RankerConfig(policy="no-such", slots=-1)
    with pytest.raises(InvalidInput, match=r"^ranker.policy is 'no-such'"):
        RankerConfig(policy="no-such", slots=2)
    with pytest.raises(InvalidInput, match=r"^ranker.params.sigma is -1"):
        RankerConfig(policy="gts", slots=2, params={"sigma": -1})
    with pytest.raises(Unsupported, match="cascade-lin-ts"):
        RankerConfig(policy="cascade-lin-ts", slots=2)  # without features
    given = RankerSettings(policy="gts", slots=2, guardrail=Guardrail(drop=0.2), traffic=0.5)
    assert RankerConfig.of(msgspec.structs.asdict(given)).guardrail == Guardrail(drop=0.2)
    assert RankerSettings.of({"policy": "gts", "slots": 2, "objective": "amount"}).aggregate == "sum"
    assert RankerSettings.of({"policy": "gts", "slots": 2, "guardrail": True}).guardrail == Guardrail()
    assert RankerSettings.of({"policy": "gts", "slots": 2, "guardrail": False}).guardrail is None


def test_too_many_or_repeated_arguments_raise_type_error() -> None:
    with pytest.raises(TypeError, match="at most once"):
        SegmentPrior(0.5, 1.0, 2.0)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="at most once"):
        SegmentPrior(0.5, score=1.0)  # type: ignore[misc, call-arg]


def test_numbers_of_array_libraries_are_accepted() -> None:
    context: Any = np.array([1.0, 0.5], dtype=np.float32)
    numbers: Any = [np.float64(1.0), np.float32(0.5)]
    k: Any = np.int64(3)
    plain = RankRequest(k=3, context=[1.0, 0.5])
    assert RankRequest(k=k, context=context) == RankRequest(k=k, context=numbers) == plain
    pins: Any = {np.int64(0): "a"}
    assert RankRequest(pin=pins) == RankRequest(pin={0: "a"})


def test_a_payload_is_returned_unchanged() -> None:
    item = Item("a", price=1.0)
    assert Item.of(item) is item
    assert Item.of(item.as_mapping()) == item


texts = st.text(max_size=3) | st.sampled_from(["a", "b"])
values = st.none() | st.booleans() | st.integers(-2, 2000) | st.floats(allow_nan=False, allow_infinity=False) | texts
anything = values | st.lists(values, max_size=3) | st.dictionaries(texts, values, max_size=2)


@given(st.sampled_from([RankRequest, FeedbackEvent, Item]), st.data())
def test_the_python_reader_and_msgspec_accept_the_same_values(kind: Any, data: st.DataObject) -> None:
    """What the C decoder takes, the reader in Python takes to the same value; it refuses what C refuses."""
    name = data.draw(st.sampled_from(kind.__struct_fields__))
    value = data.draw(anything)
    body = json.dumps({name: value}).encode()
    field = next(one for one in msgspec.structs.fields(kind) if one.name == name)
    try:
        expected = msgspec.json.decode(json.dumps(value).encode(), type=field.type)
    except msgspec.ValidationError:
        with pytest.raises(InvalidInput):
            field_readers(kind)[name].read(name, json.loads(body)[name])
        return
    found = field_readers(kind)[name].read(name, json.loads(body)[name])
    assert msgspec.convert(found, field.type) == expected


# The page


@pytest.mark.parametrize("kind", PAYLOADS)
def test_every_field_has_a_description(kind: Any) -> None:
    rows = describe_fields(kind)
    assert [row.name for row in rows] == list(kind.__struct_fields__)
    assert all(row.accepted and row.type for row in rows)
    assert all(row.description[:1].isupper() and row.description.endswith(".") for row in rows)
    page = (ROOT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")
    assert all(f"| `{row.name}` |" in page for row in rows)
