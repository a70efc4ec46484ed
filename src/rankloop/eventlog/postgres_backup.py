"""Copy the log of a PostgreSQL database into a SQLite file, every entry at its position."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rankloop.errors import InvalidInput
from rankloop.eventlog.format_history import RENAMED_KINDS
from rankloop.eventlog.postgres import MIGRATIONS, PAGE_ENTRIES
from rankloop.eventlog.postgres_connection import connection_info, first_line, psycopg_modules
from rankloop.eventlog.sqlite import SqliteStore
from rankloop.eventlog.store import StoreUnavailable
from rankloop.eventlog.watchdog import Watchdog

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.rows import TupleRow

CONNECT_TIMEOUT_SECONDS = 5.0
PAGE_TIMEOUT_SECONDS = 60.0
"""How long the server may take for one page."""
BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
TABLES = "SELECT to_regclass('layout') IS NOT NULL AND to_regclass('log') IS NOT NULL"
COLUMNS = "position, ranker, kind, key, subject, time, body"
ENTRIES = f"SELECT {COLUMNS} FROM log WHERE position > %s ORDER BY position LIMIT %s"  # noqa: S608, made of literals
INSERT_ENTRY = f"INSERT INTO log ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
INSERT_SNAPSHOT = "INSERT INTO snapshot (ranker, position, body) VALUES (?, ?, ?)"


@contextmanager
def open_database(dsn: str) -> Iterator[Callable[[Path], None]]:
    """Open a read-only transaction on the log of a database; give a function that copies it into an empty file.

    Positions follow the order of the commits, so that the entries visible to one transaction have no gaps.
    """
    pg, _ = psycopg_modules()
    info, name = connection_info(pg, dsn, CONNECT_TIMEOUT_SECONDS)
    watchdog = Watchdog(PAGE_TIMEOUT_SECONDS)
    try:
        with closing(pg.connect(info, autocommit=True)) as connection:
            with watchdog.over(connection):
                connection.execute(BEGIN)
                _check_layout(connection, name)
            yield lambda part: _copy(connection, watchdog, part)
    except pg.Error as error:
        raise StoreUnavailable(f"the log {name} cannot be read now ({first_line(error)}).") from None
    finally:
        watchdog.close()


def _check_layout(connection: Connection[TupleRow], name: str) -> None:
    """Refuse a database without a log, and a log of a newer version."""
    (has_log,) = connection.execute(TABLES).fetchone() or (False,)
    if not has_log:
        raise InvalidInput("log", name, "a database with a log that rankloop wrote")
    (version,) = connection.execute("SELECT coalesce(max(version), 0) FROM layout").fetchone() or (0,)
    if version > len(MIGRATIONS):
        raise StoreUnavailable(
            f"the log {name} was written by a newer rankloop (layout {version}); update to back it up."
        )


def _copy(connection: Connection[TupleRow], watchdog: Watchdog, part: Path) -> None:
    SqliteStore(part).close()  # creates the tables
    with closing(sqlite3.connect(part, isolation_level=None)) as target:
        # A copy that fails is deleted, and a complete one is flushed once at its end: no journal is needed.
        for setting in ("journal_mode = DELETE", "journal_mode = OFF", "synchronous = OFF"):
            target.execute(f"PRAGMA {setting}").fetchone()
        target.execute("BEGIN")
        for page in _entries(connection, watchdog):
            target.executemany(INSERT_ENTRY, [_current_kind(row) for row in page])
        for snapshot in _snapshots(connection, watchdog):
            target.execute(INSERT_SNAPSHOT, snapshot)
        target.execute("COMMIT")


def _current_kind(row: TupleRow) -> TupleRow:
    """Return an entry with its current kind; the database may have an older layout than the copy."""
    position, ranker, kind, *rest = row
    return (position, ranker, RENAMED_KINDS.get(kind, kind) if ranker else kind, *rest)


def _entries(connection: Connection[TupleRow], watchdog: Watchdog) -> Iterator[list[TupleRow]]:
    """Yield all entries in order, page by page."""
    after = 0
    while True:
        with watchdog.over(connection):
            page = connection.execute(ENTRIES, (after, PAGE_ENTRIES), binary=True).fetchall()
        if page:
            yield page
        if len(page) < PAGE_ENTRIES:
            return
        after = page[-1][0]


def _snapshots(connection: Connection[TupleRow], watchdog: Watchdog) -> Iterator[TupleRow]:
    """Yield all snapshots, one at a time since they may be large."""
    for (ranker,) in connection.execute("SELECT ranker FROM snapshot").fetchall():
        query = "SELECT ranker, position, body FROM snapshot WHERE ranker = %s"
        with watchdog.over(connection):
            yield from connection.execute(query, (ranker,), binary=True).fetchall()
