"""Pages of other sites change nothing, whichever route a browser asks for them, with and without API keys."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tools.serving import serving

from rankloop.client import Client
from rankloop.errors import InvalidInput
from rankloop.schema.service_settings import ServiceSettings
from rankloop.service.access.auth import make_key
from rankloop.service.cross_site import CHANGING_METHODS, MARK
from test_service import COUNTS, Http

KEY, KEPT = make_key("all", ["admin"])
OWN = {"Host": "localhost:8080", "Content-Type": "application/json"}
SHOP = "https://shop.example"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
REFUSED: dict[str, dict[str, str]] = {
    "a form": FORM | {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"},
    "a form of an old browser": FORM | {"Origin": "https://evil.example"},
    "a form without its origin": FORM,
    "a form without fields": {"Content-Type": ""},
    "a form of plain text": {"Content-Type": "text/plain"},
    "a sandboxed page": {"Origin": "null"},
    "a script": {"Origin": "https://evil.example"},
    "a marked script": {"Origin": "https://evil.example", MARK: "1"},
    "another port": {"Origin": "http://localhost:3000", "Sec-Fetch-Site": "same-site"},
    "another scheme": {"Origin": "file://localhost:8080"},
    "an extension": {"Origin": "moz-extension://localhost:8080"},
    "another site without its origin": {"Sec-Fetch-Site": "cross-site"},
    "a page below the same domain": {"Sec-Fetch-Site": "same-site"},
    "a prefix of the own name": {"Origin": "http://localhost:80"},
    "an allowed name as a suffix": {"Origin": "https://evil-shop.example"},
}
ACCEPTED: dict[str, dict[str, str]] = {
    "a program": {},
    "a program without a media type": {"Content-Type": "", MARK: "1"},
    "the own page": {"Origin": "http://localhost:8080", "Sec-Fetch-Site": "same-origin"},
    "the own page behind a proxy with TLS": {"Origin": "https://localhost:8080", "Sec-Fetch-Site": "same-origin"},
    "the user": {"Sec-Fetch-Site": "none"},
    "an allowed origin": {"Origin": SHOP, "Sec-Fetch-Site": "cross-site"},
}


@pytest.fixture(scope="module", params=["without keys", "with keys"])
def http(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Http]:
    """A service with a ranker `r` that has an item."""
    log = str(tmp_path_factory.mktemp("cross-site") / "log.db")
    keys = [KEPT] if request.param == "with keys" else []
    http = Http(ServiceSettings.of({"log": log, "keys": keys, "cors_origins": [SHOP]}))
    try:
        rankers = http.service.rankers
        rankers.put("r", COUNTS)
        rankers.put_items("r", [{"id": "a"}])
        yield http
    finally:
        http.close()


def operations(http: Http) -> list[tuple[str, str, dict[str, Any]]]:
    """Every method and path of the OpenAPI document for the ranker and its item, with its description."""
    found = []
    for path, described in http.app.openapi()["paths"].items():
        filled = path.replace("{name}", "r").replace("{id}", "a")
        found += [(method.upper(), filled, operation) for method, operation in described.items()]
    assert not [path for _, path, _ in found if "{" in path]
    return found


def send(http: Http, method: str, path: str, headers: dict[str, str]) -> Any:
    """A request with exactly these headers, and a key; an empty value leaves the header out."""
    all_headers = OWN | {"Authorization": f"Bearer {KEY}"} | headers
    sent = {name: value for name, value in all_headers.items() if value}
    return http._runner.run(http._client.request(method, path, content=b"{}", headers=sent))


def log_of(http: Http) -> list[Any]:
    """Everything that the log holds."""
    http.service.rankers.writer.flush()
    store = http.service.rankers.store
    return [(name, entry.position) for name in store.rankers() for entry in store.read(name)]


def test_no_route_that_changes_something_takes_a_request_of_another_site(http: Http) -> None:
    before, asked = log_of(http), 0
    for method, path, operation in operations(http):
        if method not in CHANGING_METHODS:
            continue
        for name, headers in REFUSED.items():
            answer = send(http, method, path, headers)
            assert answer.status_code in (403, 415), (method, path, name)
            assert str(answer.status_code) in operation["responses"], (method, path)
            asked += 1
    assert asked >= 10 * len(REFUSED)
    assert log_of(http) == before


def test_the_same_requests_are_taken_from_the_own_page_and_from_programs(http: Http) -> None:
    """They are refused for what they ask, if at all: the body is empty."""
    for name, headers in ACCEPTED.items():
        for method, path in (("POST", "/v1/rankers/r/guardrail/reset"), ("DELETE", "/v1/rankers/none/challenger")):
            assert send(http, method, path, headers).status_code in (200, 404), (method, path, name)
        if headers.get("Content-Type") != "":
            assert send(http, "POST", "/v1/rankers/r/rank", headers).status_code == 200, name


def test_no_route_changes_something_when_it_is_read(http: Http) -> None:
    before = log_of(http)
    for method, path, _ in operations(http):
        if method not in CHANGING_METHODS:
            for headers in (ACCEPTED | REFUSED).values():
                assert send(http, method, path, headers).status_code in (200, 404), (method, path)
    assert log_of(http) == before


@pytest.mark.parametrize(
    ("hosts", "version", "status"),
    [
        (["localhost"], "1.1", 200),
        ([], "1.1", 400),
        (["localhost", "localhost"], "1.1", 400),
        (["localhost", "evil.example"], "1.1", 400),
        ([], "1.0", 200),
        (["localhost", "evil.example"], "1.0", 400),
    ],
)
def test_a_request_has_one_host(http: Http, hosts: list[str], version: str, status: int) -> None:
    """Also one for a list; requests of HTTP/1.0 may have none."""
    for method, path in (("GET", "/healthz"), ("GET", "/dashboard/"), ("POST", "/v1/rankers/r/rank")):
        headers = [("host", host) for host in hosts]
        headers += [("content-type", "application/json"), ("authorization", f"Bearer {KEY}")]
        answered: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"{}"}

        async def send(message: Any, answered: list[Any] = answered) -> None:
            answered.append(message)

        scope = {"type": "http", "method": method, "path": path, "query_string": b"", "http_version": version}
        scope |= {"headers": [(name.encode(), value.encode()) for name, value in headers], "root_path": ""}
        http._runner.run(http.app(scope, receive, send))
        assert answered[0]["status"] == status, (method, path)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("hosts", "shop.example:8080"),
        ("hosts", "::1"),
        ("hosts", "https://shop.example"),
        ("cors_origins", "https://shop.example/"),
    ],
)
def test_a_setting_that_no_request_could_match_is_refused(field: str, value: str) -> None:
    with pytest.raises(InvalidInput, match=rf"{field}\[0\]"):
        ServiceSettings.of({field: [value]})


def test_the_settings_name_the_hosts(tmp_path: Path) -> None:
    settings = {"log": str(tmp_path / "log.db"), "keys": [KEPT], "hosts": ["Shop.example", "[::1]"]}
    http = Http(ServiceSettings.of(settings))
    try:
        http.service.rankers.put("r", COUNTS)
        for host in ("shop.example", "SHOP.EXAMPLE:443", "[::1]:8080", "[::1]"):
            assert send(http, "GET", "/v1/rankers", {"Host": host}).status_code == 200, host
            assert send(http, "POST", "/v1/rankers/r/rank", {"Host": host}).status_code == 200, host
        for host in ("evil.example", "shop.example.evil", "localhost", "[::2]"):
            for method, path in (("GET", "/v1/rankers"), ("GET", "/dashboard/"), ("POST", "/v1/rankers/r/rank")):
                assert send(http, method, path, {"Host": host}).status_code == 403, (host, path)
            assert send(http, "GET", "/healthz", {"Host": host}).status_code == 200, "a probe"
    finally:
        http.close()


def test_any_origin_is_allowed_where_the_settings_say_so_except_none(tmp_path: Path) -> None:
    http = Http(ServiceSettings.of({"log": str(tmp_path / "log.db"), "cors_origins": ["*"]}))
    try:
        http.service.rankers.put("r", COUNTS)
        reset = "/v1/rankers/r/guardrail/reset"
        assert send(http, "POST", reset, {"Origin": "https://any.example"}).status_code == 200
        assert send(http, "POST", reset, {"Origin": "null"}).status_code == 403
        assert send(http, "POST", reset, FORM | {"Origin": "https://any.example"}).status_code == 415
        asked = {"Origin": "https://any.example", "Access-Control-Request-Method": "POST"}
        preflight = send(http, "OPTIONS", reset, asked | {"Access-Control-Request-Headers": MARK.lower()})
        assert preflight.status_code == 200
        assert MARK.lower() in preflight.headers["access-control-allow-headers"].lower()
    finally:
        http.close()


def test_the_client_sends_what_requests_without_a_body_need(tmp_path: Path) -> None:
    with serving(ServiceSettings(log=str(tmp_path / "log.db"), rankers={"r": COUNTS})) as url, Client(url) as client:
        client.put_items("r", [{"id": "a"}])
        client.reset_guardrail("r")
        client.remove_item("r", "a")
        client.delete_ranker("r")
        assert client.rankers() == []


def test_the_dashboard_only_reads() -> None:
    """It sends requests by one function, and that one has no method."""
    folder = Path(__file__).parent.parent / "src" / "rankloop" / "service" / "dashboard"
    scripts = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.js")}
    assert [name for name, text in scripts.items() if re.search(r"\bfetch\(|XMLHttpRequest|sendBeacon", text)] == [
        "api.js"
    ]
    assert not re.search(r"\bmethod\b", scripts["api.js"])
