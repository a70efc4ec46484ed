"""SQLite's write-ahead log is moved into the file by a thread of its own: no commit waits for that."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

OFTEN = 8_000_000
"""Bytes of the write-ahead log after which it is moved while others write."""
LONG = 64_000_000
"""Bytes at which writers wait until the rest is moved, so that the log begins anew."""
log = logging.getLogger("rankloop.store")


class Checkpoints:
    """Watches how long the write-ahead log grows.

    Args:
        path: of the database.
        connect: another connection to it.
        restart: moves what is left and lets the log begin anew, while nobody writes.
    """

    def __init__(self, path: Path, connect: Callable[[], sqlite3.Connection], restart: Callable[[], None]) -> None:
        self._wal = path.with_name(f"{path.name}-wal")
        self._connect, self._restart = connect, restart
        self._grown, self._end, self._wake = 0, False, threading.Event()
        self._thread: threading.Thread | None = None

    def wrote(self, bytes: int) -> None:
        """So many bytes were appended."""
        self._grown += bytes
        if self._grown >= OFTEN:
            self._grown = 0
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="rankloop-checkpoints", daemon=True)
                self._thread.start()
            self._wake.set()

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            if self._end:
                return
            try:
                connection = self._connect()
                try:
                    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
                finally:
                    connection.close()
                if self._wal.stat().st_size >= LONG:
                    self._restart()
            except (sqlite3.Error, OSError) as error:  # a full disk, say: there will be another time
                log.warning("the write-ahead log could not be moved: %s", error)

    def close(self) -> None:
        """End, after what is being done."""
        self._end = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
