"""The interface of a log that several processes write: an append also returns what the others have written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from rankloop.errors import RankloopError
from rankloop.eventlog.store import LogEntry, Store

MAX_FOLLOWED_ENTRIES = 1000
"""Entries of other processes that are read at once."""


class LogEnd(NamedTuple):
    """The last entry that a process has applied. More than a position: a log that was restored may use it again."""

    position: int = 0
    ranker: str = ""
    kind: str = ""
    key: str = ""
    time: float = 0.0

    @classmethod
    def of(cls, ranker: str, entry: LogEntry) -> LogEnd:
        """Return the end of a log that ends with this entry."""
        return cls(entry.position, ranker, entry.kind, entry.key, entry.time)


class RankerEntry(NamedTuple):
    """A stored entry with the name of its ranker's log."""

    ranker: str
    entry: LogEntry


class Appended(NamedTuple):
    """What an append has found and done."""

    found: Sequence[RankerEntry]  # of other processes, between the known end and the appended entries
    positions: Sequence[int | None] | None  # as `Store.append` returns them; None if there was too much to follow first
    refusal: RankloopError | None = None  # why the check refused the entries, so that nothing was appended


Check = Callable[[Sequence[RankerEntry]], RankloopError | None]
"""Applies the entries that were found, and returns why nothing may be appended after them, or None."""


class SharedStore(Store, Protocol):
    """A log that several processes may write at the same time."""

    @property
    def process(self) -> int:
        """The number of this process, from 1: no other process that ever opened the log has it."""

    def end(self) -> LogEnd:
        """Return the end of the log."""

    def found_after(self, known: LogEnd) -> Sequence[RankerEntry]:
        """Return the next entries after a known end, at most `MAX_FOLLOWED_ENTRIES`; `LogMoved` if it is not there."""

    def append_after(
        self, known: LogEnd, batch: Sequence[tuple[str, LogEntry]], check: Check | None = None
    ) -> Appended:
        """Store entries at the end of the log, wherever that is, in one transaction.

        If the log cannot be reached while it commits, the error says so, and the entries may be stored: they are
        followed like those of another process, and the same keys are duplicates.

        Args:
            known: the end up to which this process has applied the log.
            batch: the entries; none only reads.
            check: called while no other process can append. Where there is one, it gets what was found.
        """
