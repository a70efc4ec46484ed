"""Responses are sent with one system call each."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

from tools.serving import serving

from rankloop.schema.service_settings import ServiceSettings
from rankloop.service.transport.answer_transport import MAX_BUFFER_BYTES, BufferedTransport


class RecordingTransport:
    """A transport that records its calls."""

    def __init__(self) -> None:
        self.calls: list[bytes | str] = []

    def write(self, data: bytes) -> None:
        self.calls.append(data)

    def close(self) -> None:
        self.calls.append("closed")

    def is_closing(self) -> bool:
        return "closed" in self.calls


def recorded(act: Any) -> list[bytes | str]:
    async def run() -> list[bytes | str]:
        transport = RecordingTransport()
        await act(BufferedTransport(transport, asyncio.get_running_loop()))  # type: ignore[arg-type]
        return transport.calls

    return asyncio.run(run())


def test_writes_of_one_loop_iteration_are_sent_together_and_in_order() -> None:
    async def act(transport: BufferedTransport) -> None:
        transport.write(b"head ")
        transport.write(b"body")
        await asyncio.sleep(0)
        transport.write(b"next")
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    assert recorded(act) == [b"head body", b"next"]


def test_a_long_response_is_sent_in_parts() -> None:
    async def act(transport: BufferedTransport) -> None:
        for piece in (b"a" * MAX_BUFFER_BYTES, b"b", b"c"):
            transport.write(piece)
        await asyncio.sleep(0)

    assert recorded(act) == [b"a" * MAX_BUFFER_BYTES + b"b", b"c"]


def test_buffered_data_is_sent_before_the_connection_closes() -> None:
    async def act(transport: BufferedTransport) -> None:
        transport.write(b"last words")
        assert not transport.is_closing()
        transport.close()
        assert transport.is_closing()
        await asyncio.sleep(0)

    assert recorded(act) == [b"last words", "closed"]


def test_nothing_is_written_to_a_connection_that_was_lost() -> None:
    async def act(transport: BufferedTransport) -> None:
        transport.write(b"for nobody")
        transport._transport.close()
        await asyncio.sleep(0)
        transport.write(b"nor this")
        transport.close()

    assert recorded(act) == ["closed", "closed"]


def test_pipelined_requests_are_answered_in_order(tmp_path: Path) -> None:
    """This includes a response without a body, and the last response before the connection closes."""
    get = b"GET /healthz HTTP/1.1\r\nHost: here\r\n"
    head = b"HEAD /healthz HTTP/1.1\r\nHost: here\r\n\r\n"
    with (
        serving(ServiceSettings(log=str(tmp_path / "log.db"))) as url,
        socket.create_connection(("127.0.0.1", int(url[-5:]))) as line,
    ):
        line.sendall(get + b"\r\n" + get + b"\r\n" + head + get + b"Connection: close\r\n\r\n")
        received = b""
        while more := line.recv(65_536):
            received += more
    assert received.count(b"HTTP/1.1 200") == 4
    assert received.count(b"HTTP/1.1 ") == 4
    assert received.count(b"connection: close") == 1
