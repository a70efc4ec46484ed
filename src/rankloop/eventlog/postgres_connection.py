"""Connections to a PostgreSQL log: the driver, the address, and the one connection that writes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING

from rankloop.errors import InvalidInput, MissingExtra, Words
from rankloop.eventlog.store import ClaimLost, StoreUnavailable
from rankloop.eventlog.watchdog import Watchdog

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.rows import TupleRow

APPEND_LOCK = 0x72616E6B6C6F6F70
"""Advisory lock that an append or a migration holds until its transaction ends, so that log positions follow the order
of the commits."""
SERVING_LOCK = APPEND_LOCK + 1
"""Advisory lock that the serving process holds for as long as it is connected."""
BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"  # each statement sees everything committed before the lock was granted


class WriteConnection:
    """The connection that writes; it is opened again after it was lost. Callers serialize its use.

    Args:
        pg: the module `psycopg`.
        info: connection string for libpq.
        name: name of the log in error messages.
        watchdog: disconnects statements that hang.
        timeout_seconds: how long to wait for a lock.
        exclusive: refuse a log that another process serves.
    """

    def __init__(
        self, pg: ModuleType, info: str, name: str, watchdog: Watchdog, *, timeout_seconds: float, exclusive: bool
    ) -> None:
        self._pg, self._info, self._name, self._watchdog = pg, info, name, watchdog
        self.timeout_seconds, self._exclusive = timeout_seconds, exclusive
        self._connection: Connection[TupleRow] | None = None
        self._closed = self._has_claimed = False
        self._epoch: int | None = None  # number of this process's last claim, of all that were ever made
        self.was_served_by_another = False  # since its first claim

    def get(self) -> Connection[TupleRow]:
        """Return the connection, a new one if the last one was lost."""
        if self._closed:
            raise StoreUnavailable("the log is closed.")
        if self._connection is None or self._connection.closed:
            self._connection = self._pg.connect(self._info, autocommit=True)
            with self.dropped_on_error():
                self._configure(self._connection)
                if self._exclusive:
                    self._claim(self._connection)
        return self._connection

    @contextmanager
    def locked(self, *, watched: bool = True) -> Iterator[Connection[TupleRow]]:
        """Run a transaction that excludes every append, including one of a connection that was lost."""
        connection = self.get()
        with self.dropped_on_error(watched=watched):
            connection.execute(BEGIN)
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (APPEND_LOCK,))
            yield connection
            connection.execute("COMMIT")

    @contextmanager
    def dropped_on_error(self, *, watched: bool = True) -> Iterator[None]:
        """Close the connection if the block fails, so that no transaction stays open."""
        connection = self._connection
        try:
            with self._watchdog.over(connection) if watched and connection is not None else contextlib.nullcontext():
                yield
        except BaseException:
            if self._connection is not None:
                with contextlib.suppress(self._pg.Error):
                    self._connection.close()
                self._connection = None
            raise

    def close(self) -> None:
        """Close the connection; `get` refuses from now on."""
        self._closed = True
        if self._connection is not None:
            self._release(self._connection)
            self._connection.close()

    def _configure(self, connection: Connection[TupleRow]) -> None:
        """Flush commits to disk whatever the server's default is; find keys by their index."""
        connection.execute(
            "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
        )
        for name, value in (("lock_timeout", f"{round(1000 * self.timeout_seconds)}"), ("enable_seqscan", "off")):
            connection.execute("SELECT set_config(%s, %s, false)", (name, value))

    def claim_for_migration(self, connection: Connection[TupleRow]) -> None:
        """Refuse to migrate a log that another process serves, until the end of the transaction."""
        query = "SELECT pg_try_advisory_xact_lock(%s)"  # succeeds as well if this session has claimed the log
        (claimed,) = connection.execute(query, (SERVING_LOCK,)).fetchone() or (False,)
        if not claimed:
            raise StoreUnavailable(
                f"the log {self._name} is being served by an older version; stop that process first."
            )

    def _claim(self, connection: Connection[TupleRow]) -> None:
        """Hold the log for as long as the connection lasts."""
        (claimed,) = connection.execute("SELECT pg_try_advisory_lock(%s)", (SERVING_LOCK,)).fetchone() or (False,)
        if not claimed:
            error = ClaimLost if self._has_claimed else StoreUnavailable
            raise error(f"the log {self._name} is being served by another process.")
        self._has_claimed = True
        if self._epoch is not None:
            self._count_claim(connection)

    def count_first_claim(self) -> None:
        """Count the claim of a store that was just opened, now that its tables exist."""
        if self._exclusive:
            self._count_claim(self.get())

    def _count_claim(self, connection: Connection[TupleRow]) -> None:
        """Count a claim; if it does not follow this process's last one, another process has served the log."""
        (epoch,) = connection.execute("UPDATE claim SET epoch = epoch + 1 RETURNING epoch").fetchone() or (0,)
        self.was_served_by_another |= self._epoch is not None and epoch != self._epoch + 1
        self._epoch = epoch

    def _release(self, connection: Connection[TupleRow]) -> None:
        """Let the next process serve at once: the server frees a lock only some time after the connection ends."""
        if self._exclusive and not connection.closed:
            with contextlib.suppress(self._pg.Error), self._watchdog.over(connection):
                connection.execute("SELECT pg_advisory_unlock(%s)", (SERVING_LOCK,))


def connection_info(pg: ModuleType, dsn: str, timeout_seconds: float) -> tuple[str, str]:
    """Return a connection string with timeouts, and the log's name for messages: database and host, no password."""
    try:
        options = pg.conninfo.conninfo_to_dict(dsn)
    except pg.Error:
        raise _not_understood() from None
    if not all(port.isdigit() for port in str(options.get("port") or "0").split(",") if port):
        raise _not_understood()  # it may be the start of a password with a slash, which libpq's message would repeat
    # An unreachable server is noticed within seconds, not within the hours of TCP's defaults.
    defaults = {"connect_timeout": max(2, round(timeout_seconds)), "keepalives_idle": 5, "tcp_user_timeout": 10_000}
    name = f"{options.get('dbname', 'postgres')} on {options.get('host', 'this machine')}"
    return pg.conninfo.make_conninfo(**(defaults | options)), name


def execute(
    connection: Connection[TupleRow], statement: str, values: tuple[str | int | float | bytes, ...]
) -> list[TupleRow]:
    """Run a statement with `?` for each parameter; return the rows, if it has a result."""
    cursor = connection.execute(statement.replace("?", "%s").encode(), values)
    return [] if cursor.description is None else cursor.fetchall()


def execute_all(
    connection: Connection[TupleRow], statement: str, rows: Iterable[tuple[str | int | float | bytes, ...]]
) -> None:
    """Run a statement with `?` for each parameter once for each row, without waiting for each of them."""
    with connection.cursor() as cursor:
        cursor.executemany(statement.replace("?", "%s").encode(), rows)


def _not_understood() -> InvalidInput:
    accepted = "an address that libpq understands, with special characters of a password encoded (%2F for /)"
    return InvalidInput("log", Words("a text with postgresql://"), accepted)


def storable(value: str | int | list[str]) -> bool:
    """Return whether the database can hold a text: no NUL, no unpaired surrogate."""
    text = str(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def first_line(error: Exception) -> str:
    """Return the first line of an error of the server."""
    return str(error).strip().split("\n")[0].rstrip(".:") or type(error).__name__


def psycopg_modules() -> tuple[ModuleType, ModuleType]:
    """Return the driver and its pool; refuse with the name of the extra to install."""
    try:
        import psycopg
        import psycopg_pool
    except ImportError:  # also raised if psycopg finds no libpq
        raise MissingExtra("a log in PostgreSQL", "serve") from None
    return psycopg, psycopg_pool
