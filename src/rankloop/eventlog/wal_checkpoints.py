"""SQLite's write-ahead log is moved into the file by a thread of its own, most of it while others write."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable

OFTEN = 64_000_000
"""Bytes of the write-ahead log, about, after which it is moved and begins anew: to grow costs twice as much as to
overwrite, but at each new beginning whoever writes waits for the disk four times instead of once."""
MOVE = "PRAGMA wal_checkpoint(PASSIVE)"
"""Waits for nobody, neither for those who write nor for those who read."""
log = logging.getLogger("rankloop.eventlog")


class WalCheckpoints:
    """Watches how long the write-ahead log grows.

    Args:
        connect: another connection to the database.
        finish: moves what came meanwhile, while nobody writes: then the next who writes lets the log begin anew.
    """

    def __init__(self, connect: Callable[[], sqlite3.Connection], finish: Callable[[], None]) -> None:
        self._connect, self._finish = connect, finish
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
                    connection.execute(MOVE).fetchone()
                finally:
                    connection.close()
                self._finish()
            except sqlite3.Error as error:  # a full disk, say: there will be another time
                log.warning("the write-ahead log could not be moved: %s", error)

    def close(self) -> None:
        """End, after what is being done."""
        self._end = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
