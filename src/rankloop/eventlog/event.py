"""What all records of a log have in common, and how somebody who follows the log hears of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Generic, Self, TypeVar

if TYPE_CHECKING:
    from rankloop.eventlog.codec import Header, Values
    from rankloop.eventlog.events import (
        ConfigChanged,
        DecisionMade,
        EventSkipped,
        FeedbackReceived,
        GuardrailReset,
        GuardrailTripped,
        ItemsPut,
        ItemsRemoved,
        WindowClosed,
        Withdrawn,
    )
    from rankloop.eventlog.store import LogEntry

R = TypeVar("R")


class LogEvent(ABC):
    """Something that changes a ranker. It knows its bytes, and by which method a follower of the log hears of it."""

    __slots__ = ()
    kind: ClassVar[str]  # of its entries
    light: ClassVar[bool] = False  # it is soon applied
    changes_items: ClassVar[bool] = False

    @abstractmethod
    def entry(self) -> LogEntry:
        """The record as an entry of a log."""

    @classmethod
    @abstractmethod
    def read(cls, entry: LogEntry, head: Header, values: Values) -> Self:
        """The record of an entry, whose body was unpacked."""

    @abstractmethod
    def dispatch(self, follower: EventFollower[R]) -> R | None:
        """Tell a follower of this record, by the method for its kind; gives what the method gives."""


class EventFollower(Generic[R]):
    """Somebody who follows a log: a method for each kind of record, which does nothing unless it is overridden."""

    def on_decision(self, event: DecisionMade) -> R | None:
        """A list was decided."""
        return None

    def on_feedback(self, event: FeedbackReceived) -> R | None:
        """Something happened to a list."""
        return None

    def on_items_put(self, event: ItemsPut) -> R | None:
        """Items were added or changed."""
        return None

    def on_items_removed(self, event: ItemsRemoved) -> R | None:
        """Items were removed."""
        return None

    def on_window_closed(self, event: WindowClosed) -> R | None:
        """The windows of some decisions have closed."""
        return None

    def on_withdrawn(self, event: Withdrawn) -> R | None:
        """A list was never shown."""
        return None

    def on_guardrail_tripped(self, event: GuardrailTripped) -> R | None:
        """The guardrail fell back to the control ranking."""
        return None

    def on_guardrail_reset(self, event: GuardrailReset) -> R | None:
        """The policy decides again after the guardrail was tripped."""
        return None

    def on_config_changed(self, event: ConfigChanged) -> R | None:
        """The settings are others from here on."""
        return None

    def on_event_skipped(self, event: EventSkipped) -> R | None:
        """An event was excluded; exclusions are read before a replay starts."""
        return None
