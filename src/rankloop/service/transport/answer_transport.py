"""Send the head and the body of a response together: uvicorn writes them separately, and uvloop would send each."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from rankloop.service.transport.admitting_http import AdmittingHttp

MAX_BUFFER_BYTES = 65_536
"""A longer response is sent in parts, so that flow control reaches its producer."""


class BufferedHttp(AdmittingHttp):
    """uvicorn's HTTP protocol with one system call for a response instead of two."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Buffer the writes of a new connection."""
        super().connection_made(cast("asyncio.Transport", BufferedTransport(transport, self.loop)))

    def on_response_complete(self) -> None:
        """Send the response before the next one begins, to learn whether the client receives it."""
        if self.pipeline:
            cast("BufferedTransport", self.transport).flush()
        super().on_response_complete()


class BufferedTransport:
    """A transport that joins everything written during one iteration of the event loop into one write."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._buffer: list[bytes] = []
        self._bytes = 0

    def write(self, data: bytes) -> None:
        """Send data at the end of this iteration of the loop, or now if the buffer is full."""
        if not self._buffer:
            self._loop.call_soon(self.flush)
        self._buffer.append(data)
        self._bytes += len(data)
        if self._bytes > MAX_BUFFER_BYTES:
            self.flush()

    def flush(self) -> None:
        """Send the buffer now; nobody is there to receive it if the connection was lost in the meantime."""
        if self._buffer:
            data, self._buffer, self._bytes = b"".join(self._buffer), [], 0
            if not self._transport.is_closing():
                self._transport.write(data)

    def close(self) -> None:
        """Send the buffer, then close."""
        self.flush()
        self._transport.close()

    def is_closing(self) -> bool:
        """Return whether the connection is being closed."""
        return self._transport.is_closing()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
