"""What all events of a log have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Self

from rankloop.eventlog.codec import Header, Values
from rankloop.eventlog.store import LogEntry


class LogEvent(ABC):
    """Something that changes a ranker; it can be written to a log entry and read from one."""

    __slots__ = ()
    kind: ClassVar[str]  # of its entries
    handler: ClassVar[str]  # name of the method of an `EventFollower` that takes it
    changes_items: ClassVar[bool] = False
    settles_many: ClassVar[bool] = False  # it may settle several decisions

    @property
    def opens(self) -> str | None:
        """The id of the decision that the event opens, if it opens one."""
        return None

    @property
    def ends(self) -> str | None:
        """The id of the decision that the event settles whatever the settings are, if it is feedback that does."""
        return None

    def __init_subclass__(cls) -> None:
        cls.handler = f"on_{cls.kind.replace('-', '_')}"

    @abstractmethod
    def entry(self) -> LogEntry:
        """Return the event as a log entry."""

    @classmethod
    @abstractmethod
    def read(cls, entry: LogEntry, header: Header, values: Values) -> Self:
        """Return the event of an entry whose body was unpacked."""
