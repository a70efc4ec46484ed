"""What became of each decision of a log."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from rankloop.eventlog.events import (
    DecisionMade,
    EventFollower,
    FeedbackReceived,
    Impression,
    ItemsPut,
    ItemsRemoved,
    WindowClosed,
    Withdrawn,
    decode,
)
from rankloop.eventlog.outcome_rule import OutcomeRule
from rankloop.eventlog.store import LogEntry
from rankloop.schema import RankerSettings
from rankloop.schema.reward import CLICK
from rankloop.types import EMPTY, BoolArray, FloatArray


@dataclass(slots=True)
class SettledDecision:
    """A decision and what became of it."""

    event: DecisionMade
    order: int  # among all decisions and settlements of the log
    ids: list[str | None]  # of the items, None in an empty slot
    status: str = "open"
    feedback_time: float | None = None
    feedback_order: int | None = None
    reported: FloatArray | None = None  # [k], the outcome so far
    combined: FloatArray | None = None  # [kinds, k], the values by kind so far
    values: Mapping[str, FloatArray] | None = None  # [k] combined values of each kind that had an event
    shown_at: float | None = None  # when its window started; None before an impression that it needs
    regret: float | None = None  # against the best list, where it was reported
    visible: BoolArray | None = None  # [k], None if no feedback has said which slots were

    def values_of_slots(self) -> list[str | None]:
        """Return the values of every slot by kind, as JSON; None where the settings declare no kinds."""
        of_kind = self.values
        if of_kind is None:
            return [None] * len(self.ids)
        return [json.dumps({kind: one[slot] for kind, one in of_kind.items()}) for slot in range(len(self.ids))]

    @property
    def seen(self) -> BoolArray | None:
        """Which slots [k] were seen, by the feedback: those with a click were; None if it does not say it."""
        return None if self.visible is None or self.reported is None else self.visible | (self.reported != 0.0)

    @property
    def outcome(self) -> FloatArray | None:
        """The outcome of its slots, [k]; None if it is not known."""
        return np.zeros(len(self.ids)) if self.status == "nothing" else self.reported


class SettledDecisions(EventFollower[SettledDecision]):
    """Follows a log and yields its decisions with what became of each."""

    def __init__(self, settings: RankerSettings) -> None:
        self._settings, self._rule = settings, OutcomeRule.of(settings)
        self._open: dict[str, SettledDecision] = {}
        self._order = 0  # of the next decision or settlement
        self._column: dict[str, int] = {}
        self._ids: list[str] = []
        self.item_changes: list[tuple[int, str, float, str]] = []  # before which order, kind, time, body

    def of(self, entries: Iterator[LogEntry]) -> Iterator[SettledDecision]:
        """Yield the decisions in log order, each as soon as no earlier one is open."""
        unyielded: dict[str, SettledDecision] = {}
        for entry in entries:
            event = decode(entry)
            if event.changes_items:
                self.item_changes.append((self._order, entry.kind, entry.time, entry.body.decode()))
            settled = self.handle(event)
            if settled is not None:
                unyielded[settled.event.id] = settled
            while unyielded and (first := next(iter(unyielded))) not in self._open:
                yield unyielded.pop(first)
        yield from unyielded.values()

    def on_items_put(self, event: ItemsPut) -> None:
        """Give every new item a column."""
        for item in event.items:
            if item.id not in self._column:
                self._column[item.id] = len(self._ids)
                self._ids.append(item.id)

    def on_items_removed(self, event: ItemsRemoved) -> None:
        """Free the ids: an item that is put again is a new one."""
        for id in event.ids:
            self._column.pop(id, None)

    def on_decision(self, event: DecisionMade) -> SettledDecision | None:
        """Open a decision, unless its list has no slots."""
        if not len(event.items):
            return None
        ids = [None if column == EMPTY else self._ids[column] for column in event.items.tolist()]
        settled = self._open[event.id] = SettledDecision(event, self._next(), ids)
        settled.shown_at = event.time if self._settings.activation == "decision" else None
        return settled

    def on_impression(self, event: Impression) -> None:
        """Start the window of a decision."""
        settled = self._open.get(event.decision)
        if settled is not None and settled.shown_at is None:
            settled.shown_at = event.time

    def on_feedback(self, event: FeedbackReceived) -> None:
        """Add the outcome to an open decision, and settle it if nothing more can come."""
        settled = self._open.get(event.decision)
        if settled is not None and settled.shown_at is None:
            settled.shown_at = event.time
        if settled is not None and self._rule is not None:
            self._add(settled, event, self._rule)
        elif settled is not None and event.of_kind == CLICK:
            aggregate = self._settings.aggregate
            settled.visible = event.combined_visible(settled.visible, settled.reported, aggregate)
            settled.reported = event.combined(settled.reported, aggregate)
            settled.regret = event.regret if settled.regret is None else settled.regret
            settled.feedback_time = event.time
            if event.final or aggregate == "earliest":
                self._settle(event.decision, "learned", event.time)

    def _add(self, settled: SettledDecision, event: FeedbackReceived, rule: OutcomeRule) -> None:
        """Add an event to the values of its kind; the final one settles the decision."""
        kind = rule.number(event.of_kind)
        if kind is None or settled.shown_at is None or not rule.in_time(kind, event.time - settled.shown_at):
            return
        if not (rule.at_once and settled.reported is not None):  # what was learned at once was seen as was said then
            settled.visible = event.combined_visible(settled.visible, None, "sum")
        settled.combined = rule.added(settled.combined, kind, event.outcome)
        settled.reported = rule.outcome(settled.combined)
        reported = settled.combined[:, :1] == settled.combined[:, :1]
        settled.values = {name: settled.combined[n] for n, name in enumerate(rule.kinds) if reported[n].any()}
        settled.regret = event.regret if settled.regret is None else settled.regret
        settled.feedback_time = event.time
        if rule.at_once and settled.reported is not None and settled.feedback_order is None:
            settled.feedback_order = self._next()  # when it was learned, for later events only amend it
        if event.final:
            settled.reported = np.zeros(len(settled.ids)) if settled.reported is None else settled.reported
            self._settle(event.decision, "learned", event.time)

    def on_window_closed(self, event: WindowClosed) -> None:
        """Settle the decisions with the feedback received so far."""
        empty = "nothing" if self._settings.on_close == "nothing" else "ignored"
        for id in event.decisions:
            settled = self._open.get(id)
            if settled is not None and settled.shown_at is None:
                self._settle(id, "withdrawn", event.time)
            elif settled is not None:
                self._settle(id, empty if settled.reported is None else "learned", event.time)

    def on_withdrawn(self, event: Withdrawn) -> None:
        """Drop the outcome of a list that was never shown."""
        settled = self._open.get(event.decision)
        learned = self._rule is not None and self._rule.at_once and settled is not None and settled.reported is not None
        if settled is not None and not learned:
            settled.reported = settled.values = None
            self._settle(event.decision, "withdrawn", event.time)

    def _settle(self, id: str, status: str, time: float) -> None:
        settled = self._open.pop(id)
        settled.status, settled.feedback_time = status, time
        if settled.feedback_order is None or status == "withdrawn":
            settled.feedback_order = self._next()

    def _next(self) -> int:
        self._order += 1
        return self._order - 1
