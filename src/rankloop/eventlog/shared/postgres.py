"""A log in a PostgreSQL database that several processes write: the database puts their entries into one order."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rankloop.eventlog.postgres import COLUMNS, EXISTING, PostgresStore, Row, assign_positions
from rankloop.eventlog.postgres_connection import APPEND_LOCK, BEGIN, SERVING_LOCK, WriteConnection
from rankloop.eventlog.shared.store import MAX_FOLLOWED_ENTRIES, Appended, Check, LogEnd, RankerEntry
from rankloop.eventlog.store import ClaimLost, LogEntry, LogMoved, Snapshot, StoreUnavailable

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.rows import TupleRow

CHANNEL = "rankloop_log"
"""Channel of the notifications that the log has grown."""
MAX_IDLE_IN_APPEND = "2s"
"""Time after which the server takes the lock from a process that stopped while it was appending."""
FROM = f"SELECT ranker, {COLUMNS} FROM log WHERE position >= %s ORDER BY position LIMIT %s"  # noqa: S608, literals
END = "SELECT position, ranker, kind, key, time FROM log ORDER BY position DESC LIMIT 1"


class SharedWriteConnection(WriteConnection):
    """A connection that writes beside those of other processes, and refuses to write beside an exclusive one."""

    process = 0  # number of this process

    def _configure(self, connection: Connection[TupleRow]) -> None:
        super()._configure(connection)
        query = "SELECT set_config('idle_in_transaction_session_timeout', %s, false)"
        connection.execute(query, (MAX_IDLE_IN_APPEND,))

    def _claim(self, connection: Connection[TupleRow]) -> None:
        query = "SELECT pg_try_advisory_lock_shared(%s)"
        (claimed,) = connection.execute(query, (SERVING_LOCK,)).fetchone() or (False,)
        if not claimed:
            error = ClaimLost if self._has_claimed else StoreUnavailable
            raise error(f"the log {self._name} is being served by a process that does not share it.")
        self._has_claimed = True

    def count_first_claim(self) -> None:
        """Take the number of this process, now that the tables exist."""
        query = "UPDATE claim SET epoch = epoch + 1 RETURNING epoch"
        (self.process,) = self.get().execute(query).fetchone() or (0,)

    def _release(self, connection: Connection[TupleRow]) -> None:
        if not connection.closed:
            with contextlib.suppress(self._pg.Error), self._watchdog.over(connection):
                connection.execute("SELECT pg_advisory_unlock_shared(%s)", (SERVING_LOCK,))


class SharedPostgresStore(PostgresStore):
    """A log that other processes write too.

    Args:
        dsn: address of the database, as libpq reads it.
        timeout_seconds: as that of `PostgresStore`.
    """

    connection_kind = SharedWriteConnection
    _writer: SharedWriteConnection

    def __init__(self, dsn: str, *, timeout_seconds: float = 5.0) -> None:
        super().__init__(dsn, timeout_seconds=timeout_seconds, exclusive=True)
        self.dsn = dsn

    @property
    def process(self) -> int:
        """The number of this process, from 1."""
        return self._writer.process

    def end(self) -> LogEnd:
        """Return the end of the log."""
        with self._reader("read") as connection:
            row = connection.execute(END, binary=True).fetchone()
        return LogEnd() if row is None else LogEnd(*row)

    def found_after(self, known: LogEnd) -> Sequence[RankerEntry]:
        """Return the next entries after a known end."""
        with self._reader("read") as connection:
            rows = connection.execute(FROM, (known.position, MAX_FOLLOWED_ENTRIES + 1), binary=True).fetchall()
        return self._after(known, rows)

    def append_after(
        self, known: LogEnd, batch: Sequence[tuple[str, LogEntry]], check: Check | None = None
    ) -> Appended:
        """Store entries at the end of the log, after reading what was written meanwhile, under the log's lock."""
        with self._writing, self._explained("written"):
            try:
                connection, found, existing = self._begin_after(known, batch)
            except (self._pg.OperationalError, self._pg.InterfaceError):
                connection, found, existing = self._begin_after(known, batch)  # it may have died while it was idle
            with self._writer.dropped_on_error():
                behind = len(found) >= MAX_FOLLOWED_ENTRIES
                refusal = None if behind or check is None else check(found)
                last = found[-1].entry.position if found else known.position
                positions, rows = assign_positions(batch, last, existing)
                if behind or refusal is not None or not rows:
                    connection.execute("ROLLBACK")
                else:
                    self._copy(connection, rows)
            if behind or refusal is not None:
                return Appended(found, None, refusal)
            if rows:
                self._commit(connection, rows)
            return Appended(found, positions)

    def save_snapshot(self, ranker: str, snapshot: Snapshot) -> None:
        """Replace the snapshot of a ranker, unless another process has stored a newer one."""
        with self._reader("written") as connection:
            connection.execute(
                "INSERT INTO snapshot (ranker, position, body) VALUES (%b, %b, %b) ON CONFLICT (ranker)"
                " DO UPDATE SET position = excluded.position, body = excluded.body"
                " WHERE snapshot.position <= excluded.position",
                (ranker, snapshot.position, snapshot.body),
            )

    def _begin_after(
        self, known: LogEnd, batch: Sequence[tuple[str, LogEntry]]
    ) -> tuple[Connection[TupleRow], Sequence[RankerEntry], set[int]]:
        """Lock the log; return what it has after the known end, and which entries of the batch it already has."""
        keyed = [(n, ranker, entry.kind, entry.key) for n, (ranker, entry) in enumerate(batch) if entry.key]
        columns = [[one[c] for one in keyed] for c in (1, 2, 3)]
        connection = self._writer.get()
        with self._writer.dropped_on_error():
            with connection.pipeline():
                connection.execute(BEGIN)
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (APPEND_LOCK,))
                rows = connection.execute(FROM, (known.position, MAX_FOLLOWED_ENTRIES + 1), binary=True)
                existing = connection.execute(EXISTING, columns)
                if batch:
                    connection.execute("SELECT pg_notify(%s, %s)", (CHANNEL, str(self.process)))
            found = self._after(known, rows.fetchall())
            return connection, found, {keyed[n - 1][0] for (n,) in existing.fetchall()}

    def _after(self, known: LogEnd, rows: Sequence[TupleRow]) -> Sequence[RankerEntry]:
        """Return the entries after the known end, which must be the first of the rows."""
        found = [RankerEntry(ranker, LogEntry(*entry)) for ranker, *entry in rows]
        if known.position:
            if not found or LogEnd.of(*found[0]) != known:
                raise LogMoved.of(self.name, known.position, found[-1].entry.position if found else 0)
            del found[0]
        return found[:MAX_FOLLOWED_ENTRIES]

    def _commit(self, connection: Connection[TupleRow], rows: list[Row]) -> None:
        """Commit; nothing is ever taken back, since another process may have applied it."""
        try:
            super()._commit(connection, rows)
        finally:
            self._unconfirmed = None
