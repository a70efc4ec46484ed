"""Checkpoints of SQLite's write-ahead log, on a thread of their own, so that commits rarely wait for them."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable

CHECKPOINT = "PRAGMA wal_checkpoint(PASSIVE)"
"""Moves what it can without waiting for readers or writers."""
RECOVERY_SECONDS = 1.0
"""Pause between two attempts to write to a full disk."""
log = logging.getLogger("rankloop.eventlog")


class WalCheckpoints:
    """Checkpoints the write-ahead log on request.

    Args:
        connect: opens another connection to the database.
        finish: checkpoints the rest while no one writes, so that the next commit starts the log from its beginning; on
            a full disk, tries to recover.
        is_full: returns whether the disk is full.
    """

    def __init__(
        self, connect: Callable[[], sqlite3.Connection], finish: Callable[[], None], is_full: Callable[[], bool]
    ) -> None:
        self._connect, self._finish, self._is_full = connect, finish, is_full
        self._closed, self._requested = False, threading.Event()
        self._thread: threading.Thread | None = None

    def request(self) -> None:
        """Start a checkpoint, unless one is running; `RuntimeError` if no thread can be started."""
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="rankloop-checkpoints", daemon=True)
            thread.start()
            self._thread = thread
        self._requested.set()

    @property
    def running(self) -> bool:
        """Whether the thread has been started."""
        return self._thread is not None

    def _run(self) -> None:
        while True:
            self._requested.wait(RECOVERY_SECONDS if self._is_full() else None)
            self._requested.clear()
            if self._closed:
                return
            try:
                if not self._is_full():
                    self._checkpoint()
                self._finish()
            except sqlite3.Error as error:  # the next request tries again
                log.warning("the write-ahead log could not be checkpointed: %s", error)

    def _checkpoint(self) -> None:
        connection = self._connect()
        try:
            connection.execute(CHECKPOINT).fetchone()
        finally:
            connection.close()

    def close(self) -> None:
        """Stop after the running checkpoint."""
        self._closed = True
        self._requested.set()
        if self._thread is not None:
            self._thread.join()
