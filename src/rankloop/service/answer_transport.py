"""The head and the body of an answer leave together: uvicorn hands them over one by one, and uvloop would send each."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST = 65_536
"""Bytes that are held back at most: a long answer must feel how fast its reader is."""


class Wire(HttpToolsProtocol):
    """uvicorn's HTTP, with one call of the system for an answer instead of two."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has come."""
        super().connection_made(cast("asyncio.Transport", Together(transport, self.loop)))


class Together:
    """A transport that sends what is written during one round of the loop at its end."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._held: list[bytes] = []
        self._bytes = 0

    def write(self, data: bytes) -> None:
        """Send soon."""
        if not self._held:
            self._loop.call_soon(self.send)
        self._held.append(data)
        self._bytes += len(data)
        if self._bytes > MOST:
            self.send()

    def send(self) -> None:
        """Send now what is held back."""
        if self._held:
            data, self._held, self._bytes = b"".join(self._held), [], 0
            self._transport.write(data)

    def close(self) -> None:
        """Send what is held back, then close."""
        self.send()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
