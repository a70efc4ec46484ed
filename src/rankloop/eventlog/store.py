"""The interface of an event log: entries and snapshots by ranker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from rankloop.errors import Unavailable


class StoreUnavailable(Unavailable):
    """The log cannot be written or read now; a write that failed stored nothing."""


class LogEntry(NamedTuple):
    """One event of a ranker, as it is stored."""

    kind: str
    key: str  # unique among the entries of its kind; empty if the entry has none
    subject: str  # the decision that the event belongs to; empty if there is none
    time: float
    body: bytes
    position: int = 0  # in the log, from 1; 0 before it is stored


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A ranker's state after all entries up to a position."""

    position: int
    body: bytes


class Store(Protocol):
    """Append-only logs of rankers by name, and their snapshots."""

    def append(self, batch: Sequence[tuple[str, LogEntry]]) -> list[int | None]:
        """Store entries of rankers, all or none; they survive a crash once this returns.

        Returns:
            The position of each entry, or None for a duplicate: the log already has an entry of this kind and key.
        """

    def read(self, ranker: str, after: int = 0) -> Iterator[LogEntry]:
        """Yield all entries of a ranker after a position, in order."""

    def find(self, ranker: str, kind: str, key: str) -> LogEntry | None:
        """Return the entry of a key, or None."""

    def find_all(self, ranker: str, kind: str, keys: Sequence[str]) -> list[LogEntry]:
        """Return the entries of many keys, in any order; keys without an entry have none."""

    def about(self, ranker: str, subject: str) -> list[LogEntry]:
        """Return all entries of a decision, in order."""

    def rankers(self) -> list[str]:
        """Return the names of all rankers that have entries, sorted; the cost depends on the names, not the log."""

    def of_kind(self, ranker: str, kind: str) -> list[LogEntry]:
        """Return all entries of a kind that have a key, in order."""

    def save_snapshot(self, ranker: str, snapshot: Snapshot) -> None:
        """Store a snapshot; older ones may be deleted."""

    def load_snapshot(self, ranker: str) -> Snapshot | None:
        """Return the newest snapshot, or None."""

    def close(self) -> None:
        """Close files and connections."""
