"""The events after a decision: its impression, feedback, the end of its window, and its withdrawal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from rankloop.eventlog.codec import Formats, Header, Values, header, numbers
from rankloop.eventlog.events.decision import DecisionMade
from rankloop.eventlog.events.event import LogEvent
from rankloop.eventlog.outcome_rule import OutcomeRule
from rankloop.eventlog.store import LogEntry
from rankloop.schema import FeedbackEvent
from rankloop.schema.feedback_event import SeenSlots, visible_slots
from rankloop.schema.reward import CLICK
from rankloop.types import EMPTY, BoolArray, FloatArray

NOT_STORED: Mapping[str, bool] = {"stored": False}
"""Metadata of a field that goes with an event to the state and is not part of its entry."""


@dataclass(slots=True, eq=False)
class FeedbackReceived(LogEvent):
    """Feedback for a decision was received."""

    kind = "feedback"
    time: float
    event: str  # the caller's id, or empty; the same id twice counts once
    decision: str
    outcome: FloatArray  # [k] clicks, or values
    final: bool  # no more feedback will come
    regret: float | None = None  # against the best list, where the caller knows it
    seen: SeenSlots | None = None  # what was visible, where the caller says it
    of_kind: str = CLICK  # what is reported: a kind of the ranker's reward
    decided: DecisionMade | None = field(default=None, metadata=NOT_STORED)  # the decision, where it is at hand

    @classmethod
    def of(cls, given: FeedbackEvent, decision: DecisionMade, ids: Sequence[str], time: float) -> Self:
        """Return the event of feedback that a caller gives, or refuse what does not fit to its list.

        Args:
            given: the feedback.
            decision: its decision.
            ids: the item of each column.
            time: of the event.
        """
        listed = [None if column == EMPTY else ids[column] for column in decision.items.tolist()]
        by_slot = given.by_slot(listed)
        given.check_seen(by_slot)
        outcome = np.array(by_slot, dtype=np.float64)
        about = given.final, given.regret, given.seen, given.kind
        return cls(time, given.event or "", decision.id, outcome, *about, decided=decision)

    def taught(self, rule: OutcomeRule | None) -> FloatArray | None:
        """Return what a policy under a rule could learn from this event alone, [k]; None if it ignores the kind."""
        if rule is None:
            return self.outcome if self.of_kind == CLICK else None
        number = rule.number(self.of_kind)
        return None if number is None else rule.of_event(number, self.outcome)

    @property
    def ends(self) -> str | None:
        """The id of the decision, if no more feedback will come."""
        return self.decision if self.final else None

    def combined(self, earlier: FloatArray | None, aggregate: str) -> FloatArray:
        """Return the outcome of the decision after this event.

        Args:
            earlier: the outcome [k] before this event; None if this is the first.
            aggregate: `earliest` keeps the first outcome, `sum` adds them up.
        """
        if earlier is None:
            return self.outcome.copy()
        return earlier + self.outcome if aggregate == "sum" else earlier

    def visible(self) -> BoolArray | None:
        """Return which slots [k] were visible; None where the event does not say it."""
        if self.seen is None:
            return None
        visible = np.zeros(len(self.outcome), dtype=np.bool_)
        visible[list(visible_slots(self.seen))] = True
        return visible

    def combined_visible(
        self, earlier: BoolArray | None, before: FloatArray | None, aggregate: str
    ) -> BoolArray | None:
        """Return which slots [k] were visible after this event, given as before it; None if no event has said it.

        What the first event said counts, or what any event has said, as with the outcomes [k] (`combined`).
        """
        visible = self.visible() if before is None or aggregate == "sum" else None
        return earlier if visible is None else visible if earlier is None else earlier | visible

    def entry(self) -> LogEntry:
        """Return an entry whose key is the event id."""
        formats: Formats = () if self.regret is None else (("regret", "d"),)
        outcome = self.outcome
        fixed: dict[str, object] = {"final": self.final}
        if self.seen is not None:
            fixed["seen"] = self.seen
        if self.of_kind != CLICK:
            fixed["kind"] = self.of_kind
        start = header(fixed, formats, (("outcome", outcome.dtype.char, outcome.shape),))
        regret = b"" if self.regret is None else numbers(formats).pack(self.regret)
        return LogEntry(self.kind, self.event, self.decision, self.time, start + regret + outcome.tobytes())

    @classmethod
    def read(cls, entry: LogEntry, header: Header, values: Values) -> Self:
        """Read the outcome, which stays a view of the entry's bytes."""
        regret = values[0] if len(values) > 1 else None
        fixed = header.fixed
        seen, kind = fixed.get("seen"), fixed.get("kind", CLICK)
        return cls(entry.time, entry.key, entry.subject, values[-1], fixed["final"], regret, seen, kind)


@dataclass(frozen=True, slots=True)
class Impression(LogEvent):
    """A list was shown that had been decided before, where only lists that were shown count."""

    kind = "impression"
    time: float
    decision: str
    decided: DecisionMade | None = field(default=None, compare=False, metadata=NOT_STORED)  # where it is at hand

    def entry(self) -> LogEntry:
        """Return an entry whose key is the decision id: a list is shown once."""
        return LogEntry(self.kind, self.decision, self.decision, self.time, header({}))

    @classmethod
    def read(cls, entry: LogEntry, header: Header, values: Values) -> Self:
        """Read the id of the decision."""
        return cls(entry.time, entry.subject)


@dataclass(frozen=True, slots=True)
class WindowClosed(LogEvent):
    """The feedback windows of some decisions closed."""

    kind = "window-closed"
    settles_many = True
    time: float
    decisions: tuple[str, ...]
    decided: Mapping[str, DecisionMade] = field(default_factory=dict, compare=False, metadata=NOT_STORED)  # by id

    def entry(self) -> LogEntry:
        """Return an entry with the ids of the decisions."""
        return LogEntry(self.kind, "", "", self.time, header({"decisions": self.decisions}))

    @classmethod
    def read(cls, entry: LogEntry, header: Header, values: Values) -> Self:
        """Read the ids of the decisions."""
        return cls(entry.time, tuple(header.fixed["decisions"]))


@dataclass(frozen=True, slots=True)
class Withdrawn(LogEvent):
    """A decision was withdrawn, since its list was never shown."""

    kind = "withdrawn"
    time: float
    decision: str

    def entry(self) -> LogEntry:
        """Return an entry whose key is the decision id: a decision is withdrawn once."""
        return LogEntry(self.kind, self.decision, self.decision, self.time, header({}))

    @classmethod
    def read(cls, entry: LogEntry, header: Header, values: Values) -> Self:
        """Read the id of the decision."""
        return cls(entry.time, entry.subject)
