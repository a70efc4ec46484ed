"""Room for a log on its disk: a bound of the write-ahead log, a reserve, and recovery from a full disk.

The write-ahead log is checkpointed when it has an eighth of the room on its disk, and at 64 MB on a large one. The
reserve is as large as the write-ahead log may become before the next look. So the checkpoint, which makes room by
moving pages into the database and truncating the write-ahead log, has room itself even where the disk is full.
"""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from rankloop.eventlog.disk_reserve import DiskReserve, size_of
from rankloop.eventlog.store import StoreUnavailable

MAX_WAL_BYTES = 64_000_000
"""Estimated size of the write-ahead log at which it is checkpointed and starts from its beginning: growing it costs
twice as much as overwriting it, but the first commit after a checkpoint waits for four flushes instead of one."""
MIN_WAL_BYTES = 128_000
"""Size at which it is checkpointed on the smallest disks; also the room without which the disk counts as full."""
ROOM_SHARE = 8
"""The write-ahead log and the reserve may each take one part in eight of the room on the disk."""
INLINE_BYTES = 1_000_000
"""Below this limit the writer checkpoints by itself: on a small disk the log must not grow while a thread wakes up."""
BUSY_MILLISECONDS = 100
"""How long a checkpoint on a full disk waits for readers."""
PRIMARY_CODE = 0xFF
"""The part of an error code that names its class."""
log = logging.getLogger("rankloop.eventlog")

T = TypeVar("T")


class WalSpace:
    """Watches the room for one log.

    Args:
        path: the file of the log; where it is a symbolic link, SQLite writes next to the file that it points to.
    """

    def __init__(self, path: Path) -> None:
        path = Path(os.path.realpath(path))
        self._path, self._wal, self.reserve = path, Path(f"{path}-wal"), DiskReserve(path)
        self.full: str | None = None  # why nothing can be written, while that is so
        self.limit = MAX_WAL_BYTES

    def prepare_open(self) -> None:
        """Give the opening process room on a full disk; only for one that holds the lock of the log."""
        if self._free() < MIN_WAL_BYTES:
            self.reserve.release()

    @property
    def wal_bytes(self) -> int:
        """Size of the write-ahead log."""
        return size_of(self._wal)

    def look(self, used: int) -> int:
        """Adapt limit and reserve to the disk; return the size of the write-ahead log at which to look again.

        A result of 0 means that the write-ahead log has reached its limit and is to be checkpointed.
        """
        room = self._free() + self.wal_bytes + self.reserve.size
        self.limit = min(MAX_WAL_BYTES, max(MIN_WAL_BYTES, room // ROOM_SHARE))
        following = min(self.limit, max(2 * used, MIN_WAL_BYTES))
        self.reserve.shrink(self.limit)
        if self._free() >= 2 * following:  # the last room on the disk is for the log itself
            self.reserve.keep(following)
        return 0 if used >= self.limit else following

    def require(self, size: int) -> None:
        """Refuse a snapshot that would fill the disk: it is written to both files, and the log can do without it."""
        free = self._free()
        if free < 2 * size + MIN_WAL_BYTES:
            raise StoreUnavailable(
                f"a snapshot of {size:,} bytes is not stored, since the disk of {self._path.name} has only {free:,} "
                "bytes left."
            )

    def retried(self, error: sqlite3.Error, connection: sqlite3.Connection, write: Callable[[], T]) -> T:
        """Make room and repeat a write that failed; raise its error if the disk is not full, or still is."""
        if not is_full(error):
            raise error
        self._make_room(connection)
        try:
            return write()
        except sqlite3.Error as again:
            if is_full(again) and self.full is None:
                self.full = f"the disk of {self._path.name} is full or fails ({again})"
                log.error("%s: nothing is acknowledged until there is room", self.full)
            raise

    def try_to_recover(self, connection: sqlite3.Connection) -> None:
        """Find out whether there is room again, without an entry in the log."""
        self._make_room(connection)
        if not self.reserve.keep(MIN_WAL_BYTES):
            return
        try:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            connection.execute(f"PRAGMA user_version = {int(version)}")  # writes the first page of the database
        except sqlite3.Error:
            self.reserve.release()
            return
        self.full = None
        log.warning("the disk of %s has room again, and the log is written", self._path.name)

    def _make_room(self, connection: sqlite3.Connection) -> None:
        """Release the reserve, move the write-ahead log into the database, and truncate it."""
        released = self.reserve.release()
        if released and self.full is None:
            log.warning(
                "the disk of %s is full; its reserve of %s bytes was released", self._path.name, f"{released:,}"
            )
        with suppress(sqlite3.Error):  # without room for the checkpoint the write fails again, and says so
            (before,) = connection.execute("PRAGMA busy_timeout").fetchone()
            connection.execute(f"PRAGMA busy_timeout = {BUSY_MILLISECONDS}")
            try:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            finally:
                connection.execute(f"PRAGMA busy_timeout = {int(before)}")

    def _free(self) -> int:
        """Return the free bytes of the disk; the limit of a large disk if that cannot be found out."""
        try:
            return shutil.disk_usage(self._path.parent).free
        except OSError:
            return ROOM_SHARE * MAX_WAL_BYTES


def is_full(error: sqlite3.Error) -> bool:
    """Return whether a write may have failed for lack of room: a quota or a size limit is an I/O error to SQLite."""
    try:
        code = error.sqlite_errorcode
    except AttributeError:  # an error of Python's own, such as a closed connection
        return False
    return code & PRIMARY_CODE in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
