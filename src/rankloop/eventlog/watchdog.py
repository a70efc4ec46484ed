"""Disconnect servers that hang, so that every statement ends in bounded time, with an error if necessary."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class HasSocket(Protocol):
    """A connection to a server."""

    def fileno(self) -> int:
        """Return the file descriptor of the socket."""


class Watchdog:
    """Shuts down the connection of every block that takes longer than a timeout.

    The connection then fails as if its server had died.

    Args:
        timeout_seconds: how long a block may take.
    """

    def __init__(self, timeout_seconds: float) -> None:
        self._timeout_seconds = timeout_seconds
        self._lock, self._stopped = threading.Lock(), threading.Event()
        self._deadlines: dict[object, tuple[float, HasSocket]] = {}  # deadline and connection of each running block
        self._thread = threading.Thread(target=self._run, name="rankloop-watchdog", daemon=True)
        self._thread.start()

    @contextmanager
    def over(self, connection: HasSocket) -> Iterator[None]:
        """Watch the statements of the block."""
        block = object()
        with self._lock:
            self._deadlines[block] = time.monotonic() + self._timeout_seconds, connection
        try:
            yield
        finally:
            with self._lock:
                del self._deadlines[block]

    def _run(self) -> None:
        while not self._stopped.wait(self._timeout_seconds / 4):
            now = time.monotonic()
            with self._lock:  # no block can end meanwhile, so that each descriptor is still its connection's
                for deadline, connection in self._deadlines.values():
                    if now > deadline:
                        _shut_down(connection)

    def close(self) -> None:
        """Stop watching."""
        self._stopped.set()
        self._thread.join()


def _shut_down(connection: HasSocket) -> None:
    """Shut down both directions of a socket; its owner still closes the descriptor."""
    with contextlib.suppress(Exception), socket.socket(fileno=os.dup(connection.fileno())) as copy:
        copy.shutdown(socket.SHUT_RDWR)
