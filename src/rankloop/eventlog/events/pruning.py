"""The event of a log whose old entries were removed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from rankloop.eventlog.codec import Header, Values, header
from rankloop.eventlog.events.event import LogEvent
from rankloop.eventlog.store import LogEntry

BASE = "~base-"
"""What follows a log's name in the names of its base states, which are stored beside its snapshots."""


@dataclass(frozen=True, slots=True)
class HistoryPruned(LogEvent):
    """Settled decisions and their feedback were removed up to a position; base states stand in for them."""

    kind = "history-pruned"
    time: float
    position: int  # up to which entries were removed
    decided: int  # number of the last decision up to this position
    removed: int  # entries that were removed since the log began
    left: int  # entries up to this position that the log still has
    bases: Mapping[str, Mapping[str, Any]]  # settings of learning by the name of the base state that has them

    def entry(self) -> LogEntry:
        """Return an entry whose key is the position: a log is pruned up to a position once."""
        body = {
            "decided": self.decided,
            "removed": self.removed,
            "left": self.left,
            "bases": {name: dict(learning) for name, learning in self.bases.items()},
        }
        return LogEntry(self.kind, str(self.position), "", self.time, header(body))

    @classmethod
    def read(cls, entry: LogEntry, header: Header, values: Values) -> Self:
        """Read the counts and the names of the base states."""
        fixed = header.fixed
        return cls(entry.time, int(entry.key), fixed["decided"], fixed["removed"], fixed["left"], fixed["bases"])


def base_name(log: str, number: int) -> str:
    """Return the name under which a base state of a log is stored."""
    return f"{log}{BASE}{number}"
