"""The HTTP service: every route, every status, and what a restart gives back."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from starlette.types import Receive, Scope, Send

from rankloop.errors import InvalidInput, Quarantined, RankloopError
from rankloop.eventlog import StoreUnavailable
from rankloop.hosting.registry import RankerRegistry
from rankloop.schema.api_key import ApiKey
from rankloop.schema.service_settings import ServiceLimits, ServiceSettings
from rankloop.service import readiness
from rankloop.service import settings as configuration
from rankloop.service.access.auth import RateLimit, make_key
from rankloop.service.app import create_app
from rankloop.service.problems import RequestRefused

DIM = 3
LINEAR = {"policy": "cascade-lin-ts", "slots": 3, "dim": DIM, "seed": 5}
COUNTS = {"policy": "cascade-ucb1", "slots": 2}


class Http:
    """A service in this process, asked as over HTTP."""

    def __init__(self, settings: ServiceSettings) -> None:
        self.app = create_app(settings)
        self.service = self.app.state.service
        self._runner = asyncio.Runner()
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        self._client = httpx.AsyncClient(transport=transport, base_url="http://localhost")

    def __call__(self, method: str, path: str, body: Any = None, **more: Any) -> httpx.Response:
        if body is not None:
            more["content"] = body if isinstance(body, bytes) else json.dumps(body).encode()
        if method != "GET":
            more["headers"] = {"Content-Type": "application/json"} | more.get("headers", {})
        return self._runner.run(self._client.request(method, path, **more))

    def together(self, *asked: tuple[str, str, Any]) -> list[httpx.Response]:
        async def all_of_them() -> list[httpx.Response]:
            return await asyncio.gather(*(self._client.request(m, p, json=body) for m, p, body in asked))

        return self._runner.run(all_of_them())

    def close(self) -> None:
        self._runner.run(self._client.aclose())
        self._runner.close()
        self.service.close()


Start = Callable[..., Http]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Services over one log, closed at the end."""
    running: list[Http] = []

    def begin(**more: Any) -> Http:
        for http in running:
            http.close()
        running[:] = [Http(ServiceSettings(log=str(tmp_path / "log.db"), **more))]
        return running[0]

    yield begin
    for http in running:
        http.close()


@pytest.fixture
def http(start: Start) -> Http:
    """A service with a ranker `r` of four items and a ranker `c` that counts."""
    http = start()
    assert http("PUT", "/v1/rankers/r", LINEAR).status_code == 201
    assert http("PUT", "/v1/rankers/r/items", {"items": items(4)}).status_code == 204
    assert http("PUT", "/v1/rankers/c", COUNTS).status_code == 201
    assert http("PUT", "/v1/rankers/c/items", {"items": [{"id": i} for i in "abc"]}).status_code == 204
    return http


def items(n: int) -> list[dict[str, Any]]:
    x = np.random.default_rng(0).standard_normal((n, DIM))
    return [{"id": f"item-{i}", "features": x[i].tolist(), "price": float(i)} for i in range(n)]


def problem(response: httpx.Response, status: int, words: str = "", field: str | None = None) -> None:
    """A problem body of one sentence, and nothing that should stay inside."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    assert body["status"] == status
    assert body["title"]
    assert body["detail"].endswith((".", "?"))
    assert words in body["detail"]
    assert "Traceback" not in response.text
    assert body.get("field") == field or field is None


# The way of a list


def test_a_list_its_feedback_and_what_is_said_of_both(http: Http) -> None:
    ranking = http("POST", "/v1/rankers/r/rank", {"k": 2, "pin": {"1": "item-3"}, "propensity": 20}).json()
    assert ranking["policy"] == "cascade-lin-ts"
    assert [one["rule"] for one in ranking["items"]] == ["ranked", "pinned"]
    assert ranking["items"][1]["item"] == "item-3"
    assert 0.0 <= ranking["items"][0]["exploration_share"] <= 1.0
    assert ranking["propensity"]["kind"] == "monte-carlo"
    at = f"/v1/rankers/r/decisions/{ranking['decision']}"
    assert http("GET", at).json()["state"] == "open"
    told = {"decision": ranking["decision"], "clicked": [0], "event": "e1"}
    assert http("POST", "/v1/rankers/r/feedback", told).json()["status"] == "learned"
    assert http("POST", "/v1/rankers/r/feedback", told).json()["status"] == "duplicate"
    assert http("POST", "/v1/rankers/r/feedback", told | {"event": "e2"}).json()["status"] == "late"
    decision = http("GET", at).json()
    assert decision["state"] == "settled"
    assert [slot["item"] for slot in decision["slots"]] == [one["item"] for one in ranking["items"]]
    assert [slot["rule"] for slot in decision["slots"]] == ["ranked", "pinned"]
    for slot, one in zip(decision["slots"], ranking["items"], strict=True):
        assert {name: slot[name] for name in one} == one, "why it stood there is remembered"
    assert "exploration" in decision["slots"][0]["reason"]
    assert decision["summary"].endswith("the visitor clicked slot 0.")
    assert (decision["policy"], decision["seed"], decision["group"]) == ("cascade-lin-ts", 5, "treatment")
    assert [len(slot["features"]) for slot in decision["slots"]] == [DIM, DIM]
    assert [event["event"] for event in decision["events"]] == ["e1", "e2"]
    assert decision["events"][0]["outcome"] == [1.0, 0.0]


def test_a_list_that_was_never_shown_is_withdrawn(http: Http) -> None:
    id = http("POST", "/v1/rankers/r/rank", {}).json()["decision"]
    assert http("POST", "/v1/rankers/r/withdraw", {"decision": id}).json()["status"] == "withdrawn"
    assert http("POST", "/v1/rankers/r/withdraw", {"decision": id}).json()["status"] == "duplicate"
    assert http("GET", f"/v1/rankers/r/decisions/{id}").json()["state"] == "withdrawn"
    assert http("POST", "/v1/rankers/r/feedback", {"decision": id, "clicked": []}).json()["status"] == "late"


def test_feedback_in_bulk_is_taken_or_refused_one_by_one(http: Http) -> None:
    ids = [http("POST", "/v1/rankers/r/rank", {}).json()["decision"] for _ in range(3)]
    events: list[dict[str, Any]] = [{"decision": id, "values": [0, 0.5, 0]} for id in ids]
    events += [{"decision": "never"}, {"decision": ids[0], "clicked": [9]}]
    results = http("POST", "/v1/rankers/r/feedback/bulk", {"events": events}).json()["results"]
    assert [one["status"] for one in results] == ["learned"] * 3 + ["refused"] * 2
    assert "from 0 to 2" in results[4]["problem"]
    assert http("POST", "/v1/rankers/r/feedback/bulk", {"events": []}).json() == {"results": []}


def test_callers_at_the_same_time_share_commits(http: Http) -> None:
    asked = [("POST", "/v1/rankers/r/rank", {"k": 2}) for _ in range(60)]
    answers = http.together(*asked)
    ids = [answer.json()["decision"] for answer in answers]
    assert len(set(ids)) == 60
    told = http.together(*(("POST", "/v1/rankers/r/feedback", {"decision": id, "items": []}) for id in ids))
    assert {answer.json()["status"] for answer in told} == {"learned"}
    assert http("GET", "/v1/rankers/r").json()["decisions"] == 60


def test_the_windows_of_lists_close_by_themselves(http: Http) -> None:
    http("PUT", "/v1/rankers/short", COUNTS | {"window": 0.01})
    http("PUT", "/v1/rankers/short/items/a", {})
    id = http("POST", "/v1/rankers/short/rank", {"k": 1}).json()["decision"]
    time.sleep(0.02)
    http.service.scheduler.run_once()
    assert http("GET", f"/v1/rankers/short/decisions/{id}").json()["state"] == "closed"
    assert 'rankloop_windows_closed_total{ranker="short"} 1.0' in http("GET", "/metrics").text


def test_ids_of_no_item_are_ignored_and_named(http: Http) -> None:
    asked = {"candidates": ["item-1", "x"], "exclude": ["y"], "order": ["item-2", "z"]}
    answer = http("POST", "/v1/rankers/r/rank", asked).json()
    assert ([one["item"] for one in answer["items"]], answer["ignored"]) == (["item-1"], ["x", "y", "item-2", "z"])
    assert http("POST", "/v1/rankers/r/rank", {}).json()["ignored"] == []
    problem(http("POST", "/v1/rankers/r/rank", asked | {"strict": True}), 422, "the id of an item", "candidates[1]")


def test_items_whose_ids_are_numbers_are_told_apart_from_slots(start: Start) -> None:
    http = start()
    http("PUT", "/v1/rankers/n", COUNTS | {"policy": "gts"})
    http("PUT", "/v1/rankers/n/items", {"items": [{"id": id} for id in "10"]})
    id = http("POST", "/v1/rankers/n/rank", {"pin": {"0": "1", "1": "0"}}).json()["decision"]
    told = {"decision": id, "item_values": {"0": 2.5}}
    assert http("POST", "/v1/rankers/n/feedback", told).json()["status"] == "learned"
    assert http("GET", f"/v1/rankers/n/decisions/{id}").json()["events"][0]["outcome"] == [0.0, 2.5]


def test_a_caller_who_brings_an_id_may_ask_again(start: Start, http: Http) -> None:
    asked = {"k": 2, "candidates": ["item-0", "item-1", "item-2", "x"], "decision": "visit/4711"}
    first = http("POST", "/v1/rankers/r/rank", asked)
    assert first.json()["decision"] == "visit/4711"
    assert http("POST", "/v1/rankers/r/rank", asked).content == first.content
    many = http.together(*[("POST", "/v1/rankers/r/rank", asked | {"decision": "other"})] * 8)
    assert len({one.content for one in many}) == 1
    problem(http("POST", "/v1/rankers/r/rank", asked | {"k": 3}), 409, "no other request", field="decision")
    assert http("GET", "/v1/rankers/r").json()["decisions"] == 2
    assert 'rankloop_decisions_total{ranker="r"} 2.0' in http("GET", "/metrics").text
    told = {"decision": "visit/4711", "clicked": [0]}
    assert http("POST", "/v1/rankers/r/feedback", told).json()["status"] == "learned"
    again = start()
    assert again("POST", "/v1/rankers/r/rank", asked).content == first.content
    problem(again("POST", "/v1/rankers/r/rank", {"decision": "visit/4711"}), 409)
    assert again("GET", "/v1/rankers/r/decisions/visit/4711").json()["state"] == "settled"


# Items


def test_items_come_change_and_go(http: Http) -> None:
    at = "/v1/rankers/r/items"
    assert http("PUT", f"{at}/a%2Fb", {"features": [1, 2, 3], "price": 2.5}).json()["id"] == "a/b"
    assert http("GET", f"{at}/a%2Fb").json() == {
        "id": "a/b", "features": [1.0, 2.0, 3.0], "price": 2.5, "enabled": True,
        "coverage": None, "prior": None, "default_position": None, "score": None, "fields": None,
    }  # fmt: skip
    http("PUT", f"{at}/a%2Fb", {"features": [1, 2, 3], "enabled": False})
    found = http("GET", at).json()
    assert found["total"] == 5
    assert [one["enabled"] for one in found["items"]] == [True] * 4 + [False]
    assert [one["id"] for one in http("GET", f"{at}?limit=2&offset=1").json()["items"]] == ["item-1", "item-2"]
    assert http("DELETE", f"{at}/a%2Fb").status_code == 204
    problem(http("GET", f"{at}/a%2Fb"), 404, "'a/b'")
    problem(http("DELETE", f"{at}/a%2Fb"), 404)
    back = http("PUT", f"{at}/a%2Fb", {"features": [3, 2, 1], "default_position": 1.5}).json()
    assert (back["features"], back["price"], back["default_position"]) == ([3.0, 2.0, 1.0], 0.0, 1.5)
    assert http("GET", at).json()["items"][-1] == back


def test_items_are_put_all_or_none(http: Http) -> None:
    bad = {"items": [{"id": "new", "features": [1, 1, 1]}, {"id": "short", "features": [1]}]}
    problem(http("PUT", "/v1/rankers/r/items", bad), 422, "a list of 3", field="items[1].features")
    assert http("GET", "/v1/rankers/r/items").json()["total"] == 4


def test_an_item_starts_from_what_another_ranker_says(http: Http) -> None:
    http("PUT", "/v1/rankers/r/items/known", {"features": [1, 0, 0], "prior": {"score": 0.9, "strength": 50}})
    (known,) = [one for one in http("GET", "/v1/rankers/r/report").json()["items"] if one["item"] == "known"]
    assert known["estimate"] > 0.5


# Rankers


def test_rankers_are_listed_replaced_and_deleted(http: Http) -> None:
    assert [one["name"] for one in http("GET", "/v1/rankers").json()["rankers"]] == ["r", "c"]
    http("POST", "/v1/rankers/r/rank", {})
    assert http("PUT", "/v1/rankers/r", LINEAR).status_code == 200  # the same again: nothing changes
    assert http("GET", "/v1/rankers/r").json()["decisions"] == 1
    problem(http("PUT", "/v1/rankers/r", LINEAR | {"policy": "cascade-ucb1"}), 409, "reset: true")
    problem(http("PATCH", "/v1/rankers/r", {"policy": "cascade-ucb1"}), 409, "reset: true")
    problem(http("PATCH", "/v1/rankers/r", {"policy": "cascade-ucb1", "reset": 1}), 422, "true or false")
    replaced = http("PATCH", "/v1/rankers/r", {"policy": "cascade-ucb1", "seed": 6, "reset": True})
    assert replaced.status_code == 200
    assert (replaced.json()["items"], replaced.json()["decisions"]) == (4, 0)
    again = http("PATCH", "/v1/rankers/r", {"dim": None, "reset": True})
    assert again.json()["items"] == 0, "other features, other items"
    assert http("DELETE", "/v1/rankers/r").status_code == 204
    problem(http("GET", "/v1/rankers/r"), 404, "'r'")
    problem(http("DELETE", "/v1/rankers/r"), 404)
    assert http("PUT", "/v1/rankers/r", LINEAR).json()["items"] == 0  # a new one, not the old one back


def test_a_restart_gives_the_same_rankers_and_the_same_next_list(start: Start, http: Http) -> None:
    http("PUT", "/v1/rankers/gone", COUNTS)
    http("DELETE", "/v1/rankers/gone")
    http("PATCH", "/v1/rankers/c", {"slots": 3, "reset": True})
    for name in ("r", "c"):
        for clicked in ([0], [], [1]):
            id = http("POST", f"/v1/rankers/{name}/rank", {"segment": "de"}).json()["decision"]
            http("POST", f"/v1/rankers/{name}/feedback", {"decision": id, "clicked": clicked})
    waiting = http("POST", "/v1/rankers/r/rank", {}).json()["decision"]
    http.service.rankers.writer.flush()
    before = http("GET", "/v1/rankers").json()
    lists = {name: http.service.rankers.find(name).ranker.counts()["decisions"] for name in ("r", "c")}
    again = start()
    assert again("GET", "/v1/rankers").json() == before
    assert {name: again.service.rankers.find(name).ranker.counts()["decisions"] for name in ("r", "c")} == lists
    first = {name: again("POST", f"/v1/rankers/{name}/rank", {"segment": "de"}).json() for name in ("r", "c")}
    again.service.rankers.writer.flush()
    for name in first:  # take the list back out of the log, as if it had not been asked for
        again.service.rankers.store._writer.execute("DELETE FROM log WHERE key = ?", (first[name]["decision"],))
    again.service.rankers.store._writer.execute("DELETE FROM snapshot")
    for hosted in again.service.rankers:
        hosted.ranker.snapshot = lambda: 0
    third = start()
    for name, ranking in first.items():
        assert third("POST", f"/v1/rankers/{name}/rank", {"segment": "de"}).json()["items"] == ranking["items"]
    told = {"decision": waiting, "clicked": [0]}
    assert third("POST", "/v1/rankers/r/feedback", told).json()["status"] == "learned"


def test_rankers_of_the_settings_are_created_once(start: Start) -> None:
    http = start(rankers={"news": COUNTS})
    http("PUT", "/v1/rankers/news/items/a", {})
    again = start(rankers={"news": COUNTS | {"slots": 5}})  # the log's settings are kept
    assert again("GET", "/v1/rankers/news").json()["config"]["slots"] == 2
    assert again("GET", "/v1/rankers/news").json()["items"] == 1


# Reports, health and metrics


def test_the_report_has_estimates_intervals_and_click_through(http: Http) -> None:
    for clicked in ([0], [], [1], [0]):
        id = http("POST", "/v1/rankers/r/rank", {}).json()["decision"]
        http("POST", "/v1/rankers/r/feedback", {"decision": id, "clicked": clicked})
    http("POST", "/v1/rankers/r/rank", {})
    http.service.rankers.writer.flush()
    report = http("GET", "/v1/rankers/r/report").json()
    overview = report["overview"]
    group = overview["groups"]["treatment"]
    assert (group["lists"], group["settled"], group["clicked"]) == (5, 4, 3)
    assert group["click_through"] == 3 / 4
    assert group["low"] < 3 / 4 < group["high"]
    assert overview["groups"]["control"]["lists"] == 0
    assert overview["lift"] is None
    assert sum(one["treatment"]["lists"] for one in overview["times"]) == 5
    assert 0.0 < group["exploration_share"] < 1.0
    places = http("GET", "/v1/rankers/r/slots").json()["items"]
    assert sum(sum(one["treatment"]["shown"]) for one in places) == 15
    assert sum(sum(one["treatment"]["clicked"]) for one in places) == 3
    assert not any(sum(one["control"]["shown"]) for one in places)
    found = report["items"]
    assert report["total"] == len(found) == 4
    assert all(one["low"] < one["estimate"] < one["high"] for one in found)
    assert sorted(found, key=lambda one: -one["estimate"]) == found
    assert len(http("GET", "/v1/rankers/r/report?limit=1&offset=3").json()["items"]) == 1
    problem(http("GET", "/v1/rankers/r/report?segment=xx"), 404, "'xx'")
    problem(http("GET", "/v1/rankers/r/report?limit=0"), 422, field="limit")


def test_those_who_watch_are_told_without_the_items(http: Http) -> None:
    for clicked in ([0], []):
        id = http("POST", "/v1/rankers/r/rank", {"segment": "de"}).json()["decision"]
        http("POST", "/v1/rankers/r/feedback", {"decision": id, "clicked": clicked})
    http.service.rankers.writer.flush()
    told = http("GET", "/v1/rankers/r/overview?hours=1")
    assert told.headers["content-encoding"] == "gzip"
    assert told.json() == {"ranker": "r", "overview": http("GET", "/v1/rankers/r/report?hours=1").json()["overview"]}
    plain = http("GET", "/v1/rankers/r/overview?hours=1", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.json() == told.json()
    assert http("GET", "/v1/rankers/r/segments").json() == {"ranker": "r", "segments": ["de"]}
    problem(http("GET", "/v1/rankers/r/overview?hours=-1"), 422, field="hours")
    problem(http("GET", "/v1/rankers/r/overview?limit=1"), 422, field="limit")
    shown = http("GET", "/v1/rankers").json()["rankers"][0]
    assert shown["groups"] == told.json()["overview"]["groups"]
    assert (shown["lift"], shown["guardrail_tripped"]) == (None, None)
    ascending = http("GET", "/v1/rankers/r/report?sort=item&order=descending&search=ITEM&limit=2").json()
    assert ([one["item"] for one in ascending["items"]], ascending["total"]) == (["item-3", "item-2"], 4)
    problem(http("GET", "/v1/rankers/r/report?order=up"), 422, field="order")
    for path in ("report?limit=2", "slots?limit=2"):
        now = http("GET", f"/v1/rankers/r/{path}").json()
        old = http("GET", f"/v1/rankers/r/{path}&age=60")
        assert (old.json(), old.headers["content-encoding"]) == (now, "gzip")
        id = http("POST", "/v1/rankers/r/rank", {"segment": "de"}).json()["decision"]
        http("POST", "/v1/rankers/r/feedback", {"decision": id, "clicked": [0]})
        assert http("GET", f"/v1/rankers/r/{path}&age=60").json() == now
        assert http("GET", f"/v1/rankers/r/{path}").json() != now
        problem(http("GET", f"/v1/rankers/r/{path}&age=61"), 422, field="age")


@pytest.mark.parametrize("id", ["toprank", "random", "ucr", "cascade-ucb1", "epoch-ucb-upb-star"])
def test_every_kind_of_policy_has_a_report(http: Http, id: str) -> None:
    from rankloop import catalogue

    needs = catalogue.find(id).needs
    config: dict[str, Any] = {"policy": id, "slots": 2}
    config |= {"rounds": 100} if id == "toprank" else {}
    config |= {"context": 2} if "context" in needs else {}
    config |= {"bias": [1.0, 0.5]} if "bias" in needs else {}
    assert http("PUT", "/v1/rankers/p", config).status_code == 201
    http("PUT", "/v1/rankers/p/items", {"items": [{"id": f"item-{i}"} for i in range(4)]})
    asked = {"context": [0.5, 0.5]} if "context" in needs else {}
    assert len(http("POST", "/v1/rankers/p/rank", asked).json()["items"]) == 2
    assert http("GET", "/v1/rankers/p/report").json()["total"] == 4


def test_health_and_metrics(http: Http) -> None:
    id = http("POST", "/v1/rankers/r/rank", {}).json()["decision"]
    http("POST", "/v1/rankers/r/feedback", {"decision": id, "clicked": [0]})
    assert http("GET", "/healthz").json() == {"status": "ok"}
    assert http("GET", "/readyz").json() == {"status": "ok", "quarantined": []}
    text = http("GET", "/metrics").text
    for line in (
        'rankloop_decisions_total{ranker="r"} 1.0',
        'rankloop_feedback_total{ranker="r",status="learned"} 1.0',
        'rankloop_open_decisions{ranker="r"} 0.0',
        'rankloop_open_decisions_limit{ranker="r"} 1e+06',
        'rankloop_windows_closed_early_total{ranker="r"} 0.0',
        'rankloop_answers_total{route="/v1/rankers/{name}/rank",status="200"} 1.0',
        'rankloop_feedback_delay_seconds_count{ranker="r"} 1.0',
        'rankloop_request_seconds_bucket{le="+Inf",route="/v1/rankers/{name}/rank"} 1.0',
    ):
        assert line in text
    assert 'rankloop_log_position{ranker="r"}' in text


def test_the_document_has_every_route(http: Http) -> None:
    document = http("GET", "/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    served = {getattr(route, "path", "").replace(":path", "") for route in http.app.routes}
    pages = {"/", "/dashboard", "/dashboard/", "/dashboard/{file}", "/openapi.json"}  # not of the API
    routes = (_paths(http.app) - pages) | (served & {"/healthz"})
    assert routes <= set(document["paths"])
    rank = document["paths"]["/v1/rankers/{name}/rank"]["post"]
    assert rank["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith("/RankRequest")
    assert {"200", "400", "401", "403", "404", "413", "422", "429", "503"} <= set(rank["responses"])
    text = json.dumps(document)
    for name in {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}:
        assert name in document["components"]["schemas"]


def _paths(app: Any) -> set[str]:
    """Every path that the application answers."""
    found = set()
    for route in app.routes:
        inner = getattr(getattr(route, "original_router", None), "routes", None) or [route]
        found |= {getattr(one, "path", "").replace(":path", "") for one in inner}
    return found - {""}


# Refusals


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        (b"{", 400, None),
        (b"", 400, None),
        (b'{"k": NaN}', 400, None),
        (b'{"context": [NaN]}', 400, None),
        (b'{"context": [Infinity]}', 400, None),
        (b'{"segment": "a\x00b"}', 400, None),
        (b'{"segment": "\xff"}', 400, None),
        (b'{"segment": "\\ud800"}', 400, None),
        (b"[" * 100_000, 422, "body"),
        (b'{"context":' * 1000, 422, "context"),
        (b'{"context": [1e999]}', 422, "context[0]"),
        (b'{"segment": "a\\u0000b"}', 422, "segment"),
        (b"[]", 422, "body"),
        (b'{"k": "two"}', 422, "k"),
        (b'{"k": 2.5}', 422, "k"),
        (b'{"k": true}', 422, "k"),
        (b'{"k": -1}', 422, "k"),
        (b'{"k": 4}', 422, "k"),
        (b'{"k": 99999999999999999999999}', 422, "k"),
        (b'{"other": 1}', 422, None),
        (b'{"context": [1, 2]}', 422, "context"),
        (b'{"candidates": ["unknown"], "strict": true}', 422, "candidates[0]"),
        (b'{"candidates": ["a\\nb"]}', 422, "candidates[0]"),
        (b'{"order": ["item-1", "item-1"]}', 422, "order"),
        (b'{"strict": 1}', 422, "strict"),
        (b'{"decision": ""}', 422, "decision"),
        (b'{"decision": "a\\nb"}', 422, "decision"),
        (b'{"candidates": "item-1"}', 422, "candidates"),
        (b'{"exclude": [1]}', 422, "exclude[0]"),
        (b'{"pin": {"x": "item-1"}}', 422, "pin"),
        (b'{"pin": {"7": "item-1"}}', 422, "pin"),
        (b'{"k": 0, "pin": {"0": "item-1"}}', 422, "pin"),
        (b'{"pin": {"0": "item-1", "1": "item-1"}}', 422, "pin"),
        (b'{"propensity": 5000}', 422, "propensity"),
    ],
)
def test_a_bad_request_for_a_list_is_refused(http: Http, body: bytes, status: int, field: str | None) -> None:
    problem(http("POST", "/v1/rankers/r/rank", body), status, field=field)
    assert http("GET", "/v1/rankers/r").json()["decisions"] == 0


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"clicked": [3]}, "from 0 to 2"),
        ({"clicked": [-1]}, "clicked[0]"),
        ({"items": ["item-x"]}, "an item of this list"),
        ({"clicked": [0], "items": []}, "only clicked"),
        ({"values": [1.0]}, "3 numbers"),
        ({"values": {"5": 1.0}}, "item_values"),
        ({"item_values": {"item-x": 1.0}}, "an item of this list"),
        ({"item_values": [1.0]}, "item_values"),
        ({"clicked": [0], "item_values": {}}, "only clicked"),
        ({"values": [1e300, 0, 0]}, "values[0]"),
        ({"event": ""}, "event"),
        ({"event": "a\nb"}, "printable"),
        ({"final": "yes"}, "final"),
        ({"seen": 3}, "from 0 to 2, each once"),
        ({"seen": [1, 1]}, "seen[1]"),
        ({"seen": -1}, "the last visible slot"),
        ({"seen": 0, "clicked": [1]}, "slots that include slot 1"),
    ],
)
def test_bad_feedback_is_refused_and_changes_nothing(http: Http, told: dict[str, Any], words: str) -> None:
    id = http("POST", "/v1/rankers/r/rank", {}).json()["decision"]
    problem(http("POST", "/v1/rankers/r/feedback", {"decision": id} | told), 422, words)
    assert http("GET", f"/v1/rankers/r/decisions/{id}").json()["state"] == "open"


def test_values_are_refused_where_a_policy_learns_from_clicks(http: Http) -> None:
    id = http("POST", "/v1/rankers/c/rank", {}).json()["decision"]
    problem(http("POST", "/v1/rankers/c/feedback", {"decision": id, "values": [0.5, 0]}), 422, "not values")


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({}, "ranker.slots"),
        ({"policy": "nothing", "slots": 2}, "ranker.policy"),
        ({"policy": "cascade-ucb1", "slots": 0}, "ranker.slots"),
        ({"policy": "cascade-ucb1", "slots": 2, "color": "red"}, "ranker.color"),
        ({"policy": "cascade-ucb1", "slots": 2, "params": {"x": 1}}, None),
        ({"policy": "cascade-ucb1", "slots": 2, "params": []}, "ranker.params"),
        ({"policy": "cascade-lin-ts", "slots": 2, "dim": 10**9}, "ranker.dim"),
        ({"policy": "cascade-lin-ts", "slots": 2, "window": 0}, "ranker.window"),
    ],
)
def test_a_bad_ranker_is_refused(http: Http, config: Any, field: str | None) -> None:
    problem(http("PUT", "/v1/rankers/x", config), 422, field=field)
    problem(http("GET", "/v1/rankers/x"), 404)


def test_a_deeply_nested_ranker_is_refused(http: Http) -> None:
    deep = b'{"policy": "cascade-ucb1", "slots": 2, "params": ' + b"[" * 50_000 + b"]" * 50_000 + b"}"
    problem(http("PUT", "/v1/rankers/x", deep), 400, "nested too deeply")
    some = b'{"policy": "cascade-ucb1", "slots": 2, "params": ' + b"[" * 300 + b"]" * 300 + b"}"
    problem(http("PUT", "/v1/rankers/x", some), 422, field="ranker.params")


@pytest.mark.parametrize("name", ["%00", "a%0Ab", "%20", "a%23b", "-a", "x" * 65, "%F0%9F%8D%8E"])
def test_a_bad_name_is_refused(http: Http, name: str) -> None:
    problem(http("PUT", f"/v1/rankers/{name}", COUNTS), 422, "letters", field="name")
    problem(http("POST", f"/v1/rankers/{name}/rank", {}), 404)


def test_what_is_not_there_is_not_found(http: Http) -> None:
    for method, path, body in (
        ("POST", "/v1/rankers/none/rank", {}),
        ("POST", "/v1/rankers/none/feedback", {"decision": "d"}),
        ("POST", "/v1/rankers/none/feedback/bulk", {"events": []}),
        ("POST", "/v1/rankers/none/withdraw", {"decision": "d"}),
        ("POST", "/v1/rankers/r/feedback", {"decision": "d"}),
        ("POST", "/v1/rankers/r/withdraw", {"decision": "d"}),
        ("GET", "/v1/rankers/r/decisions/d", None),
        ("GET", "/v1/rankers/r/items/none", None),
        ("DELETE", "/v1/rankers/r/items/none", None),
        ("PUT", "/v1/rankers/none/items/a", {}),
        ("PUT", "/v1/rankers/none/items", {"items": []}),
        ("GET", "/v1/rankers/none/items", None),
        ("GET", "/v1/rankers/none/report", None),
        ("GET", "/v1/rankers/none/overview", None),
        ("GET", "/v1/rankers/none/segments", None),
        ("GET", "/v1/rankers/none", None),
        ("GET", "/nowhere", None),
        ("GET", "/v1/rankers/", None),
    ):
        problem(http(method, path, body), 404)


def test_unknown_parameters_are_refused(http: Http) -> None:
    problem(http("GET", "/v1/rankers/r/items?limits=1"), 422, "limit, offset", field="limits")
    problem(http("GET", "/v1/rankers/r/items?limit=1&limit=2"), 422, field="limit")
    problem(http("POST", "/v1/rankers/r/rank?k=1", {}), 422, "accepted: none", field="k")


def test_another_method_or_media_type_is_refused(http: Http) -> None:
    wrong = http("GET", "/v1/rankers/r/rank")
    problem(wrong, 405)
    assert wrong.headers["allow"] == "POST, OPTIONS"
    for path in ("/v1/rankers/r/rank", "/v1/rankers/r/withdraw"):
        for media in ("text/plain", "application/x-www-form-urlencoded"):
            problem(http("POST", path, b"{}", headers={"Content-Type": media}), 415, "application/json")


@pytest.mark.parametrize("path", ["/v1/rankers/r/rank", "/v1/rankers/r/feedback", "/v1/rankers/r/feedback/bulk"])
def test_a_huge_body_is_refused_before_it_is_read(http: Http, path: str) -> None:
    problem(http("POST", path, b" " * 1_000_001), 413, "at most 1000000 bytes")

    async def parts() -> Any:
        for _ in range(100):
            yield b" " * 50_000

    problem(http("POST", path, content=parts(), headers={"Content-Type": "application/json"}), 413)


def test_ten_thousand_candidates_are_ranked_and_one_more_refused(http: Http) -> None:
    many = [{"id": f"n{i}"} for i in range(10_000)]
    assert http("PUT", "/v1/rankers/c/items", {"items": many}).status_code == 204
    ids = [one["id"] for one in many]
    listed = http("POST", "/v1/rankers/c/rank", {"candidates": ids}).json()["items"]
    assert len(listed) == 2
    problem(http("POST", "/v1/rankers/c/rank", {"candidates": [*ids, "a"]}), 422, "at most 10000", field="candidates")
    problem(http("PUT", "/v1/rankers/c/items", {"items": [*many, {"id": "a"}]}), 422, "at most 10000", field="items")
    assert http("POST", "/v1/rankers/c/rank", {"exclude": ids, "k": 1}).json()["items"][0]["item"] in "abc"


def test_limits_of_items_segments_and_rankers(start: Start) -> None:
    http = start(limits=ServiceLimits(items=2, segments=1, rankers=1, bulk=1))
    http("PUT", "/v1/rankers/c", COUNTS)
    problem(http("PUT", "/v1/rankers/d", COUNTS), 422, "no more")
    http("PUT", "/v1/rankers/c/items", {"items": [{"id": "a"}, {"id": "b"}]})
    problem(http("PUT", "/v1/rankers/c/items/x", {}), 422, "at most 2")
    assert http("POST", "/v1/rankers/c/rank", {"segment": "one"}).status_code == 200
    problem(http("POST", "/v1/rankers/c/rank", {"segment": "two"}), 422, field="segment")
    problem(http("POST", "/v1/rankers/c/feedback/bulk", {"events": [{"decision": "d"}] * 2}), 422, field="events")


def test_a_log_that_cannot_be_written_is_said_and_recovers(http: Http, monkeypatch: pytest.MonkeyPatch) -> None:
    id = http("POST", "/v1/rankers/r/rank", {}).json()["decision"]
    http("PUT", "/v1/rankers/all", COUNTS | {"commit": "all"})

    def broken(batch: Any, after: int | None = None) -> Any:
        raise StoreUnavailable("the log cannot be written now (disk full).")

    with monkeypatch.context() as patch:
        patch.setattr(http.service.rankers.store, "append", broken)
        for method, path, body in (
            ("POST", "/v1/rankers/all/rank", {}),
            ("POST", "/v1/rankers/r/feedback", {"decision": id, "clicked": []}),
            ("POST", "/v1/rankers/r/withdraw", {"decision": id}),
            ("PUT", "/v1/rankers/r/items/x", {"features": [1, 1, 1]}),
            ("PUT", "/v1/rankers/new", COUNTS),
            ("DELETE", "/v1/rankers/r", None),
        ):
            answer = http(method, path, body)
            problem(answer, 503, "disk full")
            assert answer.headers["retry-after"] == "1"
        problem(http("POST", "/v1/rankers/r/feedback/bulk", {"events": [{"decision": id}]}), 503, "disk full")
        events = [{"decision": id}, {"decision": "nobody's"}]
        bulk = http("POST", "/v1/rankers/r/feedback/bulk", {"events": events}).json()
        assert [one["status"] for one in bulk["results"]] == ["unavailable", "refused"]
        later = http("POST", "/v1/rankers/r/rank", {}).json()["decision"]  # waits for room in the log
    for one in (id, later):
        assert http("POST", "/v1/rankers/r/feedback", {"decision": one, "clicked": []}).json()["status"] == "learned"


def test_an_unexpected_error_shows_nothing(http: Http, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*args: Any, **more: Any) -> Any:
        raise KeyError("a secret")

    for path, target, body in (("rank", "submit_rank", {}), ("items", "items", None)):
        monkeypatch.setattr(http.service.rankers.find("r").ranker, target, failing)
        answer = http("GET" if body is None else "POST", f"/v1/rankers/r/{path}", body)
        problem(answer, 500)
        assert "secret" not in answer.text


def test_a_caller_who_leaves_does_not_stop_the_writer(http: Http) -> None:
    async def leave() -> None:
        asked = asyncio.ensure_future(http._client.post("/v1/rankers/r/rank", json={}))
        for _ in range(6):
            await asyncio.sleep(0)
        asked.cancel()

    for _ in range(5):
        http._runner.run(leave())
    assert http("POST", "/v1/rankers/r/rank", {}).status_code == 200
    assert http("GET", "/readyz").status_code == 200


# Keys


@pytest.fixture
def keys() -> dict[str, tuple[str, dict[str, Any]]]:
    return {role: make_key(f"{role}-key", [role]) for role in ("rank", "feedback", "read", "admin")}


ROLES: list[tuple[str, str, Any, str]] = [
    ("POST", "/v1/rankers/r/rank", {}, "rank"),
    ("POST", "/v1/rankers/r/rank/batch", {"requests": []}, "rank"),
    ("POST", "/v1/rankers/r/feedback", {"decision": "d"}, "feedback"),
    ("POST", "/v1/rankers/r/feedback/bulk", {"events": []}, "feedback"),
    ("POST", "/v1/rankers/r/withdraw", {"decision": "d"}, "feedback"),
    ("GET", "/v1/rankers/r/decisions/d", None, "read"),
    ("GET", "/v1/rankers/r/report", None, "read"),
    ("GET", "/v1/rankers/r/overview", None, "read"),
    ("GET", "/v1/rankers/r/segments", None, "read"),
    ("GET", "/v1/rankers/r/items", None, "read"),
    ("GET", "/v1/rankers/r/items/a", None, "read"),
    ("GET", "/v1/rankers", None, "read"),
    ("GET", "/v1/rankers/r", None, "read"),
    ("GET", "/metrics", None, "read"),
    ("PUT", "/v1/rankers/r/items", {"items": []}, "admin"),
    ("PUT", "/v1/rankers/r/items/a", {}, "admin"),
    ("DELETE", "/v1/rankers/r/items/a", None, "admin"),
    ("PUT", "/v1/rankers/r", COUNTS, "admin"),
    ("DELETE", "/v1/rankers/r", None, "admin"),
]


def test_every_route_wants_its_role(start: Start, keys: dict[str, Any]) -> None:
    http = start(keys=[kept for _, kept in keys.values()], host="0.0.0.0")
    for method, path, body, role in ROLES:
        nobody = http(method, path, body)
        problem(nobody, 401, "an API key is needed")
        assert nobody.headers["www-authenticate"] == "Bearer"
        for wrong in ("Bearer wrong", "Basic x", "Bearer", f"Bearer {keys[role][0]}x", "Bearer ÿ"):
            problem(http(method, path, body, headers={"Authorization": wrong.encode("latin-1")}), 401)
        for other, (key, _) in keys.items():
            answer = http(method, path, body, headers={"Authorization": f"Bearer {key}"})
            if other in (role, "admin"):
                assert answer.status_code in (200, 201, 204, 404), (method, path, other)
            else:
                problem(answer, 403, f"the role {role}")
    assert http("GET", "/healthz").status_code == http("GET", "/readyz").status_code == 200


def test_a_key_may_ask_only_so_often(start: Start, keys: dict[str, Any]) -> None:
    http = start(keys=[kept for _, kept in keys.values()], limits=ServiceLimits(rate=2))
    header = {"Authorization": f"Bearer {keys['read'][0]}"}
    answers = [http("GET", "/v1/rankers", headers=header) for _ in range(8)]
    problem(answers[-1], 429, "2 requests per second")
    assert answers[0].status_code == 200
    other = {"Authorization": f"Bearer {keys['admin'][0]}"}
    assert http("GET", "/v1/rankers", headers=other).status_code == 200


def test_a_rate_fills_with_time() -> None:
    now = [0.0]
    rate = RateLimit(2.0, clock=lambda: now[0])
    rate.spend("a")
    rate.spend("a")
    with pytest.raises(RequestRefused):
        rate.spend("a")
    now[0] = 0.5
    rate.spend("a")


def test_without_keys_only_this_machine_is_answered(http: Http) -> None:
    problem(http("GET", "/v1/rankers", headers={"Host": "evil.example"}), 403, "localhost")
    for host in ("127.0.0.1:8080", "[::1]:8080", "localhost"):
        assert http("GET", "/v1/rankers", headers={"Host": host}).status_code == 200


def test_other_origins_are_let_in_only_where_the_settings_say_so(start: Start) -> None:
    asked = {"Origin": "https://shop.example", "Access-Control-Request-Method": "POST"}
    assert "access-control-allow-origin" not in start()("OPTIONS", "/v1/rankers/r/rank", headers=asked).headers
    allowed = start(cors_origins=["https://shop.example"])("OPTIONS", "/v1/rankers/r/rank", headers=asked)
    assert allowed.headers["access-control-allow-origin"] == "https://shop.example"


# Settings


def test_settings_come_from_file_environment_and_command_line(tmp_path: Path) -> None:
    file = tmp_path / "service.yaml"
    file.write_text(
        "port: 1\nhost: localhost\nlimits: {body: 5, list: 6}\nrankers: {news: {policy: random, slots: 2}}\n"
    )
    environment = {"RANKLOOP_PORT": "2", "RANKLOOP_LIMITS__BODY": "7", "RANKLOOP_DATA": "/x", "RANKLOOP_LOG": "a.db"}
    found = configuration.load(file, environment=environment, overrides={"log": "b.db", "host": None})
    assert (found.port, found.host, found.log) == (2, "localhost", "b.db")
    assert (found.limits.body, found.limits.list) == (7, 6)
    assert found.rankers["news"]["slots"] == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("port: many", "port"),
        ("color: red", "color"),
        ("host: 0.0.0.0", "without API keys"),
        ("hosst: localhost", r"Did you mean 'host'\?"),
        ("limits: {bdy: 5}", r"limits.bdy is not acceptable; .* Did you mean 'body'\?"),
        ("keys: [{name: a, roles: [raed], salt: hidden-salt, sha256: hidden-hash}]", r"Did you mean 'read'\?"),
        ("keys: [{name: a, roles: [read], salt: [hidden-salt], sha256: hidden-hash}]", r"^keys\[0\].salt is not"),
        ("log: 5", "^log is not acceptable; accepted: a text of at least 1"),
        ("port: 70000", "^port is not acceptable; accepted: a whole number from 0 to 65535"),
        ("keys: [{name: a, roles: [king], salt: hidden-salt, sha256: hidden-hash}]", "roles"),
        ("keys: [{name: a, roles: [], salt: hidden-salt, sha256: hidden-hash}]", "roles"),
        ("[1]", "a mapping"),
        ("key: [", "not YAML"),
    ],
)
def test_bad_settings_are_refused_without_showing_secrets(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "service.yaml"
    file.write_text(text)
    with pytest.raises(RankloopError, match=words) as error:
        configuration.load(file, environment={})
    assert "hidden" not in str(error.value)


def test_settings_that_are_not_there_or_not_yaml(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="can be read"):
        configuration.load(tmp_path / "none.yaml", environment={})
    with pytest.raises(InvalidInput, match="RANKLOOP_PORT"):
        configuration.load(environment={"RANKLOOP_PORT": "["})


def test_secrets_are_never_printed(keys: dict[str, Any]) -> None:
    settings = ServiceSettings(keys=[kept for _, kept in keys.values()], log="postgresql://u:password@h/d")  # type: ignore[arg-type]
    for shown in (repr(settings), str(settings), repr(settings.keys)):
        assert "password" not in shown
        for key, kept in keys.values():
            assert key not in shown
            assert kept["sha256"] not in shown
            assert kept["salt"] not in shown


def test_a_log_is_served_by_one_process(http: Http, tmp_path: Path) -> None:
    with pytest.raises(RankloopError, match="by another process"):
        create_app(ServiceSettings(log=str(tmp_path / "log.db")))
    assert http("POST", "/v1/rankers/r/rank", {}).status_code == 200


def test_it_is_not_ready_while_its_log_cannot_be_read(http: Http, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*asked: Any) -> Any:
        raise StoreUnavailable("the log cannot be read now.")

    with monkeypatch.context() as patch:
        patch.setattr(http.service.rankers.store, "find", broken)
        problem(http("GET", "/readyz"), 503, "cannot be read")
    assert http("GET", "/readyz").status_code == 200


def test_it_says_in_time_that_its_log_hangs_and_holds_one_thread_for_it(
    http: Http, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, looks = threading.Event(), list[Any]()

    def hanging(*asked: Any) -> Any:
        looks.append(asked)
        go.wait()

    with monkeypatch.context() as patch:
        patch.setattr(readiness, "READ_TIMEOUT_SECONDS", 0.02)
        patch.setattr(http.service.rankers.store, "find", hanging)
        for answer in http.together(*[("GET", "/readyz", None)] * 3):
            problem(answer, 503, "does not respond")
        problem(http("GET", "/readyz"), 503, "does not respond")
    assert len(looks) == 1
    assert http("GET", "/healthz").status_code == 200
    go.set()
    assert http("GET", "/readyz").status_code == 200


def test_an_application_that_ends_closes_its_log(tmp_path: Path) -> None:
    app = create_app(ServiceSettings(log=str(tmp_path / "log.db")))
    sent: list[Any] = []

    async def live(scope: Scope, receive: Receive, send: Send) -> None:
        await app(scope, receive, send)

    async def run() -> None:
        messages = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])

        async def receive() -> Any:
            return next(messages)

        async def send(message: Any) -> None:
            sent.append(message["type"])

        await live({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, receive, send)

    asyncio.run(run())
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert not app.state.service.rankers.writes


def test_an_entry_that_cannot_be_read_sets_its_ranker_aside_and_no_other(tmp_path: Path) -> None:
    """What the log says of one ranker is damaged; the others serve, and the one can start anew."""
    log = tmp_path / "log.db"
    settings = ServiceSettings(log=str(log))
    rankers = RankerRegistry.open(settings)
    for name in ("one", "two"):
        rankers.put(name, {"policy": "gts", "slots": 1})
    rankers.close()
    with sqlite3.connect(log) as connection:
        connection.execute("UPDATE log SET body = x'00' WHERE kind = 'ranker-put' AND subject = 'one'")
    connection.close()
    rankers = RankerRegistry.open(settings)
    assert [hosted.name for hosted in rankers] == ["two"]
    assert "its entry cannot be read" in rankers.quarantined["one"].reason
    with pytest.raises(Quarantined):
        rankers.put("one", {"policy": "gts", "slots": 1})
    rankers.patch("one", {"policy": "gts", "slots": 1, "reset": True})
    assert rankers.quarantined == {}
    rankers.close()
    again = RankerRegistry.open(settings)
    assert sorted(hosted.name for hosted in again) == ["one", "two"]
    again.close()


def test_without_a_key_readiness_counts_quarantined_rankers_and_names_none(tmp_path: Path) -> None:
    key, entry = make_key("reader", ["read"])
    log = str(tmp_path / "log.db")
    rankers = RankerRegistry.open(ServiceSettings(log=log))
    rankers.put("secret", {"policy": "gts", "slots": 1})
    rankers.close()
    with sqlite3.connect(log) as connection:
        connection.execute("UPDATE log SET body = x'00' WHERE kind = 'ranker-put'")
    connection.close()
    http = Http(ServiceSettings(log=log, keys=(ApiKey.of(entry),)))
    try:
        (hidden,) = http("GET", "/readyz").json()["quarantined"]
        assert "secret" not in json.dumps(hidden)
        (named,) = http("GET", "/readyz", headers={"Authorization": f"Bearer {key}"}).json()["quarantined"]
        assert named["ranker"] == "secret"
    finally:
        http.close()
