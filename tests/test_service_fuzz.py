"""Requests made from the OpenAPI document, good and bad: the service answers each as the document says.

The long version: make fuzz
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from rankloop.schema.service_settings import ServiceSettings
from rankloop.service.access.auth import make_key
from rankloop.service.app import application
from rankloop.service.service import Service
from rankloop.serving.verification import decide_again

pytestmark = pytest.mark.slow

SECONDS = float(os.environ.get("RANKLOOP_FUZZ", "25"))
EXAMPLES = max(12, round(SECONDS / 2))
"""Of one kind, for each operation; where there is no time for all of them, for as many as there is."""
log = logging.getLogger("rankloop.tests")
NAME = "0"
CONFIG = {"policy": "cascade-lin-ts", "slots": 3, "dim": 2, "reward": {"kinds": {"click": {}, "purchase": {}}}}
ITEMS = [{"id": id, "features": [0.1, 0.2]} for id in ("a", "b", "c", "0")]
EXCLUDED = [positive_data_acceptance]  # a body that the schema allows may still name an item that is not there


@pytest.fixture
def service(tmp_path: Path) -> Iterator[tuple[Any, str]]:
    """An application with a ranker, and its key."""
    key, kept = make_key("fuzz", ["admin"])
    service = Service.open(ServiceSettings.of({"log": str(tmp_path / "log.db"), "keys": [kept]}))
    yield application(service), key
    service.close()


def test_every_response_conforms_to_the_openapi_document(service: tuple[Any, str]) -> None:
    app, key = service
    rankers = app.state.service.rankers
    operations: list[Any] = [found.ok() for found in _schema(app, key).get_all_operations()]
    assert len(operations) == 31
    asked: list[int] = []

    def ask(case: Any) -> None:
        if NAME not in {hosted.name for hosted in rankers}:
            rankers.put(NAME, CONFIG)
            rankers.put_items(NAME, ITEMS)
        asked.append(case.call_and_validate(excluded_checks=EXCLUDED).status_code)

    begin = time.monotonic()
    for i, operation in enumerate(operations):
        end = begin + SECONDS * (i + 1) / len(operations)  # nobody takes the others' time
        for mode in GenerationMode:
            _play(operation.as_strategy(mode), ask, end)
            if "{name}" in operation.path:  # of the ranker that is there, by somebody who may
                allowed = {"Authorization": f"Bearer {key}"}
                _play(operation.as_strategy(mode, path_parameters={"name": NAME}, headers=allowed), ask, end)
    assert {200, 404, 422} <= set(asked)  # a slow machine has time for fewer of the rarer ones
    assert len(asked) >= 2 * len(operations)
    log.info("%s requests: %s", f"{len(asked):,}", ", ".join(f"{n:,} × {s}" for s, n in sorted(Counter(asked).items())))


RANKERS: dict[str, dict[str, Any]] = {
    "linear": {"policy": "cascade-lin-ts", "slots": 3, "dim": 2},
    "crossed": {"policy": "lin-ts-ltr", "slots": 3, "dim": 2, "context": 1},
    "lengths": {"policy": "ind", "slots": 3, "dim": 2},
    "revenue": {"policy": "g-mle", "slots": 3, "context": 1, "objective": "revenue"},
    "counts": {"policy": "gts", "slots": 3},
    "fields": {
        "policy": "hybrid",
        "slots": 3,
        "features": {
            "items": {
                "price": "number",
                "sort": {"kind": "category", "categories": 2},
                "taste": {"kind": "vector", "size": 2},
            },
            "context": {"hour": "number", "device": {"kind": "category", "categories": 2}},
        },
    },
}
FIELDS: dict[str, Any] = {
    "price": st.floats(-9.0, 9.0),
    "hour": st.integers(0, 23),
    "sort": st.sampled_from(["a", "b", "c"]),
    "device": st.sampled_from(["phone", "tv", "\u2603"]) | st.none(),
    "tags": st.lists(st.sampled_from(["x", "y"]), max_size=3),
    "taste": st.lists(st.floats(-1.0, 1.0), min_size=2, max_size=2),
    "unknown": st.booleans(),
}
"""Values that a ranker takes."""
bad_numbers = st.sampled_from([-1.0, 1e6, 1e7, float("nan"), float("inf"), -float("inf"), 1e308, 5]) | st.none()
bad_ids = st.sampled_from(["a", "unknown", "", "\n", "x" * 201])
odd_values = bad_numbers | st.sampled_from(["a", "x" * 1001, [], [1.0, "x"], ["x"] * 21, True, {}, [[1.0]]])
Items = st.SearchStrategy[Any]


def lists(of: Items, size: int) -> Items:
    """Lists that are often of this length."""
    return st.lists(of, min_size=size, max_size=size) | st.lists(of, max_size=5)


@st.composite
def bodies(draw: st.DrawFn, config: dict[str, Any]) -> dict[str, Any]:
    """A rank request that this ranker accepts, or one with anything in it."""
    if draw(st.booleans()):
        everything = {"score", "price", "features", "fields", "rewards", "context", "extra"}
        anything: dict[str, Any] = draw(_bodies(bad_ids, bad_numbers, everything))
        return anything
    uses = {"price"} if config.get("objective") == "revenue" else set()
    uses |= {"features"} if "dim" in config else set()
    uses |= {"rewards"} if config["policy"] == "ind" else set()
    body: dict[str, Any] = draw(
        _bodies(st.sampled_from(["a", "b", "c", "0"]), st.floats(0.0, 2.0, width=16), uses, exact=True)
    )
    if "features" in config:
        fields = st.fixed_dictionaries({}, optional=FIELDS)
        body["context"] = draw(fields)
        body["items"] = [
            {"id": id, "fields": draw(fields)} for id in draw(st.lists(st.sampled_from("abc0"), unique=True))
        ]
        body.pop("candidates", None)
    return body | ({"context": [0.5]} if "context" in config else {})


def _bodies(ids: Items, numbers: Items, uses: set[str], *, exact: bool = False) -> Items:
    def of(size: int) -> Items:
        return st.lists(numbers, min_size=size, max_size=size) if exact else lists(numbers, size)

    def unique(size: int) -> Items:
        return st.lists(ids, max_size=size, unique=exact)

    values: dict[str, Items] = {name: numbers for name in ("score", "price", "extra") if name in uses}
    values |= {"features": of(2)} if "features" in uses else {}
    values |= {"fields": st.dictionaries(st.sampled_from(list(FIELDS)), odd_values)} if "fields" in uses else {}
    items = st.fixed_dictionaries({"id": ids}, optional=values)
    named = {"items": st.lists(items, max_size=4, unique_by=(lambda one: one["id"]) if exact else None)}
    more = {"exclude": unique(1), "order": unique(4), "k": st.sampled_from([0, 1, 3] if exact else [4, -1])}
    if "rewards" in uses:
        more["rewards"] = of(3).map(lambda values: sorted(values, reverse=True)) if exact else of(3)
        more["losses"] = of(4).map(lambda values: [-value for value in sorted(values)]) if exact else of(4)
    more |= {"context": of(1) | st.dictionaries(st.sampled_from(list(FIELDS)), odd_values)} if "context" in uses else {}
    if not exact:
        more |= {"pin": st.dictionaries(st.sampled_from(["0", "3", "x"]), ids, max_size=2), "strict": st.booleans()}
    return st.one_of(
        st.fixed_dictionaries(named, optional=more),
        st.fixed_dictionaries({"candidates": unique(4)}, optional=more | ({} if exact else named)),
    )


def test_requests_that_bring_values_are_answered_or_refused_with_nothing_changed(service: tuple[Any, str]) -> None:
    """Ids of items that are there, numbers of every kind: an answer, or one sentence and no decision."""
    app, key = service
    rankers, seen = app.state.service.rankers, Counter[int]()
    brought: Counter[str] = Counter()
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    transport = httpx.ASGITransport(app=app)
    client = httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers)
    runner = asyncio.Runner()

    def post(ranker: str, what: str, content: str) -> httpx.Response:
        return runner.run(client.post(f"/v1/rankers/{ranker}/{what}", content=content))

    for name, config in RANKERS.items():
        rankers.put(name, config)
        rankers.put_items(name, [{"id": one["id"]} | (one if "dim" in config else {}) for one in ITEMS])

    @given(data=st.data())
    @settings(max_examples=60 * EXAMPLES, derandomize=True, database=None, deadline=None)
    def one(data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(RANKERS)))
        body = data.draw(bodies(RANKERS[name]))
        ranker = rankers.ranker(name)
        before = ranker.counts()["decisions"]
        content = json.dumps(body).replace("Infinity", "1e999")  # JSON has neither; NaN makes the body no JSON
        said = post(name, "rank", content)
        assert said.status_code in (200, 400, 422), said.text
        seen[said.status_code] += 1
        ranker.flush()
        assert ranker.counts()["decisions"] == before + (said.status_code == 200)
        if said.status_code == 200:
            brought.update(field for one in body.get("items", ()) for field in one)
            brought.update(list(body))
            nothing = {"decision": said.json()["decision"], "clicked": [], "final": True}
            assert post(name, "feedback", json.dumps(nothing)).json()["status"] == "learned"
        else:
            assert said.json()["detail"].endswith((".", "?"))

    one()
    runner.run(client.aclose())
    runner.close()
    assert min(seen[200], seen[422]) > 20, seen
    assert {"items", "features", "fields", "price", "rewards", "losses", "candidates", "order", "exclude"} <= set(
        brought
    ), brought
    for name in RANKERS:
        assert decide_again(rankers.store, rankers.find(name).ranker.name).different == 0


def _schema(app: Any, key: str) -> Any:
    config = schemathesis.Config.from_dict({"auth": {"openapi": {"key": {"bearer": key}}}})
    return schemathesis.openapi.from_asgi("/openapi.json", app, config=config)


def _play(cases: Any, ask: Callable[[Any], None], end: float) -> None:
    """Ask so many times, as long as there is time, and at least once."""
    some = False

    @given(case=cases)
    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def one(case: Any) -> None:
        nonlocal some
        if not some or time.monotonic() < end:
            some = True
            ask(case)

    with suppress(Unsatisfiable):  # nothing can be wrong with a request that takes nothing
        one()
