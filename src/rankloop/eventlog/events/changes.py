"""The events of a ranker's operation: the guardrail, the configuration, excluded events and erased visitors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from rankloop.eventlog.codec import Header, Values, header
from rankloop.eventlog.events.event import LogEvent
from rankloop.eventlog.store import LogEntry


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
