"""The log in one SQLite file: write-ahead log, every commit on the disk before it is told."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from rankloop.eventlog.format_history import RENAME_KINDS
from rankloop.eventlog.store import LogEntry, Snapshot, StoreUnavailable
from rankloop.eventlog.wal_checkpoints import MOVE, WalCheckpoints

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
"""Each is applied once, its change and the number of the last one in the same transaction."""
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
"""Goes from each name to the next one in the index, and reads none of the entries in between."""
OF_KIND = "ranker = ? AND kind = ? AND key <> '' ORDER BY +position"  # the sign: by the index of keys, then sorted
NEWEST = "SELECT position, ranker, kind, key FROM log WHERE position <= ? ORDER BY position DESC LIMIT ?"
PAGE = 2000
PAGE_BYTES, ENDS = 4096, 4
SIZES = 600
"""Statements that are kept prepared: one for each size of a batch."""


class SqliteStore:
    """One file and, while it is open, its write-ahead log; one connection for writing, one for reading."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            self._writer = _connect(self.path)
            _migrate(self._writer, self.path)
            self._reader = _connect(self.path)
        except sqlite3.Error as error:
            raise StoreUnavailable(f"{self.path} cannot be opened as a log ({error}).") from None
        self._writing, self._reading = threading.Lock(), threading.Lock()
        self._writer.execute("PRAGMA wal_autocheckpoint = 0")
        self._checkpoints = WalCheckpoints(lambda: _connect(self.path), self._moved)

    def _moved(self) -> None:
        with self._writing:
            self._writer.execute(MOVE).fetchone()

    def append(self, batch: Sequence[tuple[str, LogEntry]]) -> list[int | None]:
        """Insert entries in one statement, which is one transaction.

        A statement gives up the interpreter's lock once: many of them would each wait for busy callers.
        """
        if not batch:
            return []
        values = [value for ranker, entry in batch for value in (ranker, *entry[:-1])]
        with self._writing, _told("written", self.path):
            done = self._writer.execute(_insert(len(batch)), values)
            # Each page that changes: the ends of the table and of its indexes, and what does not fit there.
            self._checkpoints.wrote(PAGE_BYTES * (ENDS + len(batch)) + sum([len(entry.body) for _, entry in batch]))
            last, new = done.lastrowid or 0, done.rowcount
            if new == len(batch):
                return list(range(last - new + 1, last + 1))
            return _placed(batch, self._writer.execute(NEWEST, (last, new)).fetchall()[::-1] if new else [])

    def read(self, ranker: str, after: int = 0) -> Iterator[LogEntry]:
        """Entries page by page, so that a long log needs little memory."""
        while True:
            rows = self._select("ranker = ? AND position > ? ORDER BY position LIMIT ?", ranker, after, PAGE)
            yield from rows
            if len(rows) < PAGE:
                return
            after = rows[-1].position

    def find(self, ranker: str, kind: str, key: str) -> LogEntry | None:
        """The entry of a key."""
        rows = self._select("ranker = ? AND kind = ? AND key = ? AND key <> ''", ranker, kind, key)
        return rows[0] if rows else None

    def about(self, ranker: str, subject: str) -> list[LogEntry]:
        """Entries of a decision: its list has it as key, the rest as subject."""
        shown = self.find(ranker, "decision", subject)
        where = "ranker = ? AND subject = ? AND subject <> '' AND kind <> 'decision' ORDER BY position"
        return ([] if shown is None else [shown]) + self._select(where, ranker, subject)

    def rankers(self) -> list[str]:
        """The names of all rankers that have entries; SQLite compares texts as Python does."""
        with self._reading, _told("read", self.path):
            return [ranker for (ranker,) in self._reader.execute(RANKERS).fetchall()]

    def of_kind(self, ranker: str, kind: str) -> list[LogEntry]:
        """Entries of a kind that have a key."""
        return self._select(OF_KIND, ranker, kind)

    def _select(self, where: str, *values: str | int) -> list[LogEntry]:
        with self._reading, _told("read", self.path):
            # The conditions are literals of this module; values are bound.
            rows = self._reader.execute(f"SELECT {COLUMNS} FROM log WHERE {where}", values).fetchall()  # noqa: S608
        return [LogEntry(*row) for row in rows]

    def save_snapshot(self, ranker: str, snapshot: Snapshot) -> None:
        """Replace the ranker's snapshot."""
        with self._writing, _told("written", self.path), _transaction(self._writer) as connection:
            connection.execute(
                "INSERT OR REPLACE INTO snapshot (ranker, position, body) VALUES (?, ?, ?)",
                (ranker, snapshot.position, snapshot.body),
            )

    def load_snapshot(self, ranker: str) -> Snapshot | None:
        """The newest snapshot."""
        with self._reading, _told("read", self.path):
            row = self._reader.execute("SELECT position, body FROM snapshot WHERE ranker = ?", (ranker,)).fetchone()
        return None if row is None else Snapshot(*row)

    def close(self) -> None:
        """Close both connections."""
        self._checkpoints.close()
        with self._writing, self._reading:
            self._writer.close()
            self._reader.close()


@lru_cache(SIZES)
def _insert(rows: int) -> str:
    values = ",".join(["(?,?,?,?,?,?)"] * rows)
    return f"INSERT OR IGNORE INTO log ({INSERTED}) VALUES {values}"  # noqa: S608, made of literals of this module


def _placed(batch: Sequence[tuple[str, LogEntry]], new: list[tuple[int, str, str, str]]) -> list[int | None]:
    """The position of each entry, None for those that were there before; `new` are the others in their order."""
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


def _connect(path: Path, patience: float = 5.0) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, isolation_level=None, check_same_thread=False, timeout=patience, cached_statements=SIZES
    )
    until = time.monotonic() + patience
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            break
        except sqlite3.OperationalError:  # several who open a new file at once: SQLite does not wait here by itself
            if time.monotonic() > until:
                raise
            time.sleep(0.01)
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    with _transaction(connection):
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > len(MIGRATIONS):
            raise StoreUnavailable(f"{path} was written by a newer rankloop (layout {version}); update to open it.")
        for script in MIGRATIONS[version:]:
            for statement in script.split(";"):
                connection.execute(statement)
        if version < len(MIGRATIONS):  # a log that is only looked at is not written
            connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Commit what the block did, or undo all of it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def _told(what: str, path: Path) -> Iterator[None]:
    """Say in one sentence what SQLite could not do."""
    try:
        yield
    except sqlite3.Error as error:
        raise StoreUnavailable(f"the log {path.name} cannot be {what} now ({error}).") from None
