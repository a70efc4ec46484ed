"""The log in one SQLite file, in WAL mode with synchronous commits."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from rankloop.eventlog.erasure.rewriting import SqlRewriting
from rankloop.eventlog.format_history import RENAME_KINDS
from rankloop.eventlog.process_lock import ProcessLock
from rankloop.eventlog.store import LogEntry, LogMoved, Snapshot, StoreUnavailable
from rankloop.eventlog.wal_checkpoints import CHECKPOINT, WalCheckpoints
from rankloop.eventlog.wal_space import INLINE_BYTES, MIN_WAL_BYTES, WalSpace
from rankloop.files import create_private

MIGRATIONS = (
    """
    CREATE TABLE log (
      position INTEGER PRIMARY KEY,
      ranker TEXT NOT NULL,
      kind TEXT NOT NULL,
      key TEXT NOT NULL,
      subject TEXT NOT NULL,
      time REAL NOT NULL,
      body BLOB NOT NULL
    );
    CREATE UNIQUE INDEX log_key ON log (ranker, kind, key) WHERE key <> '';
    CREATE INDEX log_subject ON log (ranker, subject) WHERE subject <> '';
    CREATE TABLE snapshot (
      ranker TEXT PRIMARY KEY,
      position INTEGER NOT NULL,
      body BLOB NOT NULL
    );
    """,
    """
    CREATE INDEX log_ranker ON log (ranker);
    DROP INDEX log_subject;
    CREATE INDEX log_subject ON log (ranker, subject) WHERE subject <> '' AND kind <> 'shown';
    """,
    f"""
    {RENAME_KINDS};
    DROP INDEX log_subject;
    CREATE INDEX log_subject ON log (ranker, subject) WHERE subject <> '' AND kind <> 'decision';
    """,
)
"""Schema migrations; a migration and its version number are committed in one transaction."""
COLUMNS = "kind, key, subject, time, body, position"
INSERTED = "ranker, kind, key, subject, time, body"
RANKERS = """
    WITH RECURSIVE name (ranker) AS (
      SELECT min(ranker) FROM log
      UNION ALL
      SELECT (SELECT min(log.ranker) FROM log WHERE log.ranker > name.ranker) FROM name WHERE name.ranker IS NOT NULL
    )
    SELECT ranker FROM name WHERE ranker IS NOT NULL
"""
"""Steps from each name to the next one in the index, without reading the entries in between."""
LAST = "SELECT coalesce(max(position), 0) FROM log"
OF_KIND = "ranker = ? AND kind = ? AND key <> '' ORDER BY +position"  # the sign: by the index of keys, then sorted
NEWEST = "SELECT position, ranker, kind, key FROM log WHERE position <= ? ORDER BY position DESC LIMIT ?"
COUNT = "SELECT count(*) FROM log WHERE ranker = ? AND position > ?"
PAGE_ENTRIES = 2000
"""Entries that a read fetches at once."""
MAX_BOUND_KEYS = 500
"""Keys that one statement looks up."""
PAGE_BYTES, CHANGED_PAGES = 4096, 4
"""Size of a database page, and pages that every commit changes: the ends of the table and of its indexes."""
MAX_PREPARED_STATEMENTS = 600
"""One statement for each size of a batch."""
OPEN_SECONDS = 5.0
"""How long to wait for another connection's lock."""
log = logging.getLogger("rankloop.eventlog")

T = TypeVar("T")
Batch = Sequence[tuple[str, LogEntry]]  # with the names of their logs
Values = list[str | float | bytes | None]


class SqliteStore:
    """A log in one file, plus its write-ahead log and a reserve while it is open. One connection writes, another reads.

    Args:
        path: the file.
        exclusive: refuse a file that another process opened exclusively: each would learn from half of the feedback.
    """

    def __init__(self, path: str | Path, *, exclusive: bool = False) -> None:
        self.path = Path(path)
        self._space = WalSpace(self.path)
        with ExitStack() as resources:
            self._lock = resources.enter_context(ProcessLock(self.path)) if exclusive else None
            if exclusive:  # the reserve of a process that serves the log is not ours to release
                self._space.prepare_open()
            self._wal_bytes, self._look_at = self._space.wal_bytes, MIN_WAL_BYTES
            try:
                self._writer = resources.enter_context(closing(_connect(self.path)))
                _migrate(self._writer, self.path, locked=exclusive)
                self._reader = resources.enter_context(closing(_connect(self.path)))
            except sqlite3.Error as error:
                raise StoreUnavailable(f"{self.path} cannot be opened as a log ({error}).") from None
            self._resources = resources.pop_all()  # released by `close`
        self._writing, self._reading = threading.Lock(), threading.Lock()
        self._writer.execute("PRAGMA wal_autocheckpoint = 0")
        self._checkpoints = WalCheckpoints(
            lambda: _connect(self.path), self._finish_checkpoint, lambda: self.problem is not None
        )

    @property
    def problem(self) -> str | None:
        """Why the log cannot be written now, if that is known."""
        return self._space.full

    def _finish_checkpoint(self) -> None:
        with self._writing:
            if self._space.full is None:
                self._writer.execute(f"PRAGMA journal_size_limit = {self._space.limit}")
                self._writer.execute(CHECKPOINT).fetchone()
            else:
                self._space.try_to_recover(self._writer)

    def _bound_wal(self) -> None:
        """Checkpoint the write-ahead log if it has reached the limit that its disk allows.

        What was appended is committed by then, so nothing is raised; a later look tries again.
        """
        try:
            self._look_at = self._space.look(self._wal_bytes)
            if self._look_at:
                return
            if self._space.limit > INLINE_BYTES:
                self._checkpoints.request()
            else:
                self._writer.execute(f"PRAGMA journal_size_limit = {self._space.limit}")
                self._writer.execute(CHECKPOINT).fetchone()
            self._wal_bytes = 0
        except Exception as error:
            log.warning("the write-ahead log of %s could not be checkpointed: %s", self.path.name, error)
        self._look_at = self._wal_bytes + MIN_WAL_BYTES

    def _written(self, write: Callable[[], T]) -> T:
        """Write; on a full disk make room and write again; while that fails, a thread tries to recover."""
        try:
            return write()
        except sqlite3.Error as error:
            was_full = self._space.full is not None
            try:
                return self._space.retried(error, self._writer, write)
            finally:
                if self._space.full is not None and not (was_full and self._checkpoints.running):
                    with suppress(RuntimeError):  # no thread can be started; the next write tries again
                        self._checkpoints.request()  # it tries again by itself until there is room

    def append(self, batch: Batch, after: int | None = None) -> list[int | None]:
        """Insert entries in one statement, which is one transaction and also checks where the log ends.

        A statement releases the GIL once; one for each entry would wait for busy threads each time. Nothing can fail
        after the commit: an error means that nothing was stored.
        """
        values: Values = [value for ranker, entry in batch for value in (ranker, *entry[:-1])]
        with self._writing, _explained("written", self.path):
            if not batch:
                self._confirm(after)
                return []
            stored = None if after is None else self._insert_all(batch, after, values)
            if stored is None:
                stored = self._written(lambda: self._insert_new(batch, after, values))
            self._wal_bytes += PAGE_BYTES * (CHANGED_PAGES + len(batch)) + sum([len(entry.body) for _, entry in batch])
            if self._wal_bytes >= self._look_at:
                self._bound_wal()
            return stored

    def _insert_all(self, batch: Batch, after: int, values: Values) -> list[int | None] | None:
        """Insert all entries, the first one at the position that follows; None if the log has it, or a duplicate.

        This is faster than to read the end of the log in the same statement, and there are few duplicates. A log that
        ends earlier, which no other process can cause, is only noticed by `_confirm`.
        """
        statement = _insert_after(len(batch))
        try:
            self._written(lambda: self._writer.execute(statement, [after + 1, *values]))
        except sqlite3.IntegrityError:
            return None
        return list(range(after + 1, after + 1 + len(batch)))

    def _insert_new(self, batch: Batch, after: int | None, values: Values) -> list[int | None]:
        """Insert the entries that are no duplicates, and find their positions before they are committed."""
        with _transaction(self._writer) as connection:
            done = connection.execute(_insert_new(len(batch)), [*values, after, after])
            last, new = done.lastrowid or 0, done.rowcount
            if new == len(batch):
                return list(range(last - new + 1, last + 1))
            if after is not None and new == 0:  # all entries are duplicates, or the log has moved
                self._require_end(after)
            return _positions(batch, connection.execute(NEWEST, (last, new)).fetchall()[::-1] if new else [])

    def _confirm(self, after: int | None) -> None:
        """Check that this process may write and that the log ends at a position."""
        if self._lock is not None:
            self._lock.confirm()
        if after is not None:
            self._require_end(after)

    def _require_end(self, after: int) -> None:
        (last,) = self._writer.execute(LAST).fetchone()
        if last != after:
            raise LogMoved.of(self.path.name, after, last)

    def last_position(self) -> int:
        """Return the position of the last entry."""
        with self._reading, _explained("read", self.path):
            (last,) = self._reader.execute(LAST).fetchone()
        return int(last)

    def read(self, ranker: str, after: int = 0) -> Iterator[LogEntry]:
        """Yield entries page by page, so that a long log needs little memory."""
        while True:
            rows = self._select("ranker = ? AND position > ? ORDER BY position LIMIT ?", ranker, after, PAGE_ENTRIES)
            yield from rows
            if len(rows) < PAGE_ENTRIES:
                return
            after = rows[-1].position

    def count(self, ranker: str, after: int = 0) -> int:
        """Return the number of entries of a ranker after a position, counted in the index of rankers."""
        with self._reading, _explained("read", self.path):
            (entries,) = self._reader.execute(COUNT, (ranker, after)).fetchone()
        return int(entries)

    def find(self, ranker: str, kind: str, key: str) -> LogEntry | None:
        """Return the entry of a key."""
        rows = self._select("ranker = ? AND kind = ? AND key = ? AND key <> ''", ranker, kind, key)
        return rows[0] if rows else None

    def find_all(self, ranker: str, kind: str, keys: Sequence[str]) -> list[LogEntry]:
        """Return the entries of many keys, found by the index of keys in a few statements."""
        pieces = [keys[start : start + MAX_BOUND_KEYS] for start in range(0, len(keys), MAX_BOUND_KEYS)]
        where = "ranker = ? AND kind = ? AND key <> '' AND key IN ({})"
        found = [self._select(where.format(",".join("?" * len(piece))), ranker, kind, *piece) for piece in pieces]
        return [entry for entries in found for entry in entries]

    def about(self, ranker: str, subject: str) -> list[LogEntry]:
        """Return the entries of a decision, which is the key of its own entry and the subject of the others."""
        decision = self.find(ranker, "decision", subject)
        where = "ranker = ? AND subject = ? AND subject <> '' AND kind <> 'decision' ORDER BY position"
        return ([] if decision is None else [decision]) + self._select(where, ranker, subject)

    def rankers(self) -> list[str]:
        """Return the names of all rankers that have entries, sorted as Python sorts."""
        with self._reading, _explained("read", self.path):
            return [ranker for (ranker,) in self._reader.execute(RANKERS).fetchall()]

    def of_kind(self, ranker: str, kind: str) -> list[LogEntry]:
        """Return the entries of a kind that have a key."""
        return self._select(OF_KIND, ranker, kind)

    def _select(self, where: str, *values: str | int) -> list[LogEntry]:
        with self._reading, _explained("read", self.path):
            # The conditions are literals of this module; values are bound.
            rows = self._reader.execute(f"SELECT {COLUMNS} FROM log WHERE {where}", values).fetchall()  # noqa: S608
        return [LogEntry(*row) for row in rows]

    def save_snapshot(self, ranker: str, snapshot: Snapshot) -> None:
        """Replace the snapshot of a ranker."""
        size = len(snapshot.body)
        with self._writing, _explained("written", self.path):
            self._space.require(size)
            with _transaction(self._writer) as connection:
                connection.execute(
                    "INSERT OR REPLACE INTO snapshot (ranker, position, body) VALUES (?, ?, ?)",
                    (ranker, snapshot.position, snapshot.body),
                )
            self._wal_bytes += PAGE_BYTES * CHANGED_PAGES + size
            self._bound_wal()

    def load_snapshot(self, ranker: str) -> Snapshot | None:
        """Return the newest snapshot."""
        with self._reading, _explained("read", self.path):
            row = self._reader.execute("SELECT position, body FROM snapshot WHERE ranker = ?", (ranker,)).fetchone()
        return None if row is None else Snapshot(*row)

    @contextmanager
    def rewriting(self) -> Iterator[SqlRewriting]:
        """Give the changes of a transaction."""
        with self._writing, _explained("written", self.path), _transaction(self._writer) as connection:
            execute, execute_all = connection.execute, connection.executemany
            yield SqlRewriting(lambda statement, values: execute(statement, values).fetchall(), execute_all)

    def purge(self) -> None:
        """Write the file anew without its free space, and empty the write-ahead log."""
        with self._writing, _explained("written", self.path):
            self._writer.execute("VACUUM")
            (busy, *_) = self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise StoreUnavailable(
                f"the write-ahead log of {self.path.name} still has erased content, since another process reads the "
                "log; end that process and run the command again."
            )

    def close(self) -> None:
        """Close both connections."""
        self._checkpoints.close()
        with self._writing, self._reading:
            if self._lock is None or self._lock.held:  # otherwise the reserve is that of another process
                self._space.reserve.close()
            self._resources.close()


@lru_cache(MAX_PREPARED_STATEMENTS)
def _insert_after(rows: int) -> str:
    """Return a statement that inserts entries after a given position, or fails."""
    others = ",(NULL,?,?,?,?,?,?)" * (rows - 1)
    return f"INSERT INTO log (position, {INSERTED}) VALUES (?,?,?,?,?,?,?){others}"  # noqa: S608  (literals)


@lru_cache(MAX_PREPARED_STATEMENTS)
def _insert_new(rows: int) -> str:
    """Return a statement that inserts entries without duplicates, if the log ends at a position or none is given."""
    values = ",".join(["(?,?,?,?,?,?)"] * rows)
    # Made of literals of this module.
    return f"INSERT OR IGNORE INTO log ({INSERTED}) SELECT * FROM (VALUES {values}) WHERE ? IS NULL OR ? = ({LAST})"  # noqa: S608


def _positions(batch: Batch, new: list[tuple[int, str, str, str]]) -> list[int | None]:
    """Return the position of each entry, None for duplicates; `new` are the inserted ones in their order."""
    left = iter([*new, None])
    following = next(left)
    positions: list[int | None] = []
    for ranker, entry in batch:
        if following is not None and following[1:] == (ranker, entry.kind, entry.key):
            positions.append(following[0])
            following = next(left)
        else:
            positions.append(None)
    return positions


def _connect(path: Path, timeout: float = OPEN_SECONDS) -> sqlite3.Connection:
    with suppress(OSError):  # SQLite explains why a file cannot be created, and gives its mode to the files next to it
        create_private(path)
    connection = sqlite3.connect(
        path, isolation_level=None, check_same_thread=False, timeout=timeout, cached_statements=MAX_PREPARED_STATEMENTS
    )
    deadline = time.monotonic() + timeout
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            break
        except sqlite3.OperationalError:
            # Several processes create the file at once, and SQLite does not wait here by itself.
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def _migrate(connection: sqlite3.Connection, path: Path, *, locked: bool) -> None:
    """Bring the file to the current layout; an older log must not be in use by the version that wrote it."""
    with _transaction(connection), ExitStack() as resources:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version == len(MIGRATIONS):
            return
        if version > len(MIGRATIONS):
            raise StoreUnavailable(f"{path} was written by a newer rankloop (layout {version}); update to open it.")
        if version and not locked:
            resources.enter_context(ProcessLock(path))
        for script in MIGRATIONS[version:]:
            for statement in script.split(";"):
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Commit what the block did, or roll it back."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def _explained(what: str, path: Path) -> Iterator[None]:
    """Turn an error of SQLite into one sentence."""
    try:
        yield
    except sqlite3.Error as error:
        raise StoreUnavailable(f"the log {path.name} cannot be {what} now ({error}).") from None
