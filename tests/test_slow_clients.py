"""Clients that send slowly, read nothing, or send too much at once take nothing from others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from rankloop.service import held_bodies
from rankloop.service.refusals import QUEUE_FULL
from rankloop.service.transport import admitting_http
from rankloop.service.transport.admitting_http import MAX_PIPELINED, REFUSAL_PAUSE_SECONDS
from rankloop.service.transport.connections import Phase
from rankloop.service.transport.watched_http import MAX_HEAD_BYTES
from wired import BODY_LIMIT, Wired, finished, settled, statuses

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"


def post(path: str = "/v1/rankers/a/rank", *headers: str, body: bytes = b"{}", announced: int | None = None) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: a", *headers]
    return "\r\n".join([*lines, f"Content-Length: {announced or len(body)}", "", ""]).encode() + body


RANK, OTHER = post(), post("/v1/rankers/b/rank")
CHUNKED = b"POST /v1/rankers/a/rank HTTP/1.1\r\nHost: a\r\nAuthorization: none\r\nTransfer-Encoding: chunked\r\n\r\n"


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def everything() -> None:
        try:
            await asyncio.wait_for(scenario(), 60.0)
        finally:
            await finished()

    asyncio.run(everything())


# Pipelined requests


def test_however_many_pipelined_requests_are_refused_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admitting_http, "MAX_PIPELINED", 10_000)

    async def scenario() -> None:
        wired = Wired(running=1, ranker_queue=2)
        wired.go_on.clear()
        (many, wire), *others = (wired.connect() for _ in range(3))
        many.data_received(RANK)
        for other, _ in others:
            other.data_received(OTHER)
        many.data_received(OTHER * 2000)
        await settled()
        assert (wired.admission.waiting, wire.sent) == (2, b"")
        wired.go_on.set()
        await settled()
        assert statuses(wire) == [200] + [503] * 2000
        assert [statuses(one) for _, one in others] == [[200], [200]]
        assert (wired.admission.running, wired.admission.waiting) == (0, 0)

    run(scenario)


def test_a_connection_with_too_many_pipelined_requests_closes_after_the_first_answers() -> None:
    async def scenario() -> None:
        for request in (HEALTH, RANK):
            wired = Wired()
            one, wire = wired.connect()
            one.data_received(request * 500)
            one.data_received(request)
            assert len(one.pipeline) == MAX_PIPELINED
            await settled()
            assert statuses(wire) == [200] * (1 + MAX_PIPELINED)
            assert wire.sent.count(b"connection: close") == 1
            assert wire.closing
            fine, wire = wired.connect()
            for _ in range(3):
                fine.data_received(request * (1 + MAX_PIPELINED))
                await settled()
            assert (statuses(wire), wire.closing) == ([200] * 3 * (1 + MAX_PIPELINED), False)

    run(scenario)


# Clients that do not read


@pytest.mark.parametrize("request_", [RANK, HEALTH, post("/v1/rankers/a/items")])
def test_nothing_starts_for_a_client_that_does_not_receive_its_answers(request_: bytes) -> None:
    async def scenario() -> None:
        wired = Wired(running=1)
        slow, wire = wired.connect()
        slow.data_received(HEALTH)
        await settled()
        slow.pause_writing()
        slow.data_received(request_)
        await settled()
        assert (len(wired.scopes), wired.admission.running, slow._one.phase) == (1, 0, Phase.ANSWER)
        honest, answer = wired.connect()
        honest.data_received(RANK)
        await settled()
        assert statuses(answer) == [200]
        slow.resume_writing()
        await settled()
        assert (statuses(wire), wired.admission.running) == ([200, 200], 0)

    run(scenario)


def test_a_request_that_waited_does_not_start_while_its_client_does_not_receive() -> None:
    async def scenario() -> None:
        wired = Wired(running=1)
        wired.go_on.clear()
        (first, _), (slow, wire) = wired.connect(), wired.connect()
        first.data_received(RANK)
        slow.data_received(RANK)
        assert wired.admission.waiting == 1
        slow.pause_writing()
        wired.go_on.set()
        await settled()
        assert (wired.admission.running, wired.admission.waiting, wire.sent) == (0, 0, b"")
        slow.resume_writing()
        await settled()
        assert (statuses(wire), wired.admission.running) == ([200], 0)

    run(scenario)


# What is neither the body nor ends


def test_trailers_are_no_headers() -> None:
    async def scenario() -> None:
        wired = Wired()
        one, wire = wired.connect()
        one.data_received(
            CHUNKED + b"2\r\n{}\r\n0\r\nAuthorization: Bearer K\r\nContent-Type: application/json\r\n\r\n"
        )
        await settled()
        assert statuses(wire) == [200]
        names = [name for name, _ in wired.scopes[0]["headers"]]
        assert names == [b"host", b"authorization", b"transfer-encoding"]

    run(scenario)


@pytest.mark.parametrize("more", [b"a: b\r\n" * 1000, b"a" * 6000], ids=["many", "one long"])
@pytest.mark.parametrize(
    ("start", "answers"),
    [
        (b"GET / HTTP/1.1\r\n", [431]),
        (CHUNKED + b"0\r\n", [431]),
        (HEALTH + b"GET / HTTP/1.1\r\n", []),  # the answer to the first is lost: this one would be taken for it
    ],
)
def test_headers_and_trailers_are_bounded_wherever_they_are(start: bytes, answers: list[int], more: bytes) -> None:
    async def scenario() -> None:
        wired = Wired()
        wired.go_on.clear()
        one, wire = wired.connect()
        one.data_received(start)
        for _ in range(MAX_HEAD_BYTES // len(more)):
            assert not wire.closing
            one.data_received(more)
        one.data_received(more)
        assert wire.closing
        one.data_received(more)
        await settled()
        assert statuses(wire) == answers

    run(scenario)


def test_many_requests_and_large_bodies_are_no_headers() -> None:
    async def scenario() -> None:
        wired = Wired()
        one, wire = wired.connect()
        requests = [CHUNKED + b"a\r\n0123456789\r\n" * 5000 + b"0\r\n\r\n", post(body=b" " * 200_000), HEALTH]
        for request in requests * 3:
            for start in range(0, len(request), 7000):
                one.data_received(request[start : start + 7000])
            await settled()
        assert (statuses(wire), wire.closing) == ([200] * 9, False)
        assert [len(body) for body in wired.bodies] == [50_000, 200_000, 0] * 3

    run(scenario)


# Slow bodies


@pytest.mark.parametrize("path", ["/v1/rankers/a/rank", "/v1/rankers/a/feedback/bulk"])
@pytest.mark.parametrize("expect", [(), ("Expect: 100-continue",)])
def test_a_request_starts_when_its_body_is_complete(path: str, expect: tuple[str, ...]) -> None:
    async def scenario() -> None:
        wired = Wired(running=1)
        one, wire = wired.connect()
        one.data_received(post(path, *expect, body=b"", announced=BODY_LIMIT))
        assert await sent(wire_of=wire) == ([100] if expect else [])
        for _ in range(9):
            one.data_received(b" " * (BODY_LIMIT // 10))
            await settled()
            assert (wired.scopes, wired.admission.running, wire.paused) == ([], 0, False)
            assert one._one.phase is Phase.BODY
            assert not one.is_held()
        assert wired.admission.bodies.size == 9 * BODY_LIMIT // 10
        one.data_received(b" " * (BODY_LIMIT // 10))
        await settled()
        assert statuses(wire)[-1] == 200
        assert [len(body) for body in wired.bodies] == [BODY_LIMIT]
        assert wired.admission.bodies.size == 0

    async def sent(wire_of: object) -> list[int]:
        await settled()
        return statuses(wire_of)  # type: ignore[arg-type]

    run(scenario)


def test_a_client_is_asked_for_the_body_of_a_pipelined_request_when_its_turn_comes() -> None:
    async def scenario() -> None:
        wired = Wired()
        one, wire = wired.connect()
        one.data_received(RANK + post("/v1/rankers/a/rank", "Expect: 100-continue", body=b"", announced=2))
        assert wire.sent == b""
        await settled()
        assert statuses(wire) == [200, 100]
        one.data_received(b"{}" + post("/v1/rankers/a/rank", "Expect: 100-continue"))
        await settled()
        assert [status for status in statuses(wire) if status != 100] == [200] * 3

    run(scenario)


def test_a_body_that_is_too_large_is_left_to_the_application_to_refuse() -> None:
    async def scenario() -> None:
        wired = Wired()
        announced, _ = wired.connect()
        announced.data_received(post(announced=BODY_LIMIT + 1))
        grown, _ = wired.connect()
        grown.data_received(CHUNKED + b"%x\r\n" % (BODY_LIMIT + 1) + b" " * BODY_LIMIT)
        await settled()
        assert len(wired.scopes) == 1
        grown.data_received(b" ")
        await settled()
        assert [len(body) for body in wired.bodies] == [2, BODY_LIMIT + 1]

    run(scenario)


def test_incomplete_bodies_share_a_bounded_memory_and_the_oldest_makes_room() -> None:
    async def scenario() -> None:
        wired = Wired()
        limit = wired.admission.bodies._limit = 10 * BODY_LIMIT
        lines = [wired.connect() for _ in range(30)]
        for one, _ in lines:
            one.data_received(post(announced=BODY_LIMIT, body=b" " * (BODY_LIMIT - 2)))
            assert wired.admission.bodies.size <= limit
        small, answer = wired.connect()
        small.data_received(RANK)
        for one, _ in lines[-10:]:
            one.data_received(b"{}")
        await settled()
        assert [statuses(wire) for _, wire in lines] == [[503]] * 20 + [[200]] * 10
        assert [wire.closing for _, wire in lines] == [True] * 20 + [False] * 10
        assert statuses(answer) == [200]
        assert (wired.admission.bodies.size, wired.admission.refused[QUEUE_FULL]) == (0, 20)

    assert held_bodies.MAX_HELD_BYTES >= 10 * BODY_LIMIT
    run(scenario)


def test_the_memory_of_a_body_is_free_when_its_client_is_gone() -> None:
    async def scenario() -> None:
        wired = Wired()
        wired.go_on.clear()
        for start in (b"", RANK):  # a body that arrives behind another request is kept as well
            one, _ = wired.connect()
            one.data_received(start + post(announced=BODY_LIMIT, body=b" " * 200_000))
            assert wired.admission.bodies.size == 200_000
            one.connection_lost(None)
            assert wired.admission.bodies.size == 0

    run(scenario)


# The path, and refusals without parsing


def test_an_encoded_path_waits_as_the_plain_one_does() -> None:
    async def scenario() -> None:
        wired = Wired(running=1)
        wired.go_on.clear()
        for path in ("/v1/rankers/shop/r%61nk", "/v1/rankers/sh%6Fp/feedback", "/v1/%72ankers/shop/rank"):
            one, _ = wired.connect()
            one.data_received(post(path))
        await settled()
        assert (wired.admission.running, wired.admission.waiting) == (1, 2)
        assert wired.admission._queue.of_ranker("shop") == 2

    run(scenario)


def test_a_connection_whose_requests_are_refused_at_once_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admitting_http, "REFUSAL_PAUSE_SECONDS", 0.0)

    async def scenario() -> None:
        wired = Wired(running=1, queue=1, ranker_queue=1)
        wired.go_on.clear()
        for _ in range(2):
            wired.connect()[0].data_received(RANK)
        one, wire = wired.connect()
        for _ in range(20):
            wired.now += 9.0
            wired.connections.sweep()
            one.data_received(post(body=b" " * 10_000))
            await settled()
            assert (one._one.phase, one._one.size, one._one.since) == (Phase.IDLE, 0, wired.now)
        one.data_received(RANK[:30])
        await settled()
        assert (statuses(wire), wire.closing) == ([503] * 20, False)

    run(scenario)


def test_a_refusal_that_is_held_back_does_not_keep_others_away(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        wired = Wired(running=1, queue=1, ranker_queue=1, total=3)
        wired.go_on.clear()
        wired.admission.overloaded = True
        (_, first), (_, second), (_, wire) = [wired.connect() for _ in range(3)]
        for one in list(wired.connections._open):
            one.client.data_received(RANK)  # type: ignore[attr-defined]
        phases = sorted(one.phase.name for one in wired.connections._open)
        assert phases == ["IDLE", "WORK", "WORK"]
        _, last = wired.connect()
        assert (last.closing, [first.closing, second.closing, wire.closing].count(True)) == (False, 1)
        assert wired.reasons == ["evicted"]

    assert REFUSAL_PAUSE_SECONDS > 0
    run(scenario)


@pytest.mark.parametrize(
    ("allowed", "origin", "answer"),
    [
        (("https://shop.example",), "https://shop.example", b"https://shop.example"),
        (("*",), "https://shop.example", b"*"),
        (("https://shop.example",), "https://evil.example", None),
    ],
)
def test_a_page_may_read_why_it_is_refused(allowed: tuple[str, ...], origin: str, answer: bytes | None) -> None:
    async def scenario() -> None:
        wired = Wired(cors_origins=allowed, running=1, queue=1, ranker_queue=1)
        wired.go_on.clear()
        for _ in range(2):
            wired.connect()[0].data_received(RANK)
        one, wire = wired.connect()
        one.data_received(post("/v1/rankers/a/rank", f"Origin: {origin}"))
        await settled()
        assert statuses(wire) == [503]
        found = [line for line in wire.sent.split(b"\r\n") if line.startswith(b"access-control-")]
        expected = [] if answer is None else [b"access-control-allow-origin: " + answer]
        assert found[:1] == expected
        assert (b"access-control-expose-headers: Retry-After" in found) is (answer is not None)

    run(scenario)
