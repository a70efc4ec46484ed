"""What HTTP asks of a server: HEAD as GET, a complete Allow header, and no harm done by clients that leave."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from served import Served, serve, until  # noqa: F401 (a fixture)
from test_service import Http, Start, http, start  # noqa: F401 (fixtures)

PAGES = ("/", "/dashboard", "/dashboard/", "/dashboard/app.js", "/openapi.json")


def paths(http: Http) -> dict[str, set[str]]:  # noqa: F811
    """Every address of the OpenAPI document, for a ranker and its item, with its methods."""
    named = {"name": "r", "id": "item-0"}
    described = http.app.openapi()["paths"].items()
    return {path.format(**named): {method.upper() for method in operations} for path, operations in described} | {
        page: {"GET"} for page in PAGES
    }


def test_head_is_answered_as_get_without_a_body(http: Http) -> None:  # noqa: F811
    http("POST", "/v1/rankers/r/rank", {})
    for path, methods in paths(http).items():
        head = http("HEAD", path)
        if "GET" not in methods:
            assert head.status_code == 405, path
            continue
        get = http("GET", path)
        assert (head.status_code, head.content) == (get.status_code, b""), path
        assert head.headers["content-type" if get.content else "location"], path
        lengths = {name: answer.headers.get("content-length") for name, answer in (("get", get), ("head", head))}
        assert lengths["get"] == lengths["head"] or path == "/metrics", path  # which counts these requests
    missing = http("HEAD", "/v1/rankers/none")
    assert (missing.status_code, missing.content) == (404, b"")


def test_an_address_names_all_its_methods(http: Http) -> None:  # noqa: F811
    for path, methods in paths(http).items():
        allowed = methods | ({"HEAD"} if "GET" in methods else set()) | {"OPTIONS"}
        for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "TRACE", "CONNECT"} - methods:
            refused = http(method, path)
            assert refused.status_code == 405, (method, path)
            assert set(refused.headers["allow"].split(", ")) == allowed, (method, path)
        options = http("OPTIONS", path)
        assert (options.status_code, options.content) == (204, b""), path
        assert set(options.headers["allow"].split(", ")) == allowed, path
    assert http("OPTIONS", "/nowhere").status_code == 404


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/rankers/r/rank", b"{}"),
        ("POST", "/v1/rankers/r/withdraw", b'{"decision": "d"}'),
        ("PUT", "/v1/rankers/new", b'{"policy": "cascade-ucb1", "slots": 2}'),
        ("PUT", "/v1/rankers/c/items/new", b"{}"),
    ],
)
def test_a_body_that_ends_with_its_connection_is_not_executed(
    http: Http,  # noqa: F811
    caplog: pytest.LogCaptureFixture,
    method: str,
    path: str,
    body: bytes,
) -> None:
    """What has arrived looks like a whole body, and is not."""
    http.service.rankers.writer.flush()
    before = http("GET", "/v1/rankers").json()
    messages = [{"type": "http.request", "body": body, "more_body": True}, {"type": "http.disconnect"}]
    sent: list[Any] = []

    async def receive() -> Any:
        return messages.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": method, "path": path, "query_string": b"", "http_version": "1.1"}
    with caplog.at_level(logging.INFO):
        http._runner.run(http.app(scope | {"headers": headers, "root_path": ""}, receive, send))
    assert (sent, messages) == ([], [])
    logged = [one for one in caplog.records if one.name.startswith("rankloop")]
    assert all(one.name == "rankloop.audit" and '"status":499' in one.getMessage() for one in logged)
    http.service.rankers.writer.flush()
    assert http("GET", "/v1/rankers").json() == before
    assert 'status="499"} 1.0' in http("GET", "/metrics").text


def test_clients_that_leave_cause_no_traceback(serve: Callable[..., Served]) -> None:  # noqa: F811
    """In the middle of the headers, of the body, and before the answer: by FIN and by RST."""
    served = serve()
    served.start()
    port = httpx.URL(served.url).port
    json = "Host: localhost\r\nContent-Type: application/json\r\n"
    half = f"{json}Content-Length: 100\r\n\r\n{{}}"
    item = f"PUT /v1/rankers/counts/items/left HTTP/1.1\r\n{json}Content-Length: 2\r\n\r\n{{}}"
    requests = [
        "GET /healthz HTTP/1.1\r\nHost:",
        f"POST /v1/rankers/counts/rank HTTP/1.1\r\n{half}",
        f"PUT /v1/rankers/counts/items/gone HTTP/1.1\r\n{half}",
        item,
        item * 20,
        f"POST /v1/rankers/counts/rank HTTP/1.1\r\n{json}Content-Length: 2\r\n\r\n{{}}",
        "GET /v1/rankers/counts/diagnosis HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ]
    for request in requests:
        for reset in (False, True):
            with socket.create_connection(("127.0.0.1", port), timeout=60.0) as line:
                if reset:
                    line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                line.sendall(request.encode())

    def items() -> list[str]:
        answer = httpx.get(f"{served.url}/v1/rankers/counts/items", timeout=60.0)
        return [one["id"] for one in answer.json()["items"]]

    until(lambda: items() == ["left"], "the whole request is executed, and the half one is not")
    served.stop()
    for word in ("Traceback", "Exception", "rror"):
        assert word not in served.output, served.output
