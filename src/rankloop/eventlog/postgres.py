"""The log in a PostgreSQL database: one connection writes, a pool reads, a commit in doubt is looked up."""

from __future__ import annotations

import contextlib
import threading
import time as clocks
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

from rankloop.errors import InvalidInput, MissingExtra
from rankloop.eventlog.format_history import RENAME_KINDS
from rankloop.eventlog.store import LogEntry, Snapshot, StoreUnavailable
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
)
"""Each is applied once, its change and the number of the last one in the same transaction."""
COLUMNS = "kind, key, subject, time, body, position"
PAGE_ENTRIES = 2000
LOCK = 0x72616E6B6C6F6F70
"""Held by whoever appends or migrates, to the end of the transaction: positions are in the order of the commits."""
HELD = LOCK + 1
"""Held by whoever serves the log, for as long as he is connected."""
BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"  # each statement sees what was committed before the lock was given
EXISTING = """
    SELECT given.n FROM unnest(%s::text[], %s::text[], %s::text[]) WITH ORDINALITY AS given (ranker, kind, key, n)
    WHERE EXISTS (SELECT FROM log WHERE log.ranker = given.ranker AND log.kind = given.kind
                  AND log.key = given.key AND log.key <> '')
"""
RANKERS = """
    WITH RECURSIVE name (ranker) AS (
      SELECT min(ranker) FROM log
      UNION ALL
      SELECT (SELECT min(log.ranker) FROM log WHERE log.ranker > name.ranker) FROM name WHERE name.ranker IS NOT NULL
    )
    SELECT ranker FROM name WHERE ranker IS NOT NULL
"""
"""Goes from each name to the next one in the index, and reads none of the entries in between."""
COPY = "COPY log (position, ranker, kind, key, subject, time, body) FROM STDIN (FORMAT BINARY)"
TYPES = ("int8", "text", "text", "text", "text", "float8", "bytea")
Row = tuple[int, str, str, str, str, float, bytes]  # as COPY names the columns


class PostgresStore:
    """A database that may go away and come back.

    An append whose connection is lost before its commit is tried once more: nothing of it was kept. One whose commit
    was not answered is looked up, waiting up to `patience` seconds for the server; if it does not come back in time,
    the append is told as failed, and taken back, should it be there, before the log is used again.

    Args:
        dsn: where the database is, as libpq reads it.
        patience: seconds to wait for a connection or a lock; an answer may take twice as long, then the server is cut
            off as one that hangs.
        exclusive: refuse a log that another process holds like this: each would know half of what was learned.
    """

    def __init__(self, dsn: str, *, patience: float = 5.0, exclusive: bool = False) -> None:
        self._pg, pool = psycopg_modules()
        self._info, self.place = address(self._pg, dsn, patience)
        self._patience, self._closed, self._exclusive = patience, False, exclusive
        self._writing, self._watch = threading.Lock(), Watchdog(2.0 * patience)
        self._writer: Connection[TupleRow] | None = None
        self._doubt: list[Row] | None = None  # told as failed, but perhaps kept
        try:
            with self._told("opened"):
                self._migrate(self._connected())
        except BaseException:
            self._watch.close()
            raise
        self._pool = pool.ConnectionPool
        self._readers: ConnectionPool[Connection[TupleRow]] = self._pool(
            self._info,
            min_size=1,
            max_size=4,
            open=True,
            timeout=patience,
            reconnect_timeout=1.0,  # then whoever asks next tries again at once
            check=self._checked,
            kwargs={"autocommit": True},
        )

    # Writing

    def append(self, batch: Sequence[tuple[str, LogEntry]]) -> list[int | None]:
        """Copy entries into the log in one transaction."""
        with self._writing, self._told("written"):
            self._settle()
            try:
                connection, positions, rows = self._prepare(batch)
            except (self._pg.OperationalError, self._pg.InterfaceError):
                # The connection may have died while nobody used it.
                connection, positions, rows = self._prepare(batch)
            self._commit(connection, rows)
            return positions

    def _prepare(
        self, batch: Sequence[tuple[str, LogEntry]]
    ) -> tuple[Connection[TupleRow], list[int | None], list[Row]]:
        """All but the commit; where it fails, the connection goes, and with it what was done."""
        connection = self._connected()
        with self._or_drop():
            last, existing = self._begin(connection, batch)
            positions, rows = _place(batch, last, existing)
            if rows:
                with connection.cursor() as cursor, cursor.copy(COPY) as copy:
                    copy.set_types(TYPES)
                    for row in rows:
                        copy.write_row(row)
        return connection, positions, rows

    def _begin(self, connection: Connection[TupleRow], batch: Sequence[tuple[str, LogEntry]]) -> tuple[int, set[int]]:
        """Lock the log; its last position, and which entries of the batch it has."""
        keyed = [(n, ranker, entry.kind, entry.key) for n, (ranker, entry) in enumerate(batch) if entry.key]
        columns = [[one[c] for one in keyed] for c in (1, 2, 3)]
        with connection.pipeline():  # one journey for all four
            connection.execute(BEGIN)
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
            last = connection.execute("SELECT coalesce(max(position), 0) FROM log")
            existing = connection.execute(EXISTING, columns)
        (position,) = last.fetchone() or (0,)
        return position, {keyed[n - 1][0] for (n,) in existing.fetchall()}

    def _commit(self, connection: Connection[TupleRow], rows: list[Row]) -> None:
        """Commit; where no answer comes, look whether it happened."""
        try:
            with self._or_drop():
                if connection.execute("COMMIT").statusmessage != "COMMIT":
                    raise self._pg.OperationalError("the server undid the transaction")
        except BaseException:
            self._doubt = rows or None
            if not rows or not self._found(rows):
                self._doubt = None
                raise
            self._doubt = None

    def _found(self, rows: list[Row]) -> bool:
        """Whether a commit that was not answered happened; raises where the server stays away too long."""
        until = clocks.monotonic() + self._patience
        while True:
            try:
                with self._locked() as connection:
                    return _there(connection, rows)
            except self._pg.Error:
                if clocks.monotonic() >= until:
                    raise
                clocks.sleep(0.05)

    def _settle(self) -> None:
        """What was told as failed must not be there: take it back before anything else happens."""
        if self._doubt is not None:
            rows = self._doubt
            with self._locked() as connection:
                if _there(connection, rows):
                    connection.execute("DELETE FROM log WHERE position BETWEEN %s AND %s", (rows[0][0], rows[-1][0]))
            self._doubt = None

    def save_snapshot(self, ranker: str, snapshot: Snapshot) -> None:
        """Replace the ranker's snapshot."""
        with self._reader("written") as connection:
            connection.execute(
                "INSERT INTO snapshot (ranker, position, body) VALUES (%b, %b, %b)"
                " ON CONFLICT (ranker) DO UPDATE SET position = excluded.position, body = excluded.body",
                (ranker, snapshot.position, snapshot.body),
            )

    # Reading

    def read(self, ranker: str, after: int = 0) -> Iterator[LogEntry]:
        """Entries page by page: little memory on both sides, and no transaction that stays open."""
        while True:
            rows = self._select("ranker = %s AND position > %s ORDER BY position LIMIT %s", ranker, after, PAGE_ENTRIES)
            yield from rows
            if len(rows) < PAGE_ENTRIES:
                return
            after = rows[-1].position

    def find(self, ranker: str, kind: str, key: str) -> LogEntry | None:
        """The entry of a key."""
        rows = self._select("ranker = %s AND kind = %s AND key = %s AND key <> ''", ranker, kind, key)
        return rows[0] if rows else None

    def about(self, ranker: str, subject: str) -> list[LogEntry]:
        """Entries of a decision."""
        return self._select("ranker = %s AND subject = %s AND subject <> '' ORDER BY position", ranker, subject)

    def rankers(self) -> list[str]:
        """The names of all rankers that have entries, in Python's order: the database may have another."""
        with self._reader("read") as connection:
            return sorted(ranker for (ranker,) in connection.execute(RANKERS, binary=True))

    def of_kind(self, ranker: str, kind: str) -> list[LogEntry]:
        """Entries of a kind that have a key: by the index of keys, then sorted."""
        rows = self._select("ranker = %s AND kind = %s AND key <> ''", ranker, kind)
        return sorted(rows, key=lambda entry: entry.position)

    def load_snapshot(self, ranker: str) -> Snapshot | None:
        """The newest snapshot."""
        with self._reader("read") as connection:
            query = "SELECT position, body FROM snapshot WHERE ranker = %s"
            row = connection.execute(query, (ranker,), binary=True).fetchone()
        return None if row is None else Snapshot(*row)

    def _select(self, where: str, *values: str | int) -> list[LogEntry]:
        if not all(_storable(value) for value in values):
            return []
        with self._reader("read") as connection:
            # The conditions are literals of this module; values are bound.
            query: Any = f"SELECT {COLUMNS} FROM log WHERE {where}"  # noqa: S608
            return [LogEntry(*row) for row in connection.execute(query, values, binary=True)]

    # Connections

    @contextmanager
    def _reader(self, what: str) -> Iterator[Connection[TupleRow]]:
        with self._told(what):
            if self._doubt is not None:
                with self._writing:
                    self._settle()
            with self._readers.connection() as connection, self._watch.over(connection):
                yield connection

    def _checked(self, connection: Connection[TupleRow]) -> None:
        """A connection of the pool that was lost, or hangs, is not given to anybody."""
        with self._watch.over(connection):
            self._pool.check_connection(connection)

    def _connected(self) -> Connection[TupleRow]:
        """The connection that writes, a new one where the last was lost."""
        if self._closed:
            raise StoreUnavailable("the log is closed.")
        if self._writer is None or self._writer.closed:
            self._writer = self._pg.connect(self._info, autocommit=True)
            with self._or_drop():
                self._prepare_session(self._writer)
                if self._exclusive:
                    self._claim(self._writer)
        return self._writer

    def _claim(self, connection: Connection[TupleRow]) -> None:
        """Hold the log for as long as the connection lasts."""
        (held,) = connection.execute("SELECT pg_try_advisory_lock(%s)", (HELD,)).fetchone() or (False,)
        if not held:
            raise StoreUnavailable(f"the log {self.place} is being served by another process.")

    def _release(self, connection: Connection[TupleRow]) -> None:
        """Let the next process serve at once: the server frees a claim only some time after its connection is gone."""
        if self._exclusive and not connection.closed:
            with contextlib.suppress(self._pg.Error), self._watch.over(connection):
                connection.execute("SELECT pg_advisory_unlock(%s)", (HELD,))

    def _prepare_session(self, connection: Connection[TupleRow]) -> None:
        """A commit that is told is on the disk, whatever the server's default; keys are looked up by their index."""
        connection.execute(
            "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
        )
        for name, value in (("lock_timeout", f"{round(1000 * self._patience)}"), ("enable_seqscan", "off")):
            connection.execute("SELECT set_config(%s, %s, false)", (name, value))

    @contextmanager
    def _locked(self, *, watched: bool = True) -> Iterator[Connection[TupleRow]]:
        """A transaction that nobody appends in the meantime of: also none whose connection we lost."""
        connection = self._connected()
        with self._or_drop(watched=watched):
            connection.execute(BEGIN)
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
            yield connection
            connection.execute("COMMIT")

    @contextmanager
    def _or_drop(self, *, watched: bool = True) -> Iterator[None]:
        """Whatever goes wrong, a transaction that was begun does not stay open."""
        try:
            with self._watch.over(self._writer) if watched and self._writer is not None else contextlib.nullcontext():
                yield
        except BaseException:
            if self._writer is not None:
                with contextlib.suppress(self._pg.Error):
                    self._writer.close()
                self._writer = None
            raise

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        """Say in one sentence what the server could not do."""
        try:
            yield
        except self._pg.Error as error:
            raise StoreUnavailable(f"the log {self.place} cannot be {what} now ({reason(error)}).") from None

    def _migrate(self, connection: Connection[TupleRow]) -> None:
        with self._locked(watched=False):  # an index of a long log takes its time
            connection.execute("CREATE TABLE IF NOT EXISTS layout (version INTEGER NOT NULL)")
            (version,) = connection.execute("SELECT coalesce(max(version), 0) FROM layout").fetchone() or (0,)
            if version > len(MIGRATIONS):
                raise StoreUnavailable(
                    f"the log {self.place} was written by a newer rankloop (layout {version}); update to open it."
                )
            for number, script in enumerate(MIGRATIONS[version:], start=version + 1):
                connection.execute(script)
                connection.execute("INSERT INTO layout (version) VALUES (%s)", (number,))

    def close(self) -> None:
        """Close all connections."""
        with self._writing:
            self._closed = True
            if self._writer is not None:
                self._release(self._writer)
                self._writer.close()
        self._readers.close()
        self._watch.close()


def _place(batch: Sequence[tuple[str, LogEntry]], last: int, existing: set[int]) -> tuple[list[int | None], list[Row]]:
    """The position of each entry after the last one, None for what was there before; and the rows to be kept."""
    positions: list[int | None] = []
    rows: list[Row] = []
    seen: set[tuple[str, str, str]] = set()
    for n, (ranker, entry) in enumerate(batch):
        name = (ranker, entry.kind, entry.key)
        if entry.key and (n in existing or name in seen):
            positions.append(None)
            continue
        seen.add(name)
        position = last + len(rows) + 1
        positions.append(position)
        rows.append((position, ranker, entry.kind, entry.key, entry.subject, entry.time, entry.body))
    return positions, rows


def _there(connection: Connection[TupleRow], rows: list[Row]) -> bool:
    """Whether exactly these rows stand at their positions."""
    query = (
        "SELECT position, ranker, kind, key, subject, time, body FROM log"
        " WHERE position BETWEEN %s AND %s ORDER BY position"
    )
    return connection.execute(query, (rows[0][0], rows[-1][0]), binary=True).fetchall() == rows


def _storable(value: str | int) -> bool:
    """Whether a text can be in the database at all: no NUL, no half of a pair."""
    text = str(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def address(pg: ModuleType, dsn: str, patience: float) -> tuple[str, str]:
    """How to connect, and what the log is called in a sentence: its database and host, and no password."""
    try:
        given = pg.conninfo.conninfo_to_dict(dsn)
    except pg.Error:
        raise InvalidInput("log", "a text with postgresql://", "an address that libpq understands") from None
    # A server that is cut off is noticed in seconds, not in the hours of TCP's defaults.
    defaults = {"connect_timeout": max(2, round(patience)), "keepalives_idle": 5, "tcp_user_timeout": 10_000}
    place = f"{given.get('dbname', 'postgres')} on {given.get('host', 'this machine')}"
    return pg.conninfo.make_conninfo(**(defaults | given)), place


def reason(error: Exception) -> str:
    """The first line of what a server says went wrong."""
    return str(error).strip().split("\n")[0].rstrip(".:") or type(error).__name__


def psycopg_modules() -> tuple[ModuleType, ModuleType]:
    """The driver and its pool, or the sentence that says what to install."""
    try:
        import psycopg
        import psycopg_pool
    except ImportError:  # also where psycopg finds no libpq
        raise MissingExtra("a log in PostgreSQL", "serve") from None
    return psycopg, psycopg_pool
