"""Decisions whose outcome is still open, in little memory: events that are not recent are read back from the log."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rankloop.arrays import Array
from rankloop.eventlog.events import DecisionMade, decode_all_as, decode_as
from rankloop.eventlog.events.decision import OF_REQUEST
from rankloop.eventlog.store import Store
from rankloop.types import BoolArray, FloatArray

RECENT_BYTES = 32_000_000
"""Estimated size of the latest decisions whose events stay in memory: most feedback comes soon."""
EVENT_BYTES = 2_500
"""Estimated size of an event in memory without the numbers of its arrays."""
ARRAYS_OF_SLOTS = 8
"""Arrays of an event that have a number for each slot, about."""
LARGE_ARRAYS = ("x", "context", "allowed", *OF_REQUEST)
"""Arrays of an event that are counted with all their numbers."""
SAVED = ("ids", "id_bytes", "positions", "times", "foreign", "regrets", "outcomes", "outcome_slots", "visible")
"""Arrays of a copy; snapshots store these names."""
NOT_SAID = 2
"""Entry of the array `visible` where no feedback has said whether the slot was visible; otherwise 0 or 1."""

Recall = Callable[[Sequence[str]], Mapping[str, DecisionMade]]
"""Returns decisions of a log by id."""


def recall_from(store: Store, ranker: str) -> Recall:
    """Return a function that reads decisions back from the log of a ranker; `CannotReplay` if one is damaged."""

    def recall(ids: Sequence[str]) -> Mapping[str, DecisionMade]:
        entries = store.find_all(ranker, DecisionMade.kind, ids) if ids else []
        try:
            events = decode_all_as(DecisionMade, entries)
        except Exception:  # damaged bytes may raise anything; one by one says where they are
            events = [decode_as(DecisionMade, entry) for entry in entries]
        return {event.id: event for event in events}

    return recall


@dataclass(slots=True)
class OpenDecision:
    """A decision, the feedback received for it so far, and its event while it is recent."""

    position: int  # of the decision in the log
    time: float
    foreign: bool  # another policy decided, or this one with other parameters
    event: DecisionMade | None  # None: read it back from the log
    outcome: FloatArray | None = None  # [k], None before the first feedback
    regret: float | None = None  # against the best list, where it was reported
    visible: BoolArray | None = None  # [k], None if no feedback has said which slots were


class OpenDecisions(dict[str, OpenDecision]):
    """Open decisions by id, in log order.

    Args:
        window: seconds after which a decision is closed.
        recall: reads decisions back from the log; without it, all events stay in memory.
    """

    def __init__(self, window: float, recall: Recall | None = None) -> None:
        super().__init__()
        self.window, self.recall = window, recall
        self._recent: deque[tuple[str, int]] = deque()  # the latest decisions, settled ones too, and their sizes
        self._bytes = 0  # of the latest decisions

    def open(self, event: DecisionMade, position: int, *, foreign: bool) -> None:
        """Add a decision; the oldest of the recent ones give up their events for it."""
        self[event.id] = OpenDecision(position, event.time, foreign, event)
        if self.recall is None:
            return
        size = _size(event)
        self._recent.append((event.id, size))
        self._bytes += size
        while self._bytes > RECENT_BYTES:
            id, size = self._recent.popleft()
            self._bytes -= size
            decision = self.get(id)
            if decision is not None:
                decision.event = None

    def detach(self, ids: Iterable[str]) -> None:
        """Copy the arrays of the recent ones of these decisions, so that they keep no page of the log in memory."""
        for id in ids:
            decision = self.get(id)
            if decision is not None and decision.event is not None:
                decision.event = decision.event.detached()

    def events(self, ids: Sequence[str]) -> Mapping[str, DecisionMade]:
        """Read back the events of open decisions that are not in memory, in one query."""
        missing = [id for id in ids if (decision := self.get(id)) is not None and decision.event is None]
        return self.recall(missing) if missing and self.recall is not None else {}

    def oldest(self) -> OpenDecision | None:
        """Return the decision that was opened first."""
        return next(iter(self.values()), None)

    def oldest_foreign(self) -> int | None:
        """Return the position of the first decision that another policy made, if one is open."""
        return next((one.position for one in self.values() if one.foreign), None)

    def saved(self) -> OpenCopy:
        """Return a copy, which later events do not change."""
        decisions = list(self.values())
        outcomes, visible = [one.outcome for one in decisions], [one.visible for one in decisions]
        return OpenCopy(list(self), decisions, outcomes, visible, [one.regret for one in decisions])

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Restore what a copy's `arrays` returned; the events stay in the log."""
        ids, at = arrays["ids"].tobytes(), 0
        outcomes, visible, used = arrays["outcomes"].astype(np.float64), arrays["visible"], 0
        columns = (arrays[name].tolist() for name in SAVED if name not in ("ids", "outcomes", "visible"))
        for size, position, time, foreign, regret, slots in zip(*columns, strict=True):
            outcome = None if slots < 0 else outcomes[used : used + slots].copy()
            decision = OpenDecision(position, time, bool(foreign), None, outcome, None if regret != regret else regret)
            if slots > 0 and visible[used] != NOT_SAID:
                decision.visible = visible[used : used + slots].astype(np.bool_)
            self[ids[at : at + size].decode()] = decision
            at, used = at + size, used + max(slots, 0)


@dataclass(frozen=True, slots=True)
class OpenCopy:
    """The open decisions at one position of the log."""

    ids: list[str]
    decisions: list[OpenDecision]  # of which only the position, the time and the origin never change
    outcomes: list[FloatArray | None]
    visible: list[BoolArray | None]
    regrets: list[float | None]

    def arrays(self) -> dict[str, Array]:
        """Return the decisions as arrays: what the log cannot give back, and where it has the rest."""
        ids = [id.encode() for id in self.ids]
        known = [outcome for outcome in self.outcomes if outcome is not None]
        visible = [
            np.full(len(outcome), NOT_SAID) if visible is None else visible
            for outcome, visible in zip(self.outcomes, self.visible, strict=True)
            if outcome is not None
        ]
        return {
            "ids": np.frombuffer(b"".join(ids), dtype=np.uint8),
            "id_bytes": np.array([len(id) for id in ids], dtype=np.int32),
            "positions": np.array([one.position for one in self.decisions], dtype=np.int64),
            "times": np.array([one.time for one in self.decisions], dtype=np.float64),
            "foreign": np.array([one.foreign for one in self.decisions], dtype=np.uint8),
            "regrets": np.array([np.nan if one is None else one for one in self.regrets], dtype=np.float64),
            "outcomes": np.concatenate([np.empty(0), *known]),
            "outcome_slots": np.array([-1 if one is None else len(one) for one in self.outcomes], dtype=np.int32),
            "visible": np.concatenate([np.empty(0), *visible]).astype(np.uint8),
        }


def _size(event: DecisionMade) -> int:
    """Return about how many bytes an event needs in memory."""
    large: int = sum(array.nbytes for name in LARGE_ARRAYS if (array := getattr(event, name)) is not None)
    large += len(event.context_fields or "") + len(event.item_fields or "")
    return EVENT_BYTES + ARRAYS_OF_SLOTS * event.items.nbytes + large
