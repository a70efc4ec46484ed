"""The events of a log, each with its form as a log entry, and the followers that take them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

from rankloop.errors import RankloopError
from rankloop.eventlog.codec import Header, Values, header, unpack, unpack_all
from rankloop.eventlog.decision import DecisionMade as DecisionMade
from rankloop.eventlog.event import LogEvent as LogEvent
from rankloop.eventlog.feedback_events import FeedbackReceived as FeedbackReceived
from rankloop.eventlog.feedback_events import WindowClosed as WindowClosed
from rankloop.eventlog.feedback_events import Withdrawn as Withdrawn
from rankloop.eventlog.format_history import upgraded_kind
from rankloop.eventlog.item_events import ItemsPut as ItemsPut
from rankloop.eventlog.item_events import ItemsRemoved as ItemsRemoved
from rankloop.eventlog.store import LogEntry, Store

R = TypeVar("R")
Kind = TypeVar("Kind", bound=LogEvent)


@dataclass(frozen=True, slots=True)
class GuardrailEvent(LogEvent):
    """The guardrail changed its state; each of the two changes has a kind of its own."""

    kind = ""
    time: float
    reason: str

    def entry(self) -> LogEntry:
        """Return an entry with the reason."""
        return LogEntry(self.kind, "", "", self.time, header({"why": self.reason}))

    @classmethod
    def read(cls, entry: LogEntry, header: Header, values: Values) -> Self:
        """Read the reason."""
        return cls(entry.time, header.fixed["why"])


@dataclass(frozen=True, slots=True)
class GuardrailTripped(GuardrailEvent):
    """The guardrail fell back to the control ranking."""

    kind = "guardrail-tripped"


@dataclass(frozen=True, slots=True)
class GuardrailReset(GuardrailEvent):
    """The policy decides again after the guardrail was tripped."""

    kind = "guardrail-reset"


@dataclass(frozen=True, slots=True)
class ConfigChanged(LogEvent):
    """The configuration changed. The first event of a log has the initial configuration."""

    kind = "config-changed"
    time: float
    version: int  # from 1
    config: Mapping[str, Any]  # all settings, as JSON values
    changed: Mapping[str, Any]  # the settings that changed, with their new values
    by: str | None = None  # name of the API key, if there was one

    def entry(self) -> LogEntry:
        """Return an entry whose key is the version."""
        body = {"config": dict(self.config), "changed": dict(self.changed), "by": self.by}
        return LogEntry(self.kind, str(self.version), "", self.time, header(body))

    @classmethod
    def read(cls, entry: LogEntry, header: Header, values: Values) -> Self:
        """Read the settings."""
        fixed = header.fixed
        return cls(entry.time, int(entry.key), fixed["config"], fixed["changed"], fixed["by"])


@dataclass(frozen=True, slots=True)
class EventSkipped(LogEvent):
    """An operator excluded the event at a position from every replay."""

    kind = "event-skipped"
    time: float
    position: int
    reason: str

    def entry(self) -> LogEntry:
        """Return an entry whose key is the position: an event is excluded once."""
        return LogEntry(self.kind, str(self.position), "", self.time, header({"because": self.reason}))

    @classmethod
    def read(cls, entry: LogEntry, header: Header, values: Values) -> Self:
        """Read the position and the reason."""
        return cls(entry.time, int(entry.key), header.fixed["because"])


@dataclass(frozen=True, slots=True)
class VisitorsErased(LogEvent):
    """What identified the visitors of some decisions was erased from the log."""

    kind = "visitors-erased"
    time: float
    first: int  # position of the first of these decisions
    decisions: int  # how many there were

    def entry(self) -> LogEntry:
        """Return an entry whose key is the first position: a decision is erased once."""
        return LogEntry(self.kind, str(self.first), "", self.time, header({"decisions": self.decisions}))

    @classmethod
    def read(cls, entry: LogEntry, header: Header, values: Values) -> Self:
        """Read the position and the number of decisions."""
        return cls(entry.time, int(entry.key), header.fixed["decisions"])


EVENTS: tuple[type[LogEvent], ...] = (
    ItemsPut,
    ItemsRemoved,
    DecisionMade,
    FeedbackReceived,
    WindowClosed,
    Withdrawn,
    GuardrailTripped,
    GuardrailReset,
    ConfigChanged,
    EventSkipped,
    VisitorsErased,
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
