"""The events of a log, each with its form as a log entry."""

from rankloop.eventlog.events.changes import (
    ConfigChanged,
    EventSkipped,
    GuardrailEvent,
    GuardrailReset,
    GuardrailTripped,
    VisitorsErased,
)
from rankloop.eventlog.events.decision import DecisionMade
from rankloop.eventlog.events.decoding import (
    EVENTS,
    KINDS,
    CannotReplay,
    EventFollower,
    decode,
    decode_all,
    decode_all_as,
    decode_as,
    skipped_positions,
)
from rankloop.eventlog.events.event import LogEvent
from rankloop.eventlog.events.feedback import NOT_STORED, FeedbackReceived, Impression, WindowClosed, Withdrawn
from rankloop.eventlog.events.items import ItemsPut, ItemsRemoved
from rankloop.eventlog.events.pruning import HistoryPruned

__all__ = [
    "EVENTS",
    "KINDS",
    "NOT_STORED",
    "CannotReplay",
    "ConfigChanged",
    "DecisionMade",
    "EventFollower",
    "EventSkipped",
    "FeedbackReceived",
    "GuardrailEvent",
    "GuardrailReset",
    "GuardrailTripped",
    "HistoryPruned",
    "Impression",
    "ItemsPut",
    "ItemsRemoved",
    "LogEvent",
    "VisitorsErased",
    "WindowClosed",
    "Withdrawn",
    "decode",
    "decode_all",
    "decode_all_as",
    "decode_as",
    "skipped_positions",
]
