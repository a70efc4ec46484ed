"""Many lists in one request, many items in one body, and candidates that are new: each as one by one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rankloop.client.calls import Calls
from rankloop.errors import InvalidInput
from rankloop.eventlog.events import DecisionMade, ItemsPut, decode
from rankloop.schema.api_key import ApiKey
from rankloop.schema.service_settings import ServiceLimits, ServiceSettings
from rankloop.service.access.auth import make_key
from rankloop.serving import Ranker, RankerConfig, changing_items
from rankloop.serving.verification import decide_again
from test_service import Http

SHOP: dict[str, Any] = {
    "slots": 2,
    "features": {"items": {"price": {"kind": "number", "scale": 1.0}, "category": "category"}},
}
LINES, ARROW = "application/x-ndjson", "application/vnd.apache.arrow.stream"
ITEMS: list[dict[str, Any]] = [
    {"id": f"i{n}", "fields": {"price": float(n), "category": f"c{n % 3}"}, "enabled": n % 2 == 0} for n in range(7)
]


def ranker(**more: Any) -> Ranker:
    made = Ranker(RankerConfig.of({**SHOP, **more}))
    made.put_items(ITEMS)
    return made


@pytest.fixture
def http(tmp_path: Path) -> Iterator[Http]:
    service = Http(ServiceSettings(log=str(tmp_path / "log.db")))
    assert service("PUT", "/v1/rankers/shop", SHOP).status_code == 201
    yield service
    service.close()


# Batches


def test_a_batch_is_answered_as_its_requests_one_by_one_and_a_bad_one_harms_no_other() -> None:
    requests: list[dict[str, Any]] = [{"k": 1}, {"k": 9}, {"items": [{"id": "i2"}]}, {"segment": "x", "k": 0}]
    one, many = ranker(), ranker()
    answers = many.rank_many(requests)
    assert [answer.status for answer in answers] == ["ranked", "refused", "ranked", "ranked"]
    assert answers[1].problem == "k is 9; accepted: a whole number from 0 to 2."
    for request, answer in zip(requests, answers, strict=True):
        if answer.list is not None:
            assert answer.list.ids == one.rank(**request).ids
    assert many.rank_many([]) == []
    many.flush()
    assert decide_again(many.store, many.name).equal == 3


@pytest.mark.parametrize("commit", ["feedback", "all"])
def test_a_batch_over_http_answers_each_request(http: Http, commit: str) -> None:
    http("PATCH", "/v1/rankers/shop", {"commit": commit})
    http("PUT", "/v1/rankers/shop/items", {"items": ITEMS})
    body = {"requests": [{"k": 1}, {"items": [{"id": "i0", "fields": {"price": "much"}}]}, {"k": 2}]}
    told = http("POST", "/v1/rankers/shop/rank/batch", body)
    assert told.status_code == 200, told.text
    results = told.json()["results"]
    assert [one["status"] for one in results] == ["ranked", "refused", "ranked"]
    assert results[1]["problem"].startswith("items[0].fields.price is 'much'; accepted: ")
    id = results[0]["list"]["decision"]
    assert http("POST", "/v1/rankers/shop/feedback", {"decision": id, "clicked": [0]}).json()["status"] == "learned"


def test_a_batch_is_limited_as_a_whole(tmp_path: Path) -> None:
    http = Http(ServiceSettings(log=str(tmp_path / "log.db"), limits=ServiceLimits(bulk=2)))
    http("PUT", "/v1/rankers/shop", SHOP)
    told = http("POST", "/v1/rankers/shop/rank/batch", {"requests": [{}] * 3})
    assert (told.status_code, told.json()["detail"]) == (422, "requests is a list of 3; accepted: a list of at most 2.")
    http.close()


# Uploads


def body_of(media: str, items: list[dict[str, Any]]) -> bytes:
    if media == LINES:
        return b"\n".join(json.dumps(one).encode() for one in items) + b"\n\n"
    table = pa.Table.from_pylist(items)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    told: bytes = sink.getvalue().to_pybytes()
    return told


@pytest.mark.parametrize("media", [LINES, ARROW])
def test_an_upload_puts_the_same_items_as_json(http: Http, media: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changing_items, "MAX_EVENT_ITEMS", 3)
    http("PUT", "/v1/rankers/other", SHOP)
    assert http("PUT", "/v1/rankers/other/items", {"items": ITEMS}).status_code == 204
    told = http("PUT", "/v1/rankers/shop/items", body_of(media, ITEMS), headers={"Content-Type": media})
    assert told.status_code == 204, told.text
    assert http("GET", "/v1/rankers/shop/items").json() == http("GET", "/v1/rankers/other/items").json()
    store = http.service.rankers.store
    puts = [event for event in map(decode, store.read("shop")) if type(event) is ItemsPut]
    assert [len(event.items) for event in puts] == [3, 3, 1]
    more = [{"id": "n", "fields": {"size": 3}}]
    told = http("PUT", "/v1/rankers/shop/items", body_of(media, more), headers={"Content-Type": media})
    assert (told.status_code, told.json()) == (200, {"unknown_fields": ["size"]})


@pytest.mark.parametrize(
    ("media", "body", "status", "said"),
    [
        (LINES, b'{"id": "a"}\n{"id": 3}\n', 422, "lines[1].id is 3; accepted: "),
        (LINES, b'{"id": "a"}\n{"id": "b", "fields": {"price": 1e308}}', 422, "lines[1].fields.price is 1e+308; acc"),
        (LINES, b'{"id": "a"}\n{"id": ', 400, "line 1 of the body, counted from 0, is not JSON"),
        (LINES, b'{"id": "a"}\n{"id": "a"}', 422, "items[1].id is 'a'; accepted: every id once."),
        (LINES, b'{"id": "a"}\n{"id": "b", "fields": {"price": "x"}}', 422, "items[1].fields.price is 'x'; accepted"),
        (LINES, b'{"id": "a"}\n7', 422, "lines[1] is 7; accepted: a mapping with"),
        (LINES, b'\xff{"id": "a"}', 400, "line 0 of the body"),
        (ARROW, b"no stream", 400, "the body is not an Arrow stream: "),
        (ARROW, body_of(ARROW, [{"id": "a"}, {"id": ""}]), 422, "rows[1].id is ''; accepted: "),
        (ARROW, body_of(ARROW, [{"id": "a", "colour": 1}]), 422, "rows[0].colour is 1; accepted: only the fields"),
        ("text/csv", b"id\na\n", 415, "accepted: a body with the header"),
    ],
)
def test_a_bad_line_or_row_is_named_and_nothing_is_put(
    http: Http, media: str, body: bytes, status: int, said: str
) -> None:
    told = http("PUT", "/v1/rankers/shop/items", body, headers={"Content-Type": media, "X-Rankloop-Request": "1"})
    assert told.status_code == status, told.text
    assert said in told.json()["detail"]
    assert http("GET", "/v1/rankers/shop/items").json()["total"] == 0


def test_the_client_uploads_lines(http: Http) -> None:
    call = Calls.upload_items("shop", ITEMS)
    assert call.content is not None
    told = http(call.method, call.path, call.content, headers={"Content-Type": call.media})
    assert call.read(told.content) is None
    assert http("GET", "/v1/rankers/shop/items").json()["total"] == len(ITEMS)


# Candidates that are new


def test_new_candidates_are_added_before_the_list_is_decided() -> None:
    made = ranker(commit="all")
    brought: list[dict[str, Any]] = [{"id": "new", "fields": {"price": 3, "category": "c9"}}, {"id": "i0"}]
    assert made.rank(items=brought).ignored == ("new",)
    answer = made.rank(items=brought, open=True)
    assert (set(answer.ids), answer.ignored) == ({"new", "i0"}, ())
    assert made.item("new").fields == brought[0]["fields"]
    position = made.position
    assert made.rank(items=brought, open=True).ignored == ()
    events = [decode(entry) for entry in made.store.read(made.name)]
    assert [type(event) for event in events[-4:]] == [DecisionMade, ItemsPut, DecisionMade, DecisionMade]
    assert made.position == position + 1
    assert decide_again(made.store, made.name).equal == 3


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"open": True}, "open is True; accepted: false, since the request brings no items"),
        ({"open": True, "items": [{"id": "n", "fields": {"price": "x"}}]}, r"items\[0\]\.fields\.price is 'x'"),
        ({"open": True, "items": [{"id": "i0"}, {"id": "n\n"}]}, r"items\[1\]\.id is 'n\\n'"),
        ({"open": True, "items": [{"id": "n"}, {"id": "m"}]}, r"items is 9 items in all; accepted: at most 8"),
    ],
)
def test_new_candidates_that_cannot_be_items_are_refused_with_nothing_changed(asked: Any, said: str) -> None:
    made = Ranker(RankerConfig.of(SHOP), limits=ServiceLimits(items=8))
    made.put_items(ITEMS)
    position = made.position
    with pytest.raises(InvalidInput, match=said):
        made.rank(**asked)
    assert made.position == position


def test_adding_candidates_over_http_needs_the_role_admin(tmp_path: Path) -> None:
    body = {"items": [{"id": "new"}], "open": True}
    keys = {role: make_key(role, [role]) for role in ("rank", "admin")}
    entries = tuple(ApiKey.of(entry) for _, entry in keys.values())
    http = Http(ServiceSettings(log=str(tmp_path / "log.db"), keys=entries))
    rank, admin = ({"Authorization": f"Bearer {keys[role][0]}"} for role in ("rank", "admin"))
    http("PUT", "/v1/rankers/shop", SHOP, headers=admin)
    for path, asked in (("rank", body), ("rank/batch", {"requests": [body]})):
        assert http("POST", f"/v1/rankers/shop/{path}", asked, headers=rank).status_code == 403
        assert http("POST", f"/v1/rankers/shop/{path}", asked, headers=admin).status_code == 200
    assert http("GET", "/v1/rankers/shop/items", headers=admin).json()["total"] == 1
    http.close()
