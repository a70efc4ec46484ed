"""Change what a log already contains, in one transaction: an erasure, pruning and a restoration do so."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from rankloop.eventlog.store import LogEntry, Snapshot, Store

Parameters = tuple[str | int | float | bytes, ...]
Rows = Sequence[tuple[str, ...]]


class Rewriting(Protocol):
    """The changes of one transaction."""

    def replace(self, entry: LogEntry) -> None:
        """Replace key, subject and body of the entry at the position of the given one."""

    def append(self, ranker: str, entry: LogEntry) -> None:
        """Add an entry at the end of the log."""

    def snapshots(self) -> list[str]:
        """Return the names of all snapshots."""

    def delete_snapshot(self, name: str) -> None:
        """Delete a snapshot; the state follows from the log."""

    def put_snapshot(self, name: str, snapshot: Snapshot) -> None:
        """Store a snapshot in place of the one of this name."""


class RewritableStore(Store, Protocol):
    """A store whose entries can be rewritten while no other process uses it."""

    def rewriting(self) -> AbstractContextManager[Rewriting]:
        """Give the changes of a transaction: all of them are made at the end of the block, or none if it fails."""

    def purge(self) -> None:
        """Release the disk space of all that was replaced or deleted, so that no copy of it is left in the log."""


class SqlRewriting:
    """The changes of one transaction of a database.

    Args:
        execute: runs a statement with `?` for each parameter and returns the rows.
        execute_all: runs a statement once for each of many rows of parameters.
    """

    def __init__(
        self,
        execute: Callable[[str, Parameters], Rows],
        execute_all: Callable[[str, Iterable[Parameters]], object],
    ) -> None:
        self._execute, self._execute_all = execute, execute_all

    def replace(self, entry: LogEntry) -> None:
        """Update the entry at this position."""
        values = (entry.key, entry.subject, entry.body, entry.position)
        self._execute("UPDATE log SET key = ?, subject = ?, body = ? WHERE position = ?", values)

    def append(self, ranker: str, entry: LogEntry) -> None:
        """Insert the entry after the last one."""
        self._execute(
            "INSERT INTO log (position, ranker, kind, key, subject, time, body)"
            " SELECT coalesce(max(position), 0) + 1, ?, ?, ?, ?, ?, ? FROM log",
            (ranker, entry.kind, entry.key, entry.subject, entry.time, entry.body),
        )

    def snapshots(self) -> list[str]:
        """Return the names of all snapshots."""
        return [name for (name,) in self._execute("SELECT ranker FROM snapshot ORDER BY ranker", ())]

    def delete_snapshot(self, name: str) -> None:
        """Delete the snapshot."""
        self._execute("DELETE FROM snapshot WHERE ranker = ?", (name,))

    def put_snapshot(self, name: str, snapshot: Snapshot) -> None:
        """Store a snapshot in place of the one of this name."""
        self.delete_snapshot(name)
        self._execute(
            "INSERT INTO snapshot (ranker, position, body) VALUES (?, ?, ?)", (name, snapshot.position, snapshot.body)
        )

    def delete(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Delete the entries from one position to another, both included, for each of the ranges."""
        self._execute_all("DELETE FROM log WHERE position BETWEEN ? AND ?", ranges)

    def clear(self) -> None:
        """Delete all entries and snapshots."""
        self._execute("DELETE FROM log", ())
        self._execute("DELETE FROM snapshot", ())

    def insert(self, entries: Iterable[tuple[str, LogEntry]]) -> None:
        """Insert entries of rankers at the positions that they have."""
        rows = (
            (entry.position, ranker, entry.kind, entry.key, entry.subject, entry.time, entry.body)
            for ranker, entry in entries
        )
        self._execute_all(
            "INSERT INTO log (position, ranker, kind, key, subject, time, body) VALUES (?, ?, ?, ?, ?, ?, ?)", rows
        )


class SqlStore(Store, Protocol):
    """A store in a database, of which entries can be removed, and which can be filled anew."""

    def rewriting(self) -> AbstractContextManager[SqlRewriting]:
        """Give the changes of a transaction: all of them are made at the end of the block, or none if it fails."""

    def purge(self) -> None:
        """Release the disk space of all that was replaced or deleted, so that no copy of it is left in the log."""
