"""Servers that hang are cut off: whoever waits for an answer gets an error instead, in bounded time."""

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
        """The number of its socket."""


class Watchdog:
    """Looks after questions to a server that may take so many seconds and no more.

    A connection that is cut off fails as one whose server has died; what that means, its user knows.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock, self._end = threading.Lock(), threading.Event()
        self._due: dict[object, tuple[float, HasSocket]] = {}  # by question: until when it may take, and its connection
        self._thread = threading.Thread(target=self._run, name="rankloop-watch", daemon=True)
        self._thread.start()

    @contextmanager
    def over(self, connection: HasSocket) -> Iterator[None]:
        """Look after what is asked in the block."""
        question = object()
        with self._lock:
            self._due[question] = time.monotonic() + self._seconds, connection
        try:
            yield
        finally:
            with self._lock:
                del self._due[question]

    def _run(self) -> None:
        while not self._end.wait(self._seconds / 4):
            now = time.monotonic()
            with self._lock:  # whoever is in a block cannot leave it meanwhile
                for until, connection in self._due.values():
                    if now > until:
                        _cut(connection)

    def close(self) -> None:
        """Look after nobody any more."""
        self._end.set()
        self._thread.join()


def _cut(connection: HasSocket) -> None:
    """Let nothing come through any more; the number of the socket stays its user's to close."""
    with contextlib.suppress(Exception), socket.socket(fileno=os.dup(connection.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)
