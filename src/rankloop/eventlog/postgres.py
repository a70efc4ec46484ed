"""The log in a PostgreSQL database: one connection writes, a pool reads, and an unanswered commit is looked up."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from rankloop.eventlog.erasure.rewriting import SqlRewriting
from rankloop.eventlog.format_history import RENAME_KINDS
from rankloop.eventlog.postgres_connection import (
    APPEND_LOCK,
    BEGIN,
    WriteConnection,
    connection_info,
    execute,
    execute_all,
    first_line,
    psycopg_modules,
    storable,
)
from rankloop.eventlog.store import ClaimLost, LogEntry, LogMoved, Snapshot, StoreUnavailable
from rankloop.eventlog.watchdog import Watchdog

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.rows import TupleRow
    from psycopg_pool import ConnectionPool

MIGRATIONS = (
    """
    CREATE TABLE log (
      position BIGINT PRIMARY KEY,
      ranker TEXT NOT NULL,
      kind TEXT NOT NULL,
      key TEXT NOT NULL,
      subject TEXT NOT NULL,
      time DOUBLE PRECISION NOT NULL,
      body BYTEA NOT NULL
    );
    CREATE UNIQUE INDEX log_key ON log (ranker, kind, key) WHERE key <> '';
    CREATE INDEX log_subject ON log (ranker, subject) WHERE subject <> '';
    CREATE TABLE snapshot (
      ranker TEXT PRIMARY KEY,
      position BIGINT NOT NULL,
      body BYTEA NOT NULL
    );
    """,
    """
    CREATE INDEX log_ranker ON log (ranker, position);
    """,
    RENAME_KINDS,
    """
    CREATE TABLE claim (epoch BIGINT NOT NULL);
    INSERT INTO claim (epoch) VALUES (0);
    """,
)
"""Schema migrations; a migration and its version number are committed in one transaction."""
COLUMNS = "kind, key, subject, time, body, position"
COUNT = "SELECT count(*) FROM log WHERE ranker = %s AND position > %s"
PAGE_ENTRIES = 2000
"""Entries that a read fetches at once."""
MAX_READ_CONNECTIONS = 4
RETRY_SECONDS = 0.05
"""Pause between two attempts to look up a commit."""
EXISTING = """
    SELECT given.n FROM unnest(%s::text[], %s::text[], %s::text[]) WITH ORDINALITY AS given (ranker, kind, key, n),
    LATERAL (SELECT FROM log WHERE log.ranker = given.ranker AND log.kind = given.kind
             AND log.key = given.key AND log.key <> '' LIMIT 1) AS found
"""  # the limit demands a look for each key; as a join, a plan without statistics would read all keys
RANKERS = """
    WITH RECURSIVE name (ranker) AS (
      SELECT min(ranker) FROM log
      UNION ALL
      SELECT (SELECT min(log.ranker) FROM log WHERE log.ranker > name.ranker) FROM name WHERE name.ranker IS NOT NULL
    )
    SELECT ranker FROM name WHERE ranker IS NOT NULL
"""
"""Steps from each name to the next one in the index, without reading the entries in between."""
LAST = "SELECT position, kind, key, time FROM log ORDER BY position DESC LIMIT 1"
EMPTY_LOG = (0, "", "", 0.0)
OWNED = """
    SELECT bool_and(pg_has_role(relowner, 'USAGE')) FROM pg_class WHERE oid IN ('log'::regclass, 'snapshot'::regclass)
"""
COPY = "COPY log (position, ranker, kind, key, subject, time, body) FROM STDIN (FORMAT BINARY)"
TYPES = ("int8", "text", "text", "text", "text", "float8", "bytea")
End = tuple[int, str, str, float]
"""Position, kind, key and time of the last entry."""
Row = tuple[int, str, str, str, str, float, bytes]  # in the order of the columns of COPY


class PostgresStore:
    """A log in a database that may become unreachable and come back.

    If the connection is lost before the commit, the append is tried once more: none of it was stored. If the commit
    was not answered, the store looks up whether it happened, for up to `timeout_seconds`. If the server does not come
    back in time, the append fails, and its entries are deleted, if they were stored, before the log is used again.

    Args:
        dsn: address of the database, as libpq reads it.
        timeout_seconds: how long to wait for a connection or a lock; a server that does not answer a statement within
            twice this time counts as hanging and is disconnected.
        exclusive: refuse a log that another process opened exclusively: each would learn from half of the feedback.
    """

    problem: str | None = None
    connection_kind: type[WriteConnection] = WriteConnection

    def __init__(self, dsn: str, *, timeout_seconds: float = 5.0, exclusive: bool = False) -> None:
        self._pg, pool = psycopg_modules()
        self._info, self.name = connection_info(self._pg, dsn, timeout_seconds)
        self._writing, self._watchdog = threading.Lock(), Watchdog(2.0 * timeout_seconds)
        self._writer = self.connection_kind(
            self._pg, self._info, self.name, self._watchdog, timeout_seconds=timeout_seconds, exclusive=exclusive
        )
        self._end: End | None = None  # the last entry that this process knows
        self._unconfirmed: list[Row] | None = None  # rows of an append that failed but may have been stored
        try:
            with self._explained("opened"):
                self._migrate()
                self._writer.count_first_claim()
        except BaseException:
            self._watchdog.close()
            raise
        self._pool = pool.ConnectionPool
        self._readers: ConnectionPool[Connection[TupleRow]] = self._pool(
            self._info,
            min_size=1,
            max_size=MAX_READ_CONNECTIONS,
            open=True,
            timeout=timeout_seconds,
            reconnect_timeout=1.0,  # after that, the next reader connects at once
            check=self._check,
            kwargs={"autocommit": True},
        )

    # Writing

    def append(self, batch: Sequence[tuple[str, LogEntry]], after: int | None = None) -> list[int | None]:
        """Copy entries into the log in one transaction, which also checks where the log ends."""
        with self._writing, self._explained("written"):
            self._resolve_unconfirmed(after)
            try:
                connection, positions, rows = self._prepare(batch, after)
            except (self._pg.OperationalError, self._pg.InterfaceError):
                # The connection may have died while it was idle.
                connection, positions, rows = self._prepare(batch, after)
            self._commit(connection, rows)
            if rows:
                position, _, kind, key, _, time, _ = rows[-1]
                self._end = (position, kind, key, time)
            return positions

    def _prepare(
        self, batch: Sequence[tuple[str, LogEntry]], after: int | None
    ) -> tuple[Connection[TupleRow], list[int | None], list[Row]]:
        """Do everything but the commit; a failure closes the connection, which rolls the transaction back."""
        connection = self._writer.get()
        with self._writer.dropped_on_error():
            last, existing = self._begin(connection, batch)
            if after is not None and (last[0] != after or last != (self._end or last)):
                raise LogMoved.of(self.name, after, last[0])
            positions, rows = assign_positions(batch, last[0], existing)
            if rows:
                self._copy(connection, rows)
        return connection, positions, rows

    def _copy(self, connection: Connection[TupleRow], rows: list[Row]) -> None:
        with connection.cursor() as cursor, cursor.copy(COPY) as copy:
            copy.set_types(TYPES)
            for row in rows:
                copy.write_row(row)

    def _begin(self, connection: Connection[TupleRow], batch: Sequence[tuple[str, LogEntry]]) -> tuple[End, set[int]]:
        """Lock the log; return its last entry, and the indices of the entries of the batch that it already has."""
        keyed = [(n, ranker, entry.kind, entry.key) for n, (ranker, entry) in enumerate(batch) if entry.key]
        columns = [[one[c] for one in keyed] for c in (1, 2, 3)]
        with connection.pipeline():  # one round trip for all four
            connection.execute(BEGIN)
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (APPEND_LOCK,))
            last = connection.execute(LAST)
            existing = connection.execute(EXISTING, columns)
        return last.fetchone() or EMPTY_LOG, {keyed[n - 1][0] for (n,) in existing.fetchall()}

    def _commit(self, connection: Connection[TupleRow], rows: list[Row]) -> None:
        """Commit; without an answer, look up whether the commit happened."""
        try:
            with self._writer.dropped_on_error():
                if connection.execute("COMMIT").statusmessage != "COMMIT":
                    raise self._pg.OperationalError("the server rolled the transaction back")
        except BaseException:
            self._unconfirmed = rows or None
            if not rows or not self._was_committed(rows):
                self._unconfirmed = None
                raise
            self._unconfirmed = None

    def _was_committed(self, rows: list[Row]) -> bool:
        """Return whether an unanswered commit happened; raise if the server stays unreachable for too long."""
        deadline = time.monotonic() + self._writer.timeout_seconds
        while True:
            try:
                with self._writer.locked() as connection:
                    return _has_rows(connection, rows)
            except (self._pg.Error, ClaimLost):  # the server may still have to notice that the connection is lost
                if time.monotonic() >= deadline:
                    raise
                time.sleep(RETRY_SECONDS)

    def _resolve_unconfirmed(self, after: int | None = None) -> None:
        """Delete the entries of an append that was reported as failed, before anything else happens.

        If another process has served the log since, it has applied them: they stay, and `LogMoved` is raised.
        """
        if self._unconfirmed is None:
            return
        first, end = self._unconfirmed[0][0], self._unconfirmed[-1][0]
        with self._writer.locked() as connection:
            if _has_rows(connection, self._unconfirmed):
                last, *_ = connection.execute(LAST).fetchone() or EMPTY_LOG
                if last != end or self._writer.was_served_by_another:
                    raise LogMoved.of(self.name, first - 1 if after is None else after, last)
                connection.execute("DELETE FROM log WHERE position BETWEEN %s AND %s", (first, end))
        self._unconfirmed = None

    def save_snapshot(self, ranker: str, snapshot: Snapshot) -> None:
        """Replace the snapshot of a ranker."""
        with self._reader("written") as connection:
            connection.execute(
                "INSERT INTO snapshot (ranker, position, body) VALUES (%b, %b, %b)"
                " ON CONFLICT (ranker) DO UPDATE SET position = excluded.position, body = excluded.body",
                (ranker, snapshot.position, snapshot.body),
            )

    @contextmanager
    def rewriting(self) -> Iterator[SqlRewriting]:
        """Give the changes of a transaction, which may take long."""
        with self._writing, self._explained("written"):
            self._resolve_unconfirmed()
            with self._writer.locked(watched=False) as connection:
                yield SqlRewriting(partial(execute, connection), partial(execute_all, connection))

    def purge(self) -> None:
        """Write both tables into new files, with new statistics.

        A plain VACUUM would leave the bytes of old rows in the free space, and statistics contain values of rows.
        """
        with self._writing, self._explained("written"):
            connection = self._writer.get()
            with self._writer.dropped_on_error(watched=False):
                (owned,) = connection.execute(OWNED).fetchone() or (False,)
                if not owned:  # the server would only warn
                    raise StoreUnavailable(
                        f"the log {self.name} still has erased content, since only the owner of its tables can remove "
                        "it; let the owner run the command again."
                    )
                connection.execute("VACUUM (FULL, ANALYZE) log")
                connection.execute("VACUUM (FULL, ANALYZE) snapshot")

    # Reading

    def last_position(self) -> int:
        """Return the position of the last entry, and demand from now on that a conditional append finds this entry.

        The position is not enough: entries of an append that failed are deleted, and theirs are used again.
        """
        with self._reader("read") as connection:
            self._end = connection.execute(LAST).fetchone() or EMPTY_LOG
        return self._end[0]

    def read(self, ranker: str, after: int = 0) -> Iterator[LogEntry]:
        """Yield entries page by page: little memory on both sides, and no transaction stays open."""
        while True:
            rows = self._select("ranker = %s AND position > %s ORDER BY position LIMIT %s", ranker, after, PAGE_ENTRIES)
            yield from rows
            if len(rows) < PAGE_ENTRIES:
                return
            after = rows[-1].position

    def count(self, ranker: str, after: int = 0) -> int:
        """Return the number of entries of a ranker after a position."""
        with self._reader("read") as connection:
            row = connection.execute(COUNT, (ranker, after)).fetchone()
        return 0 if row is None else int(row[0])

    def find(self, ranker: str, kind: str, key: str) -> LogEntry | None:
        """Return the entry of a key."""
        rows = self._select("ranker = %s AND kind = %s AND key = %s AND key <> ''", ranker, kind, key)
        return rows[0] if rows else None

    def find_all(self, ranker: str, kind: str, keys: Sequence[str]) -> list[LogEntry]:
        """Return the entries of many keys in one statement."""
        wanted = [key for key in keys if storable(key)]
        return self._select("ranker = %s AND kind = %s AND key = ANY(%s) AND key <> ''", ranker, kind, wanted)

    def about(self, ranker: str, subject: str) -> list[LogEntry]:
        """Return the entries of a decision."""
        return self._select("ranker = %s AND subject = %s AND subject <> '' ORDER BY position", ranker, subject)

    def rankers(self) -> list[str]:
        """Return the names of all rankers that have entries, sorted as Python sorts: databases may differ."""
        with self._reader("read") as connection:
            return sorted(ranker for (ranker,) in connection.execute(RANKERS, binary=True))

    def of_kind(self, ranker: str, kind: str) -> list[LogEntry]:
        """Return the entries of a kind that have a key, found by the index of keys and then sorted."""
        rows = self._select("ranker = %s AND kind = %s AND key <> ''", ranker, kind)
        return sorted(rows, key=lambda entry: entry.position)

    def load_snapshot(self, ranker: str) -> Snapshot | None:
        """Return the newest snapshot."""
        with self._reader("read") as connection:
            query = "SELECT position, body FROM snapshot WHERE ranker = %s"
            row = connection.execute(query, (ranker,), binary=True).fetchone()
        return None if row is None else Snapshot(*row)

    def _select(self, where: str, *values: str | int | list[str]) -> list[LogEntry]:
        if not all(storable(value) for value in values):
            return []
        with self._reader("read") as connection:
            # The conditions are literals of this module; values are bound.
            query: Any = f"SELECT {COLUMNS} FROM log WHERE {where}"  # noqa: S608
            return [LogEntry(*row) for row in connection.execute(query, values, binary=True)]

    # Connections

    @contextmanager
    def _reader(self, what: str) -> Iterator[Connection[TupleRow]]:
        """Borrow a connection of the pool, after the entries of a failed append are deleted."""
        with self._explained(what):
            if self._unconfirmed is not None:
                with self._writing:
                    self._resolve_unconfirmed()
            with self._readers.connection() as connection, self._watchdog.over(connection):
                yield connection

    def _check(self, connection: Connection[TupleRow]) -> None:
        """Raise if a connection of the pool is lost or hangs, so that the pool replaces it."""
        with self._watchdog.over(connection):
            self._pool.check_connection(connection)

    @contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        """Turn an error of the server into one sentence."""
        try:
            yield
        except self._pg.Error as error:
            raise StoreUnavailable(f"the log {self.name} cannot be {what} now ({first_line(error)}).") from None

    def _migrate(self) -> None:
        with self._writer.locked(watched=False) as connection:  # to index a long log takes time
            connection.execute("CREATE TABLE IF NOT EXISTS layout (version INTEGER NOT NULL)")
            (version,) = connection.execute("SELECT coalesce(max(version), 0) FROM layout").fetchone() or (0,)
            if version > len(MIGRATIONS):
                raise StoreUnavailable(
                    f"the log {self.name} was written by a newer rankloop (layout {version}); update to open it."
                )
            if 0 < version < len(MIGRATIONS):
                self._writer.claim_for_migration(connection)
            for number, script in enumerate(MIGRATIONS[version:], start=version + 1):
                connection.execute(script)
                connection.execute("INSERT INTO layout (version) VALUES (%s)", (number,))

    def close(self) -> None:
        """Close all connections."""
        with self._writing:
            self._writer.close()
        self._readers.close()
        self._watchdog.close()


def assign_positions(
    batch: Sequence[tuple[str, LogEntry]], last: int, existing: set[int]
) -> tuple[list[int | None], list[Row]]:
    """Return the position of each entry after the last one, None for duplicates; and the rows to insert."""
    positions: list[int | None] = []
    rows: list[Row] = []
    seen: set[tuple[str, str, str]] = set()
    for n, (ranker, entry) in enumerate(batch):
        key = (ranker, entry.kind, entry.key)
        if entry.key and (n in existing or key in seen):
            positions.append(None)
            continue
        seen.add(key)
        position = last + len(rows) + 1
        positions.append(position)
        rows.append((position, ranker, entry.kind, entry.key, entry.subject, entry.time, entry.body))
    return positions, rows


def _has_rows(connection: Connection[TupleRow], rows: list[Row]) -> bool:
    """Return whether the log has exactly these rows at their positions."""
    query = (
        "SELECT position, ranker, kind, key, subject, time, body FROM log"
        " WHERE position BETWEEN %s AND %s ORDER BY position"
    )
    return connection.execute(query, (rows[0][0], rows[-1][0]), binary=True).fetchall() == rows
