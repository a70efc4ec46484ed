"""Turns entries of a log into events, and hands events to those who follow them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from rankloop.errors import RankloopError
from rankloop.eventlog.codec import Header, Values, unpack, unpack_all
from rankloop.eventlog.events.changes import (
    ConfigChanged,
    EventSkipped,
    GuardrailReset,
    GuardrailTripped,
    VisitorsErased,
)
from rankloop.eventlog.events.decision import DecisionMade
from rankloop.eventlog.events.event import LogEvent
from rankloop.eventlog.events.feedback import FeedbackReceived, Impression, WindowClosed, Withdrawn
from rankloop.eventlog.events.items import ItemsPut, ItemsRemoved
from rankloop.eventlog.events.pruning import HistoryPruned
from rankloop.eventlog.format_history import upgraded_kind
from rankloop.eventlog.store import LogEntry, Store

R = TypeVar("R")
Kind = TypeVar("Kind", bound=LogEvent)


EVENTS: tuple[type[LogEvent], ...] = (
    ItemsPut,
    ItemsRemoved,
    DecisionMade,
    Impression,
    FeedbackReceived,
    WindowClosed,
    Withdrawn,
    GuardrailTripped,
    GuardrailReset,
    ConfigChanged,
    EventSkipped,
    VisitorsErased,
    HistoryPruned,
)
"""Every kind of event."""
KINDS: Mapping[str, type[LogEvent]] = {event.kind: event for event in EVENTS}
"""Every kind of event by the kind of its entries."""


class EventFollower(Generic[R]):
    """Takes the events of a log; a method that is not overridden ignores its events."""

    def handle(self, event: LogEvent) -> R | None:
        """Pass an event to the method of its kind, and return what the method returns."""
        method: Callable[[LogEvent], R | None] = getattr(self, event.handler)
        return method(event)

    def on_decision(self, event: DecisionMade) -> R | None:
        """A list was decided."""
        return None

    def on_impression(self, event: Impression) -> R | None:
        """A list that was decided before was shown."""
        return None

    def on_feedback(self, event: FeedbackReceived) -> R | None:
        """Feedback for a decision was received."""
        return None

    def on_items_put(self, event: ItemsPut) -> R | None:
        """Items were added or changed."""
        return None

    def on_items_removed(self, event: ItemsRemoved) -> R | None:
        """Items were removed."""
        return None

    def on_window_closed(self, event: WindowClosed) -> R | None:
        """The feedback windows of some decisions closed."""
        return None

    def on_withdrawn(self, event: Withdrawn) -> R | None:
        """A decision was withdrawn, since its list was never shown."""
        return None

    def on_guardrail_tripped(self, event: GuardrailTripped) -> R | None:
        """The guardrail fell back to the control ranking."""
        return None

    def on_guardrail_reset(self, event: GuardrailReset) -> R | None:
        """The policy decides again after the guardrail was tripped."""
        return None

    def on_config_changed(self, event: ConfigChanged) -> R | None:
        """The configuration changed."""
        return None

    def on_event_skipped(self, event: EventSkipped) -> R | None:
        """An operator excluded an event; exclusions are read before a replay starts."""
        return None

    def on_visitors_erased(self, event: VisitorsErased) -> R | None:
        """What identified some visitors was erased; nothing else changed."""
        return None

    def on_history_pruned(self, event: HistoryPruned) -> R | None:
        """Entries that are settled were removed; nothing else changed."""
        return None


class CannotReplay(RankloopError):
    """An event of a log cannot be applied: the log is damaged, or was written by a faulty version."""

    status = 503

    def __init__(self, position: int, kind: str, cause: Exception) -> None:
        self.position = position
        self.reason = f"the {kind} event cannot be applied ({type(cause).__name__}: {cause})"
        super().__init__(f"the log cannot be replayed at position {position}: {self.reason}.")


def decode(entry: LogEntry) -> LogEvent:
    """Return the event of an entry, or raise CannotReplay if it is damaged or of a newer version."""
    return _decode(_read, entry)


def decode_as(kind: type[Kind], entry: LogEntry) -> Kind:
    """Do as `decode` for an entry whose kind is known."""
    return _decode(kind.read, entry)


def decode_all(entries: Sequence[LogEntry]) -> list[LogEvent]:
    """Return the events of many entries, faster than one by one; their arrays share one block of memory."""
    bodies = unpack_all([entry.body for entry in entries])
    return [_read(entry, *body) for entry, body in zip(entries, bodies, strict=True)]


def decode_all_as(kind: type[Kind], entries: Sequence[LogEntry]) -> list[Kind]:
    """Do as `decode_all` for entries of one kind."""
    bodies = unpack_all([entry.body for entry in entries])
    return [kind.read(entry, *body) for entry, body in zip(entries, bodies, strict=True)]


def _read(entry: LogEntry, header: Header, values: Values) -> LogEvent:
    kind = KINDS.get(upgraded_kind(entry.kind, header.fixed))
    if kind is None:
        raise ValueError(f"an entry of kind {entry.kind!r}, which this version does not know")
    return kind.read(entry, header, values)


def _decode(read: Callable[[LogEntry, Header, Values], R], entry: LogEntry) -> R:
    try:
        return read(entry, *unpack(entry.body))
    except Exception as error:  # damaged bytes may raise anything
        raise CannotReplay(entry.position, entry.kind, error) from error


def skipped_positions(store: Store, ranker: str) -> frozenset[int]:
    """Return the positions of the events that an operator has excluded from every replay."""
    return frozenset(int(entry.key) for entry in store.of_kind(ranker, EventSkipped.kind))
