"""Followers of a log: objects with one method for each kind of event."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from rankloop.eventlog.events import (
    ConfigChanged,
    DecisionMade,
    EventSkipped,
    FeedbackReceived,
    GuardrailReset,
    GuardrailTripped,
    ItemsPut,
    ItemsRemoved,
    LogEvent,
    WindowClosed,
    Withdrawn,
)

R = TypeVar("R")


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
