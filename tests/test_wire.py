"""Answers on the wire: one call of the system for each."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

from tools.serving import serving

from rankloop.schema.service_settings import ServiceSettings
from rankloop.service.answer_transport import MOST, Together


class Noted:
    """A transport that notes what it is asked to do."""

    def __init__(self) -> None:
        self.done: list[bytes | str] = []

    def write(self, data: bytes) -> None:
        self.done.append(data)

    def close(self) -> None:
        self.done.append("closed")

    def is_closing(self) -> bool:
        return "closed" in self.done


def noted(act: Any) -> list[bytes | str]:
    async def run() -> list[bytes | str]:
        transport = Noted()
        await act(Together(transport, asyncio.get_running_loop()))  # type: ignore[arg-type]
        return transport.done

    return asyncio.run(run())


def test_what_is_written_in_one_round_leaves_together_and_in_its_order() -> None:
    async def act(wire: Together) -> None:
        wire.write(b"head ")
        wire.write(b"body")
        await asyncio.sleep(0)
        wire.write(b"next")
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    assert noted(act) == [b"head body", b"next"]


def test_a_long_answer_leaves_piece_by_piece() -> None:
    async def act(wire: Together) -> None:
        for piece in (b"a" * MOST, b"b", b"c"):
            wire.write(piece)
        await asyncio.sleep(0)

    assert noted(act) == [b"a" * MOST + b"b", b"c"]


def test_what_was_written_before_the_end_leaves_before_it() -> None:
    async def act(wire: Together) -> None:
        wire.write(b"last words")
        assert not wire.is_closing()
        wire.close()
        assert wire.is_closing()
        await asyncio.sleep(0)

    assert noted(act) == [b"last words", "closed"]


def test_requests_that_come_at_once_are_answered_one_by_one_until_the_client_ends(tmp_path: Path) -> None:
    """Also the head alone of an answer without a body, and the last answer before the connection is closed."""
    ask = b"GET /healthz HTTP/1.1\r\nHost: here\r\n"
    head = b"HEAD /healthz HTTP/1.1\r\nHost: here\r\n\r\n"
    with (
        serving(ServiceSettings(log=str(tmp_path / "log.db"))) as url,
        socket.create_connection(("127.0.0.1", int(url[-5:]))) as line,
    ):
        line.sendall(ask + b"\r\n" + ask + b"\r\n" + head + ask + b"Connection: close\r\n\r\n")
        told = b""
        while more := line.recv(65_536):
            told += more
    assert told.count(b"HTTP/1.1 200") == 3
    assert told.count(b"HTTP/1.1 ") == 4
    assert told.count(b"connection: close") == 1
