"""Limits of connections: clients that are idle, slow or many keep nobody else away, and do not stay for ever."""

from __future__ import annotations

import asyncio
import json
import re
import resource
import select
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from tools.serving import serving

from rankloop.schema.connection_settings import ConnectionSettings
from rankloop.schema.service_settings import ServiceSettings
from rankloop.service.transport import connections
from rankloop.service.transport.connections import GRACE_SECONDS, Connections, OpenConnection, Phase, network
from rankloop.service.transport.descriptors import connection_limit
from rankloop.service.transport.watched_http import MAX_HEAD_BYTES
from served import Served, serve, until  # noqa: F401 (a fixture)

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
RANK = b"POST /v1/rankers/counts/rank HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
LONG = 1e6
"""A time-out that does not pass during a test."""


# The rules, with a clock that is set


class FakeClient:
    """A client of which only what is done to it matters."""

    def __init__(self) -> None:
        self.done: list[object] = []
        self.held = False

    def settle(self) -> None: ...

    def is_held(self) -> bool:
        return self.held

    def close(self, phase: Phase) -> None:
        self.done.append(phase)

    def abort(self) -> None:
        self.done.append("aborted")


class Rules:
    """Connections with a clock that is set and reasons that are recorded."""

    def __init__(self, total: int = 1000, **settings: Any) -> None:
        self.now, self.reasons = 0.0, list[str]()
        self.connections = Connections(
            ConnectionSettings(**settings), total, self.reasons.append, clock=lambda: self.now
        )

    def connect(self, address: str = "192.0.2.1") -> OpenConnection | None:
        self.now += 1e-3
        one = OpenConnection(FakeClient(), address)
        return one if self.connections.admit(one) else None

    def accepted(self, address: str = "192.0.2.1") -> OpenConnection:
        one = self.connect(address)
        assert one is not None
        return one

    def sweep(self, seconds: float) -> None:
        """Let so many seconds pass."""
        self.now += seconds
        self.connections.sweep()


def done(one: OpenConnection) -> list[object]:
    assert isinstance(one.client, FakeClient)
    return one.client.done


def test_the_connection_that_waits_longest_makes_room_and_working_ones_never_do() -> None:
    rules = Rules(total=3)
    first, second, third = (rules.accepted(f"192.0.2.{n}") for n in range(3))
    rules.connections.enter(first, Phase.WORK)
    rules.connections.enter(first, Phase.IDLE)  # from now on it waits, later than the others
    rules.connections.enter(third, Phase.WORK)
    fourth = rules.accepted("192.0.2.9")
    assert (done(first), done(second), done(third)) == ([], ["aborted"], [])
    rules.connections.enter(fourth, Phase.WORK)
    fifth = rules.accepted("192.0.2.9")
    assert (done(first), len(rules.connections)) == (["aborted"], 3)
    rules.connections.enter(fifth, Phase.WORK)
    assert rules.connect() is None
    assert rules.reasons == ["evicted", "evicted", "refused"]
    rules.connections.forget(third)
    assert rules.connect() is not None


def test_an_address_has_room_for_so_many_and_takes_none_of_the_others() -> None:
    rules = Rules(total=10, per_address=2)
    other = rules.accepted("192.0.2.2")
    ours = [rules.accepted() for _ in range(3)]
    assert (done(other), [done(one) for one in ours]) == ([], [["aborted"], [], []])
    for one in ours[1:]:
        rules.connections.enter(one, Phase.WORK)
    assert rules.connect() is None
    assert rules.connect("192.0.2.3") is not None
    for one in ours:
        rules.connections.forget(one)
        rules.connections.forget(one)  # a connection that was evicted is lost later
    rules.accepted()
    rules.accepted()
    assert len(rules.connections) == 4


@pytest.mark.parametrize(
    ("phases", "size", "allowed"),
    [
        ([], 0, 10.0),
        ([Phase.HEAD], 0, 10.0),
        ([Phase.WORK, Phase.IDLE], 0, 75.0),
        ([Phase.WORK, Phase.IDLE, Phase.HEAD], 0, 10.0),
        ([Phase.BODY], 0, GRACE_SECONDS),
        ([Phase.BODY], 2_000, GRACE_SECONDS + 20.0),
        ([Phase.BODY], 10**9, 60.0),
        ([Phase.WORK, Phase.ANSWER], 3_000, GRACE_SECONDS + 30.0),
        ([Phase.WORK, Phase.ANSWER], 10**9, 50.0),
    ],
)
def test_each_phase_has_its_time(phases: list[Phase], size: int, allowed: float) -> None:
    rules = Rules(head_seconds=10, idle_seconds=75, body_seconds=60, answer_seconds=50, min_rate=100)
    one = rules.accepted()
    for phase in phases:
        rules.connections.enter(one, phase, size)
    one.size = size
    rules.sweep(0.999 * allowed)
    assert done(one) == []
    rules.sweep(0.002 * allowed)
    assert done(one) == ["aborted" if one.phase is Phase.ANSWER else one.phase]


def test_no_time_passes_while_the_service_works_or_does_not_read() -> None:
    rules = Rules()
    working, held = rules.accepted(), rules.accepted()
    rules.connections.enter(working, Phase.WORK)
    rules.connections.enter(held, Phase.BODY)
    assert isinstance(held.client, FakeClient)
    held.client.held = True
    for _ in range(5):
        rules.sweep(1000.0)
    assert (done(working), done(held)) == ([], [])
    held.client.held = False
    rules.sweep(GRACE_SECONDS + 1.0)
    assert done(held) == [Phase.BODY]


def test_the_time_in_which_the_service_was_held_up_is_not_the_clients() -> None:
    rules = Rules()
    one = rules.accepted()
    rules.connections.enter(one, Phase.BODY)
    rules.now += 60.0
    rules.connections.excuse(60.0)
    rules.connections.sweep()
    assert done(one) == []
    rules.sweep(GRACE_SECONDS + 1.0)
    assert done(one) == [Phase.BODY]


@pytest.mark.parametrize("held_up", [0.0, GRACE_SECONDS + 1.0])
def test_a_sweep_after_a_held_up_loop_blames_no_client(held_up: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A body that arrived while the loop stood still was not slow; one that does not arrive while it runs is."""
    monkeypatch.setattr(connections, "SWEEP_SECONDS", 0.05)
    monkeypatch.setattr(connections, "EXCUSED_SECONDS", 3.0)  # a busy machine may hold up the loop for a moment
    rules = Connections(ConnectionSettings(), 10, lambda reason: None)
    one = OpenConnection(FakeClient(), "192.0.2.1")
    assert rules.admit(one)

    async def scenario() -> None:
        async with rules.swept():
            await asyncio.sleep(0.01)
            rules.enter(one, Phase.BODY)
            if held_up:
                time.sleep(held_up)  # the fault: the loop does nothing meanwhile
            else:
                one.since -= GRACE_SECONDS + 1.0  # it has waited as long while the loop ran
            await asyncio.sleep(0.2)

    asyncio.run(scenario())
    assert (Phase.BODY in done(one)) is (held_up == 0.0)


def test_the_time_of_the_first_headers_begins_with_the_connection() -> None:
    rules = Rules(head_seconds=10)
    one = rules.accepted()
    rules.sweep(8.0)
    rules.connections.enter(one, Phase.HEAD)
    rules.sweep(3.0)
    assert done(one) == [Phase.HEAD]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("192.0.2.1", "192.0.2.2", False),
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("/run/socket:1", "/run/socket:2", False),
    ],
)
def test_a_network_of_ipv6_counts_as_one_address(one: str, other: str, same: bool) -> None:
    assert (network(one) == network(other)) is same


@pytest.mark.parametrize("descriptors", [None, 20, 256, 1024, 65_536])
def test_descriptors_are_kept_free(descriptors: int | None) -> None:
    settings = ConnectionSettings()
    limit = connection_limit(settings, descriptors)
    assert 1 <= limit <= settings.total
    if descriptors is not None and descriptors >= 2 * settings.reserve:
        assert limit == min(settings.total, descriptors - settings.reserve)


# Real sockets


def configured(served: Served, **connections: Any) -> Served:
    """A service with these settings of connections, started."""
    path = served.folder / "settings.yaml"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"connections": connections}))
    served.start()
    return served


class Sockets:
    """Connections to a service."""

    def __init__(self, url: str) -> None:
        self._address = ("127.0.0.1", httpx.URL(url).port)
        self.all: list[socket.socket] = []

    def open(self, data: bytes = b"") -> socket.socket:
        line = socket.socket()
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)  # the less it holds, the sooner a client is slow
        line.settimeout(60.0)
        line.connect(self._address)
        self.all.append(line)
        with suppress(ConnectionError):  # it may be closed already
            line.sendall(data)
        return line

    def close(self) -> None:
        for line in self.all:
            line.close()


@contextmanager
def sockets(url: str) -> Iterator[Sockets]:
    opened = Sockets(url)
    try:
        yield opened
    finally:
        opened.close()


def received(line: socket.socket) -> bytes:
    """Everything until the service closes the connection."""
    data = b""
    try:
        while more := line.recv(65_536):
            data += more
    except ConnectionError:
        pass
    return data


def gauge(text: str, name: str) -> float:
    """The value of a metric without labels."""
    return float(re.findall(rf"(?m)^{name} (\S+)$", text)[0])


def closed(text: str) -> dict[str, float]:
    """The closed connections by reason."""
    found = re.findall(r'rankloop_connections_closed_total\{reason="(\w+)"\} (\S+)', text)
    return {reason: float(number) for reason, number in found}


def test_idle_clients_and_half_sent_headers_keep_nobody_away_when_descriptors_are_few(
    serve: Callable[..., Served],  # noqa: F811
) -> None:
    """300 sockets on a process with 256 descriptors; the health check and a request are answered, the log is used."""
    served = serve()
    served.descriptors = 256
    configured(served, head_seconds=LONG)
    for data in (b"", b"GET /healthz HTTP/1.1\r\nHost: local", RANK + b"Content-Length: 900000\r\n\r\n{"):
        with sockets(served.url) as opened:
            for _ in range(300):
                opened.open(data)
            assert served.status("/healthz") == served.status("/readyz") == 200
            put = httpx.put(f"{served.url}/v1/rankers/counts/items/a", json={}, timeout=60.0)
            assert put.status_code == 200
            text = httpx.get(f"{served.url}/metrics", timeout=60.0).text
            limit = gauge(text, "rankloop_connection_limit")
            assert limit == 256 - ConnectionSettings().reserve
            assert gauge(text, "rankloop_connections") <= limit
            assert closed(text)["evicted"] >= 300 - limit
            for line in opened.all[: 300 - int(limit)]:
                received(line)  # until its end: the oldest were closed
    assert "Traceback" not in served.output


def test_running_out_of_descriptors_stops_nothing_that_is_open(serve: Callable[..., Served]) -> None:  # noqa: F811
    served = configured(serve())
    soft, hard = resource.prlimit(served.pid, resource.RLIMIT_NOFILE)
    with httpx.Client(base_url=served.url, timeout=60.0) as client, sockets(served.url) as opened:
        assert client.get("/healthz").status_code == 200  # this connection stays open
        in_use = len(list(Path(f"/proc/{served.pid}/fd").iterdir()))
        resource.prlimit(served.pid, resource.RLIMIT_NOFILE, (in_use, hard))
        for _ in range(20):
            opened.open(HEALTH)
        assert client.get("/healthz").status_code == 200
        resource.prlimit(served.pid, resource.RLIMIT_NOFILE, (soft, hard))
        assert served.status("/healthz") == 200


@dataclass(frozen=True)
class Clocked:
    """A service whose connections follow a clock that is set, so that no time-out depends on the machine's speed."""

    url: str
    rules: Rules

    def wait_for(self, phase: Phase) -> None:
        """Wait until there is one connection, and it is in this phase."""
        until(lambda: [one.phase for one in list(self.rules.connections._open)] == [phase], f"{phase}")

    def wait_for_none(self) -> None:
        """Wait until the connections of the test before are lost."""
        until(lambda: len(self.rules.connections) == 0, "there is no connection")

    def closes(self, line: socket.socket, reason: str) -> bytes:
        """Let every time-out pass; return what the client receives until the service closes the connection."""
        self.rules.reasons.clear()
        self.rules.now += 1000.0
        data = received(line)
        assert self.rules.reasons == [reason]
        return data


@pytest.fixture(scope="module")
def clocked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clocked]:
    rules = Rules()
    log = str(tmp_path_factory.mktemp("clocked") / "log.db")
    items = {"items": [{"id": f"{n}-{'x' * 150}"} for n in range(4000)]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rankloop.service.transport.connections.SWEEP_SECONDS", 0.02)
        patch.setattr("rankloop.service.app._connections", lambda service: rules.connections)
        with serving(ServiceSettings(log=log, rankers={"counts": {"policy": "cascade-ucb1", "slots": 3}})) as url:
            assert httpx.put(f"{url}/v1/rankers/counts/items", json=items, timeout=60.0).status_code == 204
            yield Clocked(url, rules)


@pytest.mark.parametrize(
    ("data", "phase", "answer", "reason"),
    [
        (b"", Phase.NEW, b"", "idle"),
        (b"\r\n", Phase.NEW, b"", "idle"),
        (HEALTH, Phase.IDLE, b"HTTP/1.1 200", "idle"),
        (HEALTH * 3, Phase.IDLE, b"HTTP/1.1 200", "idle"),
        (HEALTH[:-2], Phase.HEAD, b"HTTP/1.1 408", "head"),
        (HEALTH + HEALTH[:9], Phase.HEAD, b"HTTP/1.1 200", "head"),
        (RANK + b"Content-Length: 9\r\n\r\n{", Phase.BODY, b"HTTP/1.1 408", "body"),
        (RANK + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", Phase.BODY, b"HTTP/1.1 408", "body"),
        (RANK + b"Content-Length: 9000000\r\n\r\n{", Phase.BODY, b"HTTP/1.1 413", "body"),
        (RANK + b"Expect: 100-continue\r\nContent-Length: 9\r\n\r\n", Phase.BODY, b"HTTP/1.1 100", "body"),
    ],
)
def test_a_client_that_sends_nothing_more_is_disconnected(
    clocked: Clocked, data: bytes, phase: Phase, answer: bytes, reason: str
) -> None:
    with sockets(clocked.url) as opened:
        line = opened.open(data)
        if answer[-3:] in (b"200", b"413", b"100"):  # an answer begins at once
            first = line.recv(len(answer))
            clocked.wait_for(phase)
            assert (first + clocked.closes(line, reason)).startswith(answer)
        else:
            clocked.wait_for(phase)
            assert clocked.closes(line, reason).startswith(answer)


@pytest.mark.parametrize(
    ("start", "reason"),
    [(HEALTH[:-2] + b"X: ", "head"), (RANK + b"Content-Length: 900000\r\n\r\n", "body")],
)
def test_a_client_that_trickles_is_disconnected(clocked: Clocked, start: bytes, reason: str) -> None:
    """Each byte comes in time; the whole does not."""
    clocked.wait_for_none()
    clocked.rules.reasons.clear()
    with sockets(clocked.url) as opened:
        line = opened.open(start)

        def trickled() -> bool:
            clocked.rules.now += 1.0
            try:
                line.sendall(b" ")
            except ConnectionError:
                return True
            return bool(select.select([line], [], [], 0.02)[0])  # an answer, or the end

        until(trickled, "the service closes the connection")
    assert clocked.rules.reasons == [reason]


@pytest.mark.parametrize("leaves", [b"", b"Connection: close\r\n", None])
def test_a_client_that_does_not_read_is_disconnected(clocked: Clocked, leaves: bytes | None) -> None:
    """It asks for more than the buffers hold and reads nothing; one of them has closed its own side."""
    ask = b"GET /v1/rankers/counts/items?limit=4000 HTTP/1.1\r\nHost: localhost\r\n"
    with sockets(clocked.url) as opened:
        line = opened.open((ask + b"\r\n") * 19 + ask + (leaves or b"") + b"\r\n")
        clocked.wait_for(Phase.ANSWER)
        if leaves is None:
            line.shutdown(socket.SHUT_WR)
        clocked.rules.reasons.clear()

        def lost() -> bool:
            clocked.rules.now += 100.0  # again and again: the system's buffers may not have been full yet
            return len(clocked.rules.connections) == 0

        until(lost, "the service closes the connection")
        assert clocked.rules.reasons == ["answer"]


def test_endless_headers_are_refused(clocked: Clocked) -> None:
    with sockets(clocked.url) as opened:
        line = opened.open(HEALTH[:-2])
        with suppress(ConnectionError):
            for _ in range(100 * MAX_HEAD_BYTES // 1000):
                line.sendall(b"X-Long: " + b"x" * 990 + b"\r\n")
            pytest.fail("everything was taken")


def test_a_request_for_a_web_socket_gets_a_plain_answer(clocked: Clocked) -> None:
    with sockets(clocked.url) as opened:
        upgrade = HEALTH[:-2] + b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n"
        line = opened.open(upgrade)
        assert line.recv(12) == b"HTTP/1.1 200"
        clocked.wait_for(Phase.IDLE)
        clocked.closes(line, "idle")


def test_the_answer_beyond_the_limit_says_so(tmp_path: Path) -> None:
    """All connections are answering, so that none of them makes room."""
    settings = ServiceSettings.of({"log": str(tmp_path / "log.db"), "connections": {"total": 1}})
    busy = Rules(total=1)
    busy.connections.enter(busy.accepted(), Phase.WORK)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rankloop.service.app._connections", lambda service: busy.connections)
        with serving(settings) as url, sockets(url) as opened:
            answer = received(opened.open())
    assert answer.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["detail"] == "too many connections are open."
