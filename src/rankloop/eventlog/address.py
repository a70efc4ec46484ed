"""A log by its address: a file, or a PostgreSQL database."""

from __future__ import annotations

from pathlib import Path

from rankloop.errors import InvalidInput
from rankloop.eventlog.postgres import PostgresStore
from rankloop.eventlog.sqlite import SqliteStore
from rankloop.eventlog.store import Store

SCHEMES = ("postgresql://", "postgres://")


def is_database(place: str | Path) -> bool:
    """Whether this names a database, not a file."""
    return str(place).startswith(SCHEMES)  # a path has no two slashes in a row


def open_existing(place: str) -> Store:
    """A log that is there: looking at one must not create it."""
    if not is_database(place) and not Path(place).is_file():
        raise InvalidInput("log", place, "a log that is there")
    return open_store(place)


def open_store(place: str | Path, *, exclusive: bool = False) -> Store:
    """The log at `postgresql://…`, or in the SQLite file of this path; a database for one process only, if wished."""
    return PostgresStore(str(place), exclusive=exclusive) if is_database(place) else SqliteStore(place)
