"""What became of each decision of a log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rankloop.eventlog.events import (
    DecisionMade,
    EventFollower,
    FeedbackReceived,
    ItemsPut,
    ItemsRemoved,
    WindowClosed,
    Withdrawn,
    decode,
)
from rankloop.eventlog.open_decisions import OpenDecision
from rankloop.eventlog.store import LogEntry
from rankloop.schema import RankerSettings
from rankloop.types import EMPTY, FloatArray


@dataclass(slots=True)
class SettledDecision:
    """A decision and what became of it."""

    waiting: OpenDecision
    order: int
    ids: list[str | None]  # of the items, None where a slot is empty
    status: str = "open"
    told: float | None = None
    feedback_order: int | None = None

    @property
    def outcome(self) -> FloatArray | None:
        """What is known of its slots, [k]."""
        return np.zeros(len(self.ids)) if self.status == "nothing" else self.waiting.outcome


class SettledDecisions(EventFollower[SettledDecision]):
    """Follows a log, and knows what became of each decision."""

    def __init__(self, config: RankerSettings) -> None:
        self._config = config
        self._open: dict[str, SettledDecision] = {}
        self._order = 0  # of what is shown or settled next
        self._column: dict[str, int] = {}
        self._ids: list[str] = []
        self.items: list[tuple[int, str, float, str]] = []  # changes: before which order, kind, time, body

    def of(self, entries: Iterator[LogEntry]) -> Iterator[SettledDecision]:
        """The decisions of a log in their order, each as soon as no earlier one is open."""
        made: dict[str, SettledDecision] = {}  # not given yet
        for entry in entries:
            record = decode(entry)
            if record.changes_items:
                self.items.append((self._order, entry.kind, entry.time, entry.body.decode()))
            slate = record.dispatch(self)
            if slate is not None:
                made[slate.waiting.shown.id] = slate
            while made and (first := next(iter(made))) not in self._open:
                yield made.pop(first)
        yield from made.values()

    def on_items_put(self, record: ItemsPut) -> None:
        """New items have a column."""
        for item in record.items:
            if item.id not in self._column:
                self._column[item.id] = len(self._ids)
                self._ids.append(item.id)

    def on_items_removed(self, record: ItemsRemoved) -> None:
        """Where an item comes back, it is another one."""
        for id in record.ids:
            self._column.pop(id, None)

    def on_decision(self, record: DecisionMade) -> SettledDecision | None:
        """A decision, unless its list has no slots at all."""
        if not len(record.items):
            return None
        ids = [None if column == EMPTY else self._ids[column] for column in record.items.tolist()]
        slate = self._open[record.id] = SettledDecision(OpenDecision(record), self._next(), ids)
        return slate

    def on_feedback(self, record: FeedbackReceived) -> None:
        """The outcome of a decision that is open; it may settle it."""
        found = self._open.get(record.decision)
        if found is not None:
            found.waiting.add(record.outcome, record.regret, self._config.aggregate)
            found.told = record.time
            if record.final or self._config.aggregate == "earliest":
                self._settle(record.decision, "learned", record.time)

    def on_window_closed(self, record: WindowClosed) -> None:
        """Decisions settle with what is known of them."""
        empty = "nothing" if self._config.on_close == "nothing" else "ignored"
        for id in record.decisions:
            found = self._open.get(id)
            if found is not None:
                self._settle(id, empty if found.waiting.outcome is None else "learned", record.time)

    def on_withdrawn(self, record: Withdrawn) -> None:
        """What happened to a list that was never shown does not count."""
        found = self._open.get(record.decision)
        if found is not None:
            found.waiting.outcome = None
            self._settle(record.decision, "withdrawn", record.time)

    def _settle(self, id: str, status: str, time: float) -> None:
        slate = self._open.pop(id)
        slate.status, slate.told, slate.feedback_order = status, time, self._next()

    def _next(self) -> int:
        self._order += 1
        return self._order - 1
