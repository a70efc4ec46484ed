"""Every administrative request leaves exactly one audit record, whatever its result is, and none is lost silently."""

from __future__ import annotations

import json
import logging
import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from rankloop.errors import InvalidInput
from rankloop.schema.api_key import ApiKey
from rankloop.service.access import audit
from rankloop.service.access.audit import MAX_PENDING, MAX_REFUSALS_PER_MINUTE, AuditLog, AuditRecord
from rankloop.service.access.auth import make_key
from rankloop.service.problems import RequestRefused
from test_service import COUNTS, Http, Start, problem, start  # noqa: F401

VISITS = {"rank", "rank_batch", "feedback", "bulk_feedback", "withdraw"}
"""Operations of visitors, which change state and are no administration."""
BODIES: dict[str, Any] = {
    "PUT /v1/rankers/{name}": COUNTS,
    "PATCH /v1/rankers/{name}": {"window": 60.0, "reset": True},
    "PUT /v1/rankers/{name}/challenger": {"policy": "random", "slots": 2},
    "PUT /v1/rankers/{name}/items": {"items": [{"id": "a"}]},
    "PUT /v1/rankers/{name}/items/{id}": {"price": 2.0},
    "POST /v1/rankers/{name}/tokens": {"seconds": 5},
}


def operations(app: FastAPI) -> list[tuple[str, str, str]]:
    """Method, path and operation id of every route that changes something."""
    paths: Any = app.openapi()["paths"]
    return [
        (method.upper(), path, operation["operationId"])
        for path, methods in paths.items()
        for method, operation in methods.items()
        if method not in ("get", "head", "options")
    ]


def administration(app: FastAPI) -> list[tuple[str, str]]:
    return [
        (method, path)
        for method, path, id in operations(app)
        if not any(id.startswith(f"{one}_") or id == one for one in VISITS)
    ]


Read = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def audited(start: Start, tmp_path: Path) -> tuple[Http, dict[str, str], Read]:  # noqa: F811
    """A service with a key for each role, and the records since the last call."""
    made = {role: make_key(f"{role}-key", [role]) for role in ("rank", "feedback", "read", "admin")}
    file = tmp_path / "audit.log"
    http = start(keys=[entry for _, entry in made.values()], audit=str(file), rankers={"r": COUNTS})
    seen = [0]

    def read() -> list[dict[str, Any]]:
        lines = file.read_text().splitlines()
        new, seen[0] = lines[seen[0] :], len(lines)
        return [json.loads(line) for line in new]

    return http, {role: key for role, (key, _) in made.items()}, read


def ask(http: Http, key: str | None, method: str, path: str, body: Any = None) -> int:
    path = path.replace("{name}", "r").replace("{id}", "a")
    headers = {"Content-Type": "application/json"} | ({} if key is None else {"Authorization": f"Bearer {key}"})
    return http(method, path, body, headers=headers).status_code


def test_the_list_of_operations_is_complete(audited: tuple[Http, dict[str, str], Read]) -> None:
    http, _, _ = audited
    found = administration(http.app)
    assert len(operations(http.app)) - len(found) == len(VISITS)
    assert {f"{method} {path}" for method, path in found} >= set(BODIES)
    assert len(found) >= 11


def test_every_administrative_route_gives_one_record_whatever_its_result(
    audited: tuple[Http, dict[str, str], Read],
) -> None:
    http, keys, read = audited
    now = http.service.audit._clock()
    for method, path in administration(http.app):
        now += 60.0  # so that every refusal has a record of its own
        http.service.audit._clock = lambda now=now: now
        action = f"{method} {path.replace('{id}', '{id:path}')}"
        body = BODIES.get(f"{method} {path}")
        for key, by, expected in (
            (None, None, {401}),
            ("rl_wrong", None, {401}),
            (keys["rank"], "rank-key", {403}),
            (keys["read"], "read-key", {403}),
            (keys["admin"], "admin-key", {200, 201, 202, 204, 404, 409}),
        ):
            status = ask(http, key, method, path, body)
            assert status in expected, (action, by, status)
            (record,) = read()
            assert (record["by"], record["action"], record["status"]) == (by, action, status)
            assert record["ranker"] == "r"
            assert record.get("item") == ("a" if "{id}" in path else None)
            assert record["address"] == "127.0.0.1"
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", record["time"])
            assert record.get("fields", []) == (sorted(body) if body and status not in (401, 403) else [])
        if method == "DELETE" and path == "/v1/rankers/{name}":
            assert ask(http, keys["admin"], "PUT", "/v1/rankers/r", COUNTS) == 201
            assert len(read()) == 1


def test_invalid_requests_are_recorded_too(audited: tuple[Http, dict[str, str], Read]) -> None:
    http, keys, read = audited
    for method, path, body, status in (
        ("PUT", "/v1/rankers/r", b"{", 400),
        ("PUT", "/v1/rankers/r", b'{"params": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", 400),
        ("PUT", "/v1/rankers/r", b'{"\xff": 1}', 400),
        ("PUT", "/v1/rankers/r", {"policy": "nope", "slots": 2}, 422),
        ("PATCH", "/v1/rankers/none", {"window": 1.0}, 404),
        ("PATCH", "/v1/rankers/r", {"slots": 3}, 409),
        ("PATCH", "/v1/rankers/r?x=1", {"window": 1.0}, 422),
        ("PUT", "/v1/rankers/r/items", {"items": [{"id": "a", "features": [1.0]}]}, 422),
        ("POST", "/v1/rankers/r/promote", None, 404),
    ):
        assert ask(http, keys["admin"], method, path, body) == status
        (record,) = read()
        assert (record["by"], record["status"]) == ("admin-key", status)


def test_reading_and_visits_give_no_record(audited: tuple[Http, dict[str, str], Read]) -> None:
    http, keys, read = audited
    for path in (
        "/v1/rankers",
        "/v1/rankers/r",
        "/v1/rankers/r/items",
        "/v1/rankers/r/history",
        "/healthz",
        "/metrics",
    ):
        assert ask(http, keys["admin"], "GET", path) == 200
        ask(http, None, "GET", path)
    for path in ("rank", "feedback", "feedback/bulk", "withdraw"):
        ask(http, keys["rank"], "POST", f"/v1/rankers/r/{path}", {})
    assert read() == []


def test_records_name_fields_and_contain_no_secret(audited: tuple[Http, dict[str, str], Read], tmp_path: Path) -> None:
    http, keys, _ = audited
    answer = http("POST", "/v1/rankers/r/tokens", {}, headers={"Authorization": f"Bearer {keys['admin']}"}).json()
    ask(http, keys["admin"], "PUT", "/v1/rankers/r/items", {"items": [{"id": "a secret item"}]})
    changed = make_key("new", ["read"])[1]
    http.service.use_keys([*http.service.access.keys, ApiKey.of(changed)])
    text = (tmp_path / "audit.log").read_text()
    for secret in (*keys.values(), answer["token"], "secret", changed["salt"], changed["sha256"]):
        assert str(secret) not in text
    assert stat.S_IMODE((tmp_path / "audit.log").stat().st_mode) == 0o600


def test_changed_keys_give_one_record(audited: tuple[Http, dict[str, str], Read]) -> None:
    http, _, read = audited
    before = http.service.access.keys
    http.service.use_keys(before)
    assert read() == []
    http.service.use_keys([*before[1:], ApiKey.of(make_key("new", ["read"])[1])])
    (record,) = read()
    assert (record["action"], record["fields"]) == ("API keys", ["added new", "revoked rank-key"])


def test_without_keys_the_caller_is_local(start: Start, tmp_path: Path) -> None:  # noqa: F811
    http = start(audit=str(tmp_path / "audit.log"))
    assert ask(http, None, "PUT", "/v1/rankers/r", COUNTS) == 201
    problem(http("PUT", "/v1/rankers/r", COUNTS, headers={"Host": "evil.example"}), 403)
    first, second = (json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines())
    assert (first["by"], first["status"]) == ("local", 201)
    assert (second["by"], second["status"]) == (None, 403)


def test_without_a_file_the_records_go_to_the_logger(start: Start, caplog: pytest.LogCaptureFixture) -> None:  # noqa: F811
    http = start()
    with caplog.at_level(logging.INFO, "rankloop.audit"):
        assert ask(http, None, "PUT", "/v1/rankers/r", COUNTS) == 201
    (record,) = (json.loads(one.getMessage()) for one in caplog.records if one.name == "rankloop.audit")
    assert record["action"] == "PUT /v1/rankers/{name}"


# The log itself


def refused(n: int = 1) -> Iterator[AuditRecord]:
    return (AuditRecord(by=None, action="PUT /", status=401) for _ in range(n))


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_every_refusal_has_a_record_or_is_counted(tmp_path: Path) -> None:
    now, file = [0.0], tmp_path / "audit.log"
    log = AuditLog(str(file), lambda: now[0])
    total = 0
    for minute, n in enumerate((500, 3, 61, 0, 60, 200)):
        now[0] = 60.0 * minute
        for record in refused(n):
            log.record(record)
        total += n
    log.record(AuditRecord(by="a", action="PUT /", status=200))
    found = lines(file)
    assert sum(one["status"] == 401 for one in found) + sum(one.get("omitted", 0) for one in found) == total
    assert sum(one["status"] == 401 for one in found) == sum(
        min(n, MAX_REFUSALS_PER_MINUTE) for n in (500, 3, 61, 0, 60, 200)
    )
    for record in refused(MAX_REFUSALS_PER_MINUTE + 5):
        log.record(record)
    log.close()
    assert lines(file)[-1]["omitted"] > 0


@pytest.mark.parametrize("partial", [False, True])
def test_a_record_that_cannot_be_written_is_kept_and_requests_are_refused_until_it_is_written(
    audited: tuple[Http, dict[str, str], Read], monkeypatch: pytest.MonkeyPatch, partial: bool
) -> None:
    http, keys, read = audited

    def fails(descriptor: int, line: bytes) -> int:
        if partial:
            return original(descriptor, line[:7])
        raise OSError(28, "No space left on device")

    original = os.write
    with monkeypatch.context() as patch:
        patch.setattr(audit, "append", fails)
        assert ask(http, keys["admin"], "PUT", "/v1/rankers/new", COUNTS) == 201  # it was done, so it is said
        assert read() == []
        for _ in range(3):
            answer = http("PUT", "/v1/rankers/third", COUNTS, headers={"Authorization": f"Bearer {keys['admin']}"})
            problem(answer, 503, "nothing was changed")
            assert answer.headers["retry-after"]
        assert ask(http, keys["admin"], "GET", "/v1/rankers/third") == 404
        assert ask(http, keys["rank"], "POST", "/v1/rankers/r/rank", {}) == 200  # visitors are served
        assert read() == []
    assert ask(http, keys["admin"], "DELETE", "/v1/rankers/new") == 204
    assert [(one["action"].split()[0], one["status"]) for one in read()] == [("PUT", 201), ("DELETE", 204)]


def test_the_records_that_wait_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, file = [0.0], tmp_path / "audit.log"
    log = AuditLog(str(file), lambda: now[0])

    def fails(descriptor: int, line: bytes) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(audit, "append", fails)
        for record in refused(3 * MAX_PENDING):
            now[0] += 10.0
            log.record(record)
        with pytest.raises(RequestRefused):
            log.require_writable()
    log.require_writable()
    log.record(AuditRecord(by="a", action="PUT /", status=200))
    found = lines(file)
    assert len(found) == MAX_PENDING + 1
    assert found[-1]["omitted"] == 2 * MAX_PENDING


def test_a_rotated_file_is_created_again(tmp_path: Path) -> None:
    file = tmp_path / "audit.log"
    log = AuditLog(str(file))
    log.record(AuditRecord(by="a", action="first", status=200))
    file.rename(tmp_path / "audit.log.1")
    log.record(AuditRecord(by="a", action="second", status=200))
    assert [one["action"] for one in lines(tmp_path / "audit.log.1")] == ["first"]
    assert [one["action"] for one in lines(file)] == ["second"]


def test_a_file_that_cannot_be_written_is_refused_at_the_start(start: Start, tmp_path: Path) -> None:  # noqa: F811
    for path in (tmp_path, tmp_path / "none" / "audit.log"):
        with pytest.raises(InvalidInput, match=r"audit is .*; accepted: a file that can be written"):
            start(audit=str(path))
    assert not (tmp_path / "log.db").exists()
