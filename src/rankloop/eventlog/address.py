"""Open a log by its address: the path of a SQLite file, or the URL of a PostgreSQL database."""

from __future__ import annotations

from pathlib import Path

from rankloop.errors import InvalidInput
from rankloop.eventlog.postgres import PostgresStore
from rankloop.eventlog.sqlite import SqliteStore

SCHEMES = ("postgresql://", "postgres://")


def is_database(address: str | Path) -> bool:
    """Return whether an address names a database, not a file."""
    return str(address).startswith(SCHEMES)  # pathlib collapses two slashes, so that no path starts like this


def open_existing(address: str) -> SqliteStore | PostgresStore:
    """Open a log that exists; refuse a path without a file, since reading must not create one."""
    if not is_database(address) and not Path(address).is_file():
        raise InvalidInput("log", address, "an existing log")
    return open_store(address)


def open_store(address: str | Path, *, exclusive: bool = False) -> SqliteStore | PostgresStore:
    """Open the log at an address.

    Args:
        address: `postgresql://…`, or the path of a SQLite file.
        exclusive: refuse a log that another process opened exclusively.
    """
    if is_database(address):
        return PostgresStore(str(address), exclusive=exclusive)
    return SqliteStore(address, exclusive=exclusive)
