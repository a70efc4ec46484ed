"""What stands in the log: each thing that changes a ranker, as bytes and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from rankloop.errors import RankloopError
from rankloop.eventlog.codec import Formats, Header, Values, cached_header, header, numbers, unpack, unpack_all
from rankloop.eventlog.decision import DecisionMade as DecisionMade
from rankloop.eventlog.event import EventFollower as EventFollower
from rankloop.eventlog.event import LogEvent as LogEvent
from rankloop.eventlog.event import R
from rankloop.eventlog.format_history import upgraded_kind
from rankloop.eventlog.store import LogEntry, Store
from rankloop.schema import Item
from rankloop.schema.item import logged_prior
from rankloop.types import FloatArray

Kind = TypeVar("Kind", bound=LogEvent)


@dataclass(frozen=True, slots=True)
class ItemsPut(LogEvent):
    """Items were added or changed."""

    kind = "items-put"
    changes_items = True
    time: float
    items: tuple[Item, ...]

    def entry(self) -> LogEntry:
        """The items as they were given."""
        return LogEntry(self.kind, "", "", self.time, header({"items": [item.as_mapping() for item in self.items]}))

    @classmethod
    def read(cls, entry: LogEntry, header: Header, values: Values) -> Self:
        """The items as they were accepted; what is not known may be left out."""
        return cls(entry.time, tuple(_items(header)))

    def dispatch(self, follower: EventFollower[R]) -> R | None:
        """By `on_items_put`."""
        return follower.on_items_put(self)


@dataclass(frozen=True, slots=True)
class ItemsRemoved(LogEvent):
    """Items were removed."""

    kind = "items-removed"
    changes_items = True
    time: float
    ids: tuple[str, ...]

    def entry(self) -> LogEntry:
        """The ids."""
        return LogEntry(self.kind, "", "", self.time, header({"ids": self.ids}))

    @classmethod
    def read(cls, entry: LogEntry, header: Header, values: Values) -> Self:
        """The ids."""
        return cls(entry.time, tuple(header.fixed["ids"]))

    def dispatch(self, follower: EventFollower[R]) -> R | None:
        """By `on_items_removed`."""
        return follower.on_items_removed(self)


@dataclass(slots=True, eq=False)
class FeedbackReceived(LogEvent):
    """Something happened to a list."""

    kind = "feedback"
    light = True
    time: float
    event: str
    decision: str
    outcome: FloatArray  # [k] clicks, or values
    final: bool  # nothing more will come
    regret: float | None = None  # against the best list, where the teller knows

    def entry(self) -> LogEntry:
        """Under the id of the event, where it has one."""
        formats: Formats = () if self.regret is None else (("regret", "d"),)
        outcome = self.outcome
        start = cached_header((("final", self.final),), formats, (("outcome", outcome.dtype.char, outcome.shape),))
        told = b"" if self.regret is None else numbers(formats).pack(self.regret)
        return LogEntry(self.kind, self.event, self.decision, self.time, start + told + outcome.tobytes())

    @classmethod
    def read(cls, entry: LogEntry, header: Header, values: Values) -> Self:
        """What happened; the array is the one that was unpacked."""
        regret = values[0] if len(values) > 1 else None
        return cls(entry.time, entry.key, entry.subject, values[-1], header.fixed["final"], regret)

    def dispatch(self, follower: EventFollower[R]) -> R | None:
        """By `on_feedback`."""
        return follower.on_feedback(self)


@dataclass(frozen=True, slots=True)
class WindowClosed(LogEvent):
    """The windows of these decisions have closed."""

    kind = "window-closed"
    time: float
    decisions: tuple[str, ...]

    def entry(self) -> LogEntry:
        """The ids of the decisions."""
        return LogEntry(self.kind, "", "", self.time, header({"decisions": self.decisions}))

    @classmethod
    def read(cls, entry: LogEntry, header: Header, values: Values) -> Self:
        """The ids of the decisions."""
        return cls(entry.time, tuple(header.fixed["decisions"]))

    def dispatch(self, follower: EventFollower[R]) -> R | None:
        """By `on_window_closed`."""
        return follower.on_window_closed(self)


@dataclass(frozen=True, slots=True)
class Withdrawn(LogEvent):
    """A list was never shown."""

    kind = "withdrawn"
    time: float
    decision: str

    def entry(self) -> LogEntry:
        """Under the id of the decision: a list is withdrawn once."""
        return LogEntry(self.kind, self.decision, self.decision, self.time, header({}))

    @classmethod
    def read(cls, entry: LogEntry, header: Header, values: Values) -> Self:
        """The id of the decision."""
        return cls(entry.time, entry.subject)

    def dispatch(self, follower: EventFollower[R]) -> R | None:
        """By `on_withdrawn`."""
        return follower.on_withdrawn(self)


@dataclass(frozen=True, slots=True)
class GuardrailTripped(LogEvent):
    """The guardrail fell back to the control ranking."""

    kind = "guardrail-tripped"
    time: float
    reason: str

    def entry(self) -> LogEntry:
        """Return the reason as an entry."""
        return LogEntry(self.kind, "", "", self.time, header({"why": self.reason}))

    @classmethod
    def read(cls, entry: LogEntry, header: Header, values: Values) -> Self:
        """Read the reason."""
        return cls(entry.time, header.fixed["why"])

    def dispatch(self, follower: EventFollower[R]) -> R | None:
        """Call `on_guardrail_tripped`."""
        return follower.on_guardrail_tripped(self)


@dataclass(frozen=True, slots=True)
class GuardrailReset(LogEvent):
    """The policy decides again after the guardrail was tripped."""

    kind = "guardrail-reset"
    time: float
    reason: str

    def entry(self) -> LogEntry:
        """Return the reason as an entry."""
        return LogEntry(self.kind, "", "", self.time, header({"why": self.reason}))

    @classmethod
    def read(cls, entry: LogEntry, header: Header, values: Values) -> Self:
        """Read the reason."""
        return cls(entry.time, header.fixed["why"])

    def dispatch(self, follower: EventFollower[R]) -> R | None:
        """Call `on_guardrail_reset`."""
        return follower.on_guardrail_reset(self)


@dataclass(frozen=True, slots=True)
class ConfigChanged(LogEvent):
    """The ranker has other settings from here on. The first event of a log says which it began with."""

    kind = "config-changed"
    time: float
    version: int  # from 1
    config: Mapping[str, Any]  # all settings, as plain values
    changed: Mapping[str, Any]  # those that changed, with their new values
    by: str | None = None  # name of the API key, where there was one

    def entry(self) -> LogEntry:
        """Under the version."""
        what = {"config": dict(self.config), "changed": dict(self.changed), "by": self.by}
        return LogEntry(self.kind, str(self.version), "", self.time, header(what))

    @classmethod
    def read(cls, entry: LogEntry, header: Header, values: Values) -> Self:
        """The settings."""
        fixed = header.fixed
        return cls(entry.time, int(entry.key), fixed["config"], fixed["changed"], fixed["by"])

    def dispatch(self, follower: EventFollower[R]) -> R | None:
        """By `on_config_changed`."""
        return follower.on_config_changed(self)


@dataclass(frozen=True, slots=True)
class EventSkipped(LogEvent):
    """An operator has excluded the event at a position: no replay applies it."""

    kind = "event-skipped"
    time: float
    position: int
    because: str

    def entry(self) -> LogEntry:
        """Under the position: an event is excluded once."""
        return LogEntry(self.kind, str(self.position), "", self.time, header({"because": self.because}))

    @classmethod
    def read(cls, entry: LogEntry, header: Header, values: Values) -> Self:
        """The position, and why."""
        return cls(entry.time, int(entry.key), header.fixed["because"])

    def dispatch(self, follower: EventFollower[R]) -> R | None:
        """By `on_event_skipped`."""
        return follower.on_event_skipped(self)


def _items(header: Header) -> Iterator[Item]:
    for given in header.fixed["items"]:
        prior = given.get("prior")
        yield Item.logged(
            given["id"],
            given.get("features"),
            given["price"],
            given["enabled"],
            None if prior is None else logged_prior(prior["score"], prior["strength"], prior.get("segments", {})),
            given.get("coverage"),
            given.get("default_position"),
        )


KINDS: Mapping[str, type[LogEvent]] = {
    record.kind: record
    for record in (
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
    )
}
"""All records, by the kind of their entries."""


class CannotReplay(RankloopError):
    """An event of a log cannot be applied: the log is damaged, or was written by a version with a fault."""

    status = 503

    def __init__(self, position: int, kind: str, cause: Exception) -> None:
        self.position = position
        self.reason = f"the {kind} event cannot be applied ({type(cause).__name__}: {cause})"
        super().__init__(f"the log cannot be replayed at position {position}: {self.reason}.")


def decode(entry: LogEntry) -> LogEvent:
    """The record of an entry; one that is damaged, or of a newer version, says where it stands."""
    return _careful(_read, entry)


def decode_as(record: type[Kind], entry: LogEntry) -> Kind:
    """As `decode`, for an entry whose kind is known."""
    return _careful(record.read, entry)


def decode_all(entries: Sequence[LogEntry]) -> list[LogEvent]:
    """The records of many entries, quicker than one by one; arrays of a record hold the bytes of all in memory."""
    bodies = unpack_all([entry.body for entry in entries])
    return [_read(entry, *body) for entry, body in zip(entries, bodies, strict=True)]


def decode_all_as(record: type[Kind], entries: Sequence[LogEntry]) -> list[Kind]:
    """As `decode_all`, for entries of one kind."""
    bodies = unpack_all([entry.body for entry in entries])
    return [record.read(entry, *body) for entry, body in zip(entries, bodies, strict=True)]


def _read(entry: LogEntry, header: Header, values: Values) -> LogEvent:
    known = KINDS.get(upgraded_kind(entry.kind, header.fixed))
    if known is None:
        raise ValueError(f"an entry of kind {entry.kind!r}, which this version does not know")
    return known.read(entry, header, values)


def _careful(read: Callable[[LogEntry, Header, Values], R], entry: LogEntry) -> R:
    try:
        return read(entry, *unpack(entry.body))
    except Exception as error:  # whatever damaged bytes do to their reader
        raise CannotReplay(entry.position, entry.kind, error) from error


def skipped_positions(store: Store, ranker: str) -> frozenset[int]:
    """Positions of events that an operator has excluded from every replay."""
    return frozenset(int(entry.key) for entry in store.of_kind(ranker, EventSkipped.kind))
