"""The log of a PostgreSQL database as a SQLite file, every entry at its position."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rankloop.errors import InvalidInput
from rankloop.eventlog.postgres import MIGRATIONS, PAGE_ENTRIES, address, psycopg_modules, reason
from rankloop.eventlog.sqlite import SqliteStore
from rankloop.eventlog.store import StoreUnavailable
from rankloop.eventlog.watchdog import Watchdog

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.rows import TupleRow

PATIENCE_SECONDS = 60.0
"""How long the server may take for one page."""
BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
TABLES = "SELECT to_regclass('layout') IS NOT NULL AND to_regclass('log') IS NOT NULL"
COLUMNS = "position, ranker, kind, key, subject, time, body"
ENTRIES = f"SELECT {COLUMNS} FROM log WHERE position > %s ORDER BY position LIMIT %s"  # noqa: S608, made of literals
KEEP = f"INSERT INTO log ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
KEEP_SNAPSHOT = "INSERT INTO snapshot (ranker, position, body) VALUES (?, ?, ?)"


@contextmanager
def open_database(dsn: str) -> Iterator[Callable[[Path], None]]:
    """Read the log of a database in one transaction that changes nothing; gives what copies it into an empty file.

    Positions are in the order of the commits, so that what one transaction sees has no gaps.
    """
    pg, _ = psycopg_modules()
    info, place = address(pg, dsn, patience=5.0)
    watch = Watchdog(PATIENCE_SECONDS)
    try:
        with closing(pg.connect(info, autocommit=True)) as connection:
            with watch.over(connection):
                connection.execute(BEGIN)
                _check_layout(connection, place)
            yield lambda part: _copy(connection, watch, part)
    except pg.Error as error:
        raise StoreUnavailable(f"the log {place} cannot be read now ({reason(error)}).") from None
    finally:
        watch.close()


def _check_layout(connection: Connection[TupleRow], place: str) -> None:
    """Raise where this is no log, or one of a newer version."""
    (there,) = connection.execute(TABLES).fetchone() or (False,)
    if not there:
        raise InvalidInput("log", place, "a database with a log that rankloop wrote")
    (version,) = connection.execute("SELECT coalesce(max(version), 0) FROM layout").fetchone() or (0,)
    if version > len(MIGRATIONS):
        raise StoreUnavailable(
            f"the log {place} was written by a newer rankloop (layout {version}); update to back it up."
        )


def _copy(connection: Connection[TupleRow], watch: Watchdog, part: Path) -> None:
    SqliteStore(part).close()  # makes the tables
    with closing(sqlite3.connect(part, isolation_level=None)) as target:
        # Of a copy that fails nothing is kept, and one that does not is brought to the disk at its end.
        for setting in ("journal_mode = DELETE", "journal_mode = OFF", "synchronous = OFF"):
            target.execute(f"PRAGMA {setting}").fetchone()
        target.execute("BEGIN")
        for page in _entries(connection, watch):
            target.executemany(KEEP, page)
        for snapshot in _snapshots(connection, watch):
            target.execute(KEEP_SNAPSHOT, snapshot)
        target.execute("COMMIT")


def _entries(connection: Connection[TupleRow], watch: Watchdog) -> Iterator[list[TupleRow]]:
    """All entries in their order, page by page."""
    after = 0
    while True:
        with watch.over(connection):
            page = connection.execute(ENTRIES, (after, PAGE_ENTRIES), binary=True).fetchall()
        if page:
            yield page
        if len(page) < PAGE_ENTRIES:
            return
        after = page[-1][0]


def _snapshots(connection: Connection[TupleRow], watch: Watchdog) -> Iterator[TupleRow]:
    """All snapshots, one at a time: they may be large."""
    for (ranker,) in connection.execute("SELECT ranker FROM snapshot").fetchall():
        query = "SELECT ranker, position, body FROM snapshot WHERE ranker = %s"
        with watch.over(connection):
            yield from connection.execute(query, (ranker,), binary=True).fetchall()
