"""What a log of rankers is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from rankloop.errors import Unavailable


class StoreUnavailable(Unavailable):
    """The log cannot be written or read now; nothing of what was asked has been kept."""


class LogEntry(NamedTuple):
    """One thing that happened to a ranker."""

    kind: str
    key: str  # unique among the entries of its kind; empty where nothing is unique
    subject: str  # the decision that it concerns; empty where it concerns none
    time: float
    body: bytes
    position: int = 0  # in the log, from 1; 0 before it is kept


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A ranker's state after all entries up to a position."""

    position: int
    body: bytes


class Store(Protocol):
    """Append-only logs of rankers by name, and their snapshots."""

    def append(self, batch: Sequence[tuple[str, LogEntry]]) -> list[int | None]:
        """Keep entries of rankers, all or none; when this returns they survive a crash.

        Returns:
            The position of each, or None where an entry of this kind and key was there before.
        """

    def read(self, ranker: str, after: int = 0) -> Iterator[LogEntry]:
        """All entries of a ranker after a position, in order."""

    def find(self, ranker: str, kind: str, key: str) -> LogEntry | None:
        """The entry of a key."""

    def about(self, ranker: str, subject: str) -> list[LogEntry]:
        """All entries that concern a decision, in order."""

    def rankers(self) -> list[str]:
        """The names of all rankers that have entries, sorted; costs one step for each name, however long the log is."""

    def of_kind(self, ranker: str, kind: str) -> list[LogEntry]:
        """All entries of a kind that have a key, in order."""

    def save_snapshot(self, ranker: str, snapshot: Snapshot) -> None:
        """Keep a snapshot; older ones may go."""

    def load_snapshot(self, ranker: str) -> Snapshot | None:
        """The newest snapshot."""

    def close(self) -> None:
        """Let go of files and connections."""


@dataclass(frozen=True)
class RankerLog:
    """The log of one ranker."""

    store: Store
    ranker: str

    def read(self, after: int = 0) -> Iterator[LogEntry]:
        """All entries after a position, in order."""
        return self.store.read(self.ranker, after)

    def find(self, kind: str, key: str) -> LogEntry | None:
        """The entry of a key."""
        return self.store.find(self.ranker, kind, key)
