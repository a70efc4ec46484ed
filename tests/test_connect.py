"""One interface, wherever the rankers are: in memory, in a file, in PostgreSQL and behind a service."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import typing
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tools.serving import serving

import rankloop
from postgres_server import Server, database, server  # noqa: F401
from rankloop import Conflict, Connection, InvalidInput, Item, NotFound, RankloopError, Unavailable, Unsupported
from rankloop.client import Client
from rankloop.connection.local import LocalConnection
from rankloop.errors import ConflictingDecision, Quarantined, UnknownDecision
from rankloop.eventlog import MemoryStore
from rankloop.hosting.registry import RankerRegistry
from rankloop.schema import FeedbackEvent, Guardrail, Prior, Quarantine, RankerSettings, RankRequest
from rankloop.schema.base import field_defaults
from rankloop.schema.ranker_fields import RankerFields
from rankloop.schema.ranker_settings import DEFAULT_POLICY
from rankloop.schema.service_settings import ServiceSettings

PLACES = ("memory", "file", "postgresql", "http")
KEPT = PLACES[1:]
"""Those that store what was learned."""
ITEMS = [{"id": id} for id in ("a", "b", "c", "d")]
Open = Callable[[], Connection]


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The kind of place that a test is about; a test that says nothing is about all of them."""
    return str(request.param)


@pytest.fixture
def open_(place: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Opens a connection to one place, again and again: each time as after a restart of whatever is behind it."""
    with ExitStack() as stack:
        last: list[ExitStack] = []

        def opened() -> Connection:
            for one in last:
                one.close()
            last[:] = [stack.enter_context(ExitStack())]
            address = {"memory": ":memory:", "file": str(tmp_path / "shop.db")}.get(place, "")
            if place == "postgresql":
                address = request.getfixturevalue("database")
            if place == "http":
                address = last[0].enter_context(serving(ServiceSettings(log=str(tmp_path / "served.db"))))
            return last[0].enter_context(rankloop.connect(address))

        yield opened


@pytest.fixture
def shop(open_: Open) -> Connection:
    """A connection with one ranker of four items."""
    made = open_()
    made.put_ranker("shop", policy="cascade-ucb1", slots=3)
    made.put_items("shop", ITEMS)
    return made


everywhere = pytest.mark.parametrize("place", PLACES, indirect=True)


# The interface


@pytest.mark.parametrize(("name", "kind"), [("rank", RankRequest), ("feedback", FeedbackEvent)])
def test_the_options_of_the_interface_are_those_of_the_schema(name: str, kind: Any) -> None:
    options = list(inspect.signature(getattr(Connection, name)).parameters.values())[2:]
    usual = {option: value for option, value in field_defaults(kind).items() if value != "missing"}
    assert [option.name for option in options] == list(kind.__struct_fields__)
    assert {option.name: option.default for option in options if option.default is not option.empty} == usual


def test_the_keywords_of_a_ranker_are_its_settings() -> None:
    assert tuple(typing.get_type_hints(RankerFields)) == RankerSettings.__struct_fields__


def test_both_implementations_have_every_method() -> None:
    wanted = {name for name in vars(Connection) if not name.startswith("_")} | {"__enter__", "__exit__"}
    for kind in (LocalConnection, Client):
        assert wanted <= set(dir(kind))


# Rankers


@everywhere
def test_a_ranker_is_created_adjusted_and_deleted(open_: Open) -> None:
    with open_() as shop:
        made = shop.put_ranker("shop", policy="gts", slots=2, traffic=0.5, guardrail=Guardrail(drop=0.2))
        assert (made.name, made.items, made.decisions, made.version) == ("shop", 0, 0, 1)
        assert (made.config["policy"], made.config["slots"], made.config["traffic"]) == ("gts", 2, 0.5)
        assert made.config["guardrail"]["drop"] == 0.2
        again = shop.put_ranker("shop", RankerSettings(policy="gts", slots=2), window=60.0)
        assert (again.config["traffic"], again.config["window"], again.version) == (0.5, 60.0, 2)
        with pytest.raises(Conflict, match="slots: this setting determines what was learned"):
            shop.put_ranker("shop", policy="gts", slots=3)
        shop.put_ranker("other", {"policy": "random", "slots": 1})
        assert [one.name for one in shop.rankers()] == ["shop", "other"]
        shop.delete_ranker("other")
        assert [one.name for one in shop.rankers()] == ["shop"]


@everywhere
def test_a_ranker_needs_no_policy(open_: Open) -> None:
    """The default starts from the scores that items have: the first list is their order."""
    with open_() as shop:
        assert shop.put_ranker("shop", slots=2).config["policy"] == DEFAULT_POLICY
        shop.put_items("shop", [{"id": id, "score": score} for id, score in (("a", 0.1), ("b", 0.3), ("c", 0.2))])
        made = shop.rank("shop")
        assert made.ids == ("b", "c")
        assert shop.feedback("shop", made.id, clicked=[1]).status == "learned"
        assert shop.rank("shop", items=[{"id": "a", "score": 0.9}, {"id": "b"}], k=1).policy == DEFAULT_POLICY
        assert shop.put_ranker("shop", RankerSettings(slots=2), window=60.0).version == 2


@everywhere
def test_invalid_settings_raise_the_same_error_everywhere(open_: Open) -> None:
    shop = open_()
    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        (
            {"policy": "gts"},
            InvalidInput,
            "ranker.slots is missing; accepted: a value, since ranker needs slots.",
        ),
        ({"policy": "gts", "slots": 0}, InvalidInput, "ranker.slots is 0; accepted: a whole number from 1 to 1000."),
        ({"policy": "gts", "slots": 2, "windw": 1}, InvalidInput, "Did you mean 'window'?"),
        ({"policy": "gtss", "slots": 2}, InvalidInput, "Did you mean 'gts'?"),
        ({"policy": "gts", "slots": 2, "params": {"sigma": -1}}, InvalidInput, "ranker.params.sigma is -1; accepted:"),
        ({"policy": "cascade-lin-ts", "slots": 2}, Unsupported, "cascade-lin-ts"),
    ]
    for config, kind, said in wrong:
        with pytest.raises(kind, match=re.escape(said)):
            shop.put_ranker("wrong", config)
    with pytest.raises(InvalidInput, match="letters, digits") as told:
        shop.put_ranker("a b", policy="gts", slots=2)
    assert told.value.field == "name"
    assert shop.rankers() == []


@everywhere
def test_unknown_names_raise_not_found(shop: Connection) -> None:
    calls: list[Callable[[], object]] = [
        lambda: shop.ranker("none"),
        lambda: shop.rank("none"),
        lambda: shop.feedback("none", "d", clicked=[]),
        lambda: shop.withdraw("none", "d"),
        lambda: shop.items("none"),
        lambda: shop.put_items("none", ITEMS),
        lambda: shop.delete_ranker("none"),
    ]
    for call in calls:
        with pytest.raises(NotFound, match="ranker 'none' does not exist"):
            call()
    for call in (lambda: shop.item("shop", "none"), lambda: shop.remove_item("shop", "none")):
        with pytest.raises(NotFound, match="item 'none' does not exist in this ranker"):
            call()
    for call in (lambda: shop.feedback("shop", "none", clicked=[]), lambda: shop.withdraw("shop", "none")):
        with pytest.raises(UnknownDecision, match="'none' is not one that this ranker made"):
            call()


# Items


@everywhere
def test_items_are_returned_as_they_were_put(open_: Open) -> None:
    shop = open_()
    shop.put_ranker("shop", policy="cascade-lin-ts", slots=2, dim=2)
    apple = Item("apple", features=(0.5, 1.0), price=2.0, prior=Prior(0.2, 5.0), default_position=3.0)
    plain: dict[str, object] = {"id": "pear/1", "features": [0.0, 1.0], "enabled": False}
    shop.put_items("shop", [apple, plain])
    assert shop.items("shop") == [apple, Item("pear/1", features=(0.0, 1.0), enabled=False)]
    assert shop.item("shop", "pear/1").enabled is False
    assert shop.items("shop", limit=1, offset=1) == [shop.item("shop", "pear/1")]
    shop.remove_item("shop", "apple")
    assert [item.id for item in shop.items("shop")] == ["pear/1"]
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"id": "a"}, "items[1].features is missing; accepted: 2 numbers, as ranker.dim says."),
        ({"id": "a", "features": [1.0]}, "items[1].features is a list of 1; accepted: a list of 2."),
        ({"id": "a", "features": [1.0, 2e6]}, "items[1].features[1] is 2000000.0; accepted: a number in"),
        ({"id": "", "features": [1.0, 2.0]}, "items[1].id is ''; accepted: a printable text"),
        ({"id": "a", "pricee": 1}, "Did you mean 'price'?"),
        ({"id": "a", "features": [1.0, 2.0], "prior": {"score": 2.0, "strength": 1.0}}, "items[1].prior.score is 2.0;"),
    ]
    for item, said in wrong:
        with pytest.raises(InvalidInput, match=re.escape(said)):
            shop.put_items("shop", [{"id": "good", "features": [0.0, 0.0]}, item])
    assert [item.id for item in shop.items("shop")] == ["pear/1"]


# Lists


@everywhere
def test_the_options_of_a_rank_request(shop: Connection) -> None:
    assert len(shop.rank("shop").ids) == 3
    assert len(shop.rank("shop", k=1).ids) == 1
    assert len(shop.rank("shop", budget=2).ids) == 2
    pinned = shop.rank("shop", pin={1: "d"}, exclude=["a"])
    assert (pinned.ids[1], pinned.items[1].rule, "a" in pinned.ids) == ("d", "pinned", False)
    assert set(shop.rank("shop", candidates=("a", "b")).ids) == {"a", "b"}
    assert shop.rank("shop", segment="de").segment == "de"
    likely = shop.rank("shop", propensity=20).propensity
    assert likely is not None
    assert (likely.kind, shop.rank("shop", visitor="v").group) == ("exact", "treatment")
    assert shop.ranker("shop").decisions == 8
    array: Any = np.array([1.0])
    with pytest.raises(InvalidInput, match="the ranker has none"):
        shop.rank("shop", context=array)


@everywhere
def test_unknown_item_ids_are_ignored_or_refused_if_strict(shop: Connection) -> None:
    made = shop.rank("shop", candidates=["a", "x", "b", "x"], exclude=["y"])
    assert (set(made.ids), made.ignored) == ({"a", "b"}, ("x", "y"))
    with pytest.raises(InvalidInput, match=r"^candidates\[1\] is 'x'; accepted: the id of an item of this ranker\.$"):
        shop.rank("shop", candidates=["a", "x"], strict=True)


@everywhere
def test_invalid_rank_requests_raise_the_same_error_everywhere(shop: Connection) -> None:
    wrong: list[tuple[dict[str, Any], str, str]] = [
        ({"k": 4}, "k", "a whole number from 0 to 3"),
        ({"k": -1}, "k", "a whole number from 0 to 1000"),
        ({"k": "two"}, "k", "a whole number from 0 to 1000"),
        ({"candidates": "a"}, "candidates", "a list of ids"),
        ({"pin": {7: "a"}}, "pin", "a whole number from 0 to 2"),
        ({"pin": {0: "x"}}, "pin.0", "the id of an item of this ranker"),
        ({"pin": {0: "a", 1: "a"}}, "pin", "every item in one slot only"),
        ({"order": ["a", "a"]}, "order", "every item once"),
        ({"propensity": 5000}, "propensity", "at most 1000 draws"),
        ({"segment": "a\n"}, "segment", "a printable text of 1 to 200 characters, neither . nor .."),
        ({"exclude": ["a"] * 10_001}, "exclude", "a list of at most 10000"),
    ]
    for asked, field, accepted in wrong:
        with pytest.raises(InvalidInput) as told:
            shop.rank("shop", **asked)
        assert (told.value.field, told.value.accepted) == (field, accepted)
        assert str(told.value).startswith(f"{field} is ")
    with pytest.raises(TypeError, match="kk"):
        shop.rank("shop", kk=2)  # type: ignore[call-arg]
    assert shop.ranker("shop").decisions == 0


@everywhere
def test_a_decision_id_of_the_caller(shop: Connection) -> None:
    first = shop.rank("shop", k=2, decision="mine", exclude=["x"])
    assert (first.id, first.ignored) == ("mine", ("x",))
    assert shop.rank("shop", k=2, decision="mine", exclude=["x"]) == first
    with pytest.raises(ConflictingDecision, match="an id that no other request had") as told:
        shop.rank("shop", k=1, decision="mine")
    assert told.value.field == "decision"
    assert shop.feedback("shop", "mine", clicked=[1]).status == "learned"
    assert shop.rank("shop", k=2, decision="mine", exclude=["x"]).ids == first.ids


# Feedback


@everywhere
def test_the_forms_and_statuses_of_feedback(open_: Open) -> None:
    shop = open_()
    every_slot = {"feedback": "semi-bandit"}
    shop.put_ranker("shop", policy="gts", slots=2, params=every_slot, objective="amount", aggregate="earliest")
    shop.put_items("shop", ITEMS)
    forms: list[Callable[[str, str], object]] = [
        lambda made, item: shop.feedback("shop", made, clicked=[0]),
        lambda made, item: shop.feedback("shop", made, items=[item]),
        lambda made, item: shop.feedback("shop", made, values=[2.0, 0.0]),
        lambda made, item: shop.feedback("shop", made, item_values={item: 2.0}),
        lambda made, item: shop.feedback("shop", made, clicked=[], final=True, regret=0.5),
    ]
    for form in forms:
        made = shop.rank("shop")
        receipt: Any = form(made.id, made.ids[0])
        assert (receipt.decision, receipt.status) == (made.id, "learned")
    made = shop.rank("shop")
    assert shop.feedback("shop", made.id, clicked=[0], event="e").status == "learned"
    assert shop.feedback("shop", made.id, clicked=[0], event="e").status == "duplicate"
    assert shop.feedback("shop", made.id, clicked=[1], event="later").status == "late"
    other = shop.rank("shop")
    with pytest.raises(InvalidInput, match="an id that no feedback for another decision had") as told:
        shop.feedback("shop", other.id, clicked=[0], event="e")
    assert told.value.field == "event"
    assert shop.withdraw("shop", other.id).status == "withdrawn"
    assert shop.withdraw("shop", other.id).status == "duplicate"
    assert shop.ranker("shop").open_decisions == 0


@everywhere
def test_invalid_feedback_raises_the_same_error_everywhere(shop: Connection) -> None:
    made = shop.rank("shop")
    wrong: list[tuple[dict[str, Any], str, str]] = [
        ({"clicked": [3]}, "clicked[0]", "a slot that showed an item, from 0 to 2"),
        ({"clicked": [-1]}, "clicked[0]", "a whole number from 0 to 999"),
        ({"items": ["x"]}, "items[0]", "an item of this list"),
        ({"values": [1.0]}, "values", "a list of 3 numbers, one for each slot (numbers by item are item_values)"),
        ({"item_values": {"x": 1.0}}, "item_values.x", "an item of this list"),
        ({"clicked": [0], "items": ["a"]}, "items", "only clicked"),
        ({"event": "", "clicked": []}, "event", "a printable text of 1 to 200 characters, neither . nor .."),
    ]
    for told, field, accepted in wrong:
        with pytest.raises(InvalidInput) as refused:
            shop.feedback("shop", made.id, **told)
        assert (refused.value.field, refused.value.accepted) == (field, accepted)
    with pytest.raises(Unsupported, match="learns from clicks"):
        shop.feedback("shop", made.id, values=[0.5, 0.0, 0.0])
    assert shop.feedback("shop", made.id, clicked=[0]).status == "learned"


# Restarts


@pytest.mark.parametrize("place", KEPT, indirect=True)
def test_what_was_learned_survives_a_restart(open_: Open) -> None:
    with open_() as shop:
        shop.put_ranker("shop", policy="cascade-ucb1", slots=2)
        shop.put_items("shop", ITEMS)
        for _ in range(60):
            made = shop.rank("shop")
            clicked = [slot for slot, id in enumerate(made.ids) if id == "c"]
            shop.feedback("shop", made.id, clicked=clicked)
        before, best = shop.ranker("shop"), shop.rank("shop", decision="last")
    with open_() as shop:
        again = shop.ranker("shop")
        assert (again.config, again.items, again.groups["treatment"].clicked) == (
            before.config,
            before.items,
            before.groups["treatment"].clicked,
        )
        assert shop.rank("shop", decision="last") == best
        assert shop.feedback("shop", "last", clicked=[0]).status == "learned"


@pytest.mark.parametrize("place", ["memory"], indirect=True)
def test_a_connection_in_memory_stores_nothing(open_: Open) -> None:
    with open_() as shop:
        shop.put_ranker("shop", policy="gts", slots=1)
    with open_() as shop:
        assert shop.rankers() == []


def test_an_unreachable_address_is_unavailable(tmp_path: Path) -> None:
    with rankloop.connect("http://127.0.0.1:1") as away, pytest.raises(Unavailable, match="no answer"):
        away.rankers()
    with pytest.raises(Unavailable):
        rankloop.connect(tmp_path / "no" / "such" / "folder.db")


def test_a_file_is_locked_by_one_connection(tmp_path: Path) -> None:
    with rankloop.connect(tmp_path / "shop.db"), pytest.raises(RankloopError, match="another process"):
        rankloop.connect(tmp_path / "shop.db")


def test_rankers_in_process_need_no_web_framework() -> None:
    code = (
        "import sys, rankloop\n"
        "with rankloop.connect() as shop: shop.put_ranker('r', policy='gts', slots=1)\n"
        "print(sorted({'fastapi', 'starlette', 'pydantic', 'httpx'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_the_registry_returns_a_ranker_that_serves_or_raises() -> None:
    registry = RankerRegistry(ServiceSettings(), MemoryStore())
    registry.put("shop", {"policy": "gts", "slots": 2})
    ranker = registry.ranker("shop")
    assert ranker is registry.find("shop").ranker
    with pytest.raises(NotFound, match="ranker 'none' does not exist"):
        registry.ranker("none")
    ranker.quarantine = Quarantine(7, "a reason")
    with pytest.raises(Quarantined, match="log position 7: a reason"):
        registry.ranker("shop")
    assert registry.find("shop").answer().quarantine == ranker.quarantine
    registry.close()
