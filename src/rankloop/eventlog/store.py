"""The interface of an event log: entries and snapshots by ranker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self

from rankloop.errors import Unavailable


class StoreUnavailable(Unavailable):
    """The log cannot be written or read now; a write that failed stored nothing, unless `LogMoved` says otherwise."""


class ClaimLost(StoreUnavailable):
    """Another process serves the log at the moment: this one may not write, and its state may be out of date."""


class LogMoved(StoreUnavailable):
    """Another process has written to the log, so that the state of this one is out of date for good."""

    @classmethod
    def of(cls, log: str, applied: int, last: int) -> Self:
        """Return the error of a process that has applied a log up to a position, where it does not end any more."""
        return cls(
            f"another process has written to the log {log}: it ends at position {last}, and this process has applied "
            f"it up to {applied}. Restart this process to go on from the end of the log."
        )


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

    @property
    def problem(self) -> str | None:
        """Why the log cannot be written now, if that is known, such as a full disk."""

    def append(self, batch: Sequence[tuple[str, LogEntry]], after: int | None = None) -> list[int | None]:
        """Store entries of rankers, all or none; they survive a crash once this returns.

        Args:
            batch: the entries; an empty batch only checks that an append would be accepted.
            after: position at which the log must end, checked in the same transaction, else `LogMoved`; None appends
                wherever the log ends.

        Returns:
            The position of each entry, or None for a duplicate: the log already has an entry of this kind and key.
        """

    def last_position(self) -> int:
        """Return the position of the last entry of all rankers, 0 if the log is empty."""

    def read(self, ranker: str, after: int = 0) -> Iterator[LogEntry]:
        """Yield all entries of a ranker after a position, in order."""

    def count(self, ranker: str, after: int = 0) -> int:
        """Return the number of entries of a ranker after a position."""

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
