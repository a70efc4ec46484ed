"""Decisions whose outcome is still open, in little memory: events that are not recent are read back from the log."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
"""Arrays of every copy; snapshots store these names."""
SAVED_OF_EVENTS = (
    *("since_positions", "since_times", "flags", "learned_at"),
    *("combined_sizes", "combined_slots", "combined", "seen"),
)
"""Arrays of a copy with several kinds of events or with impressions."""
CHANGING = (
    *("outcome", "regret", "visible"),
    *("active", "since_position", "since", "combined", "learned_at"),
)
"""Fields of an open decision that events change."""
INACTIVE, SEEN = 1, 2
"""Bits of `flags`."""
FOREIGN, CONTROL = 1, 2
"""Bits of `foreign`, whose second one snapshots of older versions do not have."""
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
    """A decision, the feedback received for it so far, and its event while it is recent.

    Without a `reward` section, `outcome` is what was reported so far. With one, `combined` is, and `outcome` is what
    was learned from it.
    """

    position: int  # of the decision in the log
    time: float
    foreign: bool  # another policy decided, or this one with other parameters
    event: DecisionMade | None  # None: read it back from the log
    outcome: FloatArray | None = None  # [k], None before the first feedback
    regret: float | None = None  # against the best list, where it was reported
    visible: BoolArray | None = None  # [k], None if no feedback has said which slots were
    control: bool = False  # the list is one of the control group
    active: bool = True  # it counts as shown; False before its impression
    since_position: int = 0  # log position of the event that started its window: of the decision, or of its impression
    since: float = 0.0  # time of that event
    combined: FloatArray | None = None  # [kinds, k] combined values by kind, NaN for kinds without an event
    learned_at: int = 0  # log position of the event with which it was learned, while it can still be amended


class OpenDecisions(dict[str, OpenDecision]):
    """Open decisions by id, in the log order of the events that started their windows.

    Args:
        window: seconds after which a decision is closed.
        recall: reads decisions back from the log; without it, all events stay in memory.
    """

    def __init__(self, window: float, recall: Recall | None = None) -> None:
        super().__init__()
        self.window, self.recall = window, recall
        self._recent: deque[tuple[str, int]] = deque()  # the latest decisions, settled ones too, and their sizes
        self._bytes = 0  # of the latest decisions

    def open(self, event: DecisionMade, position: int, *, foreign: bool, active: bool = True) -> None:
        """Add a decision; the oldest of the recent ones give up their events for it."""
        decision = self[event.id] = OpenDecision(position, event.time, foreign, event)
        decision.since_position, decision.since, decision.active = position, event.time, active
        decision.control = event.group == "control"
        if self.recall is None:
            return
        size = _size(event)
        self._recent.append((event.id, size))
        self._bytes += size
        while self._bytes > RECENT_BYTES:
            id, size = self._recent.popleft()
            self._bytes -= size
            gone = self.get(id)
            if gone is not None:
                gone.event = None

    def activate(self, id: str, position: int, time: float) -> None:
        """Start the window of a decision with its impression, an event at this position of the log."""
        decision = self.pop(id)
        decision.active, decision.since_position, decision.since = True, position, time
        self[id] = decision

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
        """Return the decision whose window started first."""
        return next(iter(self.values()), None)

    def oldest_foreign(self) -> int | None:
        """Return the position of the first decision that another policy made, if one is open."""
        return min((one.position for one in self.values() if one.foreign), default=None)

    def saved(self) -> OpenCopy:
        """Return a copy, which later events do not change."""
        decisions = list(self.values())
        changing = {name: [getattr(one, name) for one in decisions] for name in CHANGING}
        return OpenCopy(list(self), decisions, changing)

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Restore what a copy's `arrays` returned; the events stay in the log."""
        ids, at = arrays["ids"].tobytes(), 0
        outcomes, visible, used = arrays["outcomes"].astype(np.float64), arrays["visible"], 0
        columns = (arrays[name].tolist() for name in SAVED if name not in ("ids", "outcomes", "visible"))
        for size, position, time, foreign, regret, slots in zip(*columns, strict=True):
            outcome = None if slots < 0 else outcomes[used : used + slots].copy()
            known = None if regret != regret else regret
            decision = OpenDecision(position, time, bool(foreign & FOREIGN), None, outcome, known)
            decision.since_position, decision.since, decision.control = position, time, bool(foreign & CONTROL)
            if slots > 0 and visible[used] != NOT_SAID:
                decision.visible = visible[used : used + slots].astype(np.bool_)
            self[ids[at : at + size].decode()] = decision
            at, used = at + size, used + max(slots, 0)
        if "flags" in arrays:
            self._restore_events(arrays)

    def _restore_events(self, arrays: Mapping[str, Array]) -> None:
        """Restore what several kinds of events, and impressions, have left."""
        combined, visible, used, seen = arrays["combined"], arrays["seen"], 0, 0
        columns = (arrays[name].tolist() for name in SAVED_OF_EVENTS if name not in ("combined", "seen"))
        for decision, at, time, flags, learned_at, size, slots in zip(self.values(), *columns, strict=True):
            decision.since_position, decision.since, decision.learned_at = at, time, learned_at
            decision.active = not flags & INACTIVE
            if size > 0:
                decision.combined = combined[used : used + size].reshape(-1, slots).copy()
                used += size
            if flags & SEEN:
                decision.visible = visible[seen : seen + slots].astype(np.bool_)
                seen += slots


@dataclass(frozen=True, slots=True)
class OpenCopy:
    """The open decisions at one position of the log."""

    ids: list[str]
    decisions: list[OpenDecision]  # of which only the position, the time and the origin never change
    changing: Mapping[str, list[Any]]  # the other fields

    def arrays(self) -> dict[str, Array]:
        """Return the decisions as arrays: what the log cannot give back, and where it has the rest."""
        ids, changing = [id.encode() for id in self.ids], self.changing
        known = [outcome for outcome in changing["outcome"] if outcome is not None]
        visible = [
            np.full(len(outcome), NOT_SAID) if visible is None else visible
            for outcome, visible in zip(changing["outcome"], changing["visible"], strict=True)
            if outcome is not None
        ]
        return {
            "ids": np.frombuffer(b"".join(ids), dtype=np.uint8),
            "id_bytes": np.array([len(id) for id in ids], dtype=np.int32),
            "positions": np.array([one.position for one in self.decisions], dtype=np.int64),
            "times": np.array([one.time for one in self.decisions], dtype=np.float64),
            "foreign": np.array(
                [FOREIGN * one.foreign + CONTROL * one.control for one in self.decisions], dtype=np.uint8
            ),
            "regrets": np.array([np.nan if one is None else one for one in changing["regret"]], dtype=np.float64),
            "outcomes": np.concatenate([np.empty(0), *known]),
            "outcome_slots": np.array([-1 if one is None else len(one) for one in changing["outcome"]], dtype=np.int32),
            "visible": np.concatenate([np.empty(0), *visible]).astype(np.uint8),
            **self._of_events(),
        }

    def _of_events(self) -> dict[str, Array]:
        """Return what several kinds of events, and impressions, have left; nothing if there were none."""
        changing = self.changing
        combined, activated = changing["combined"], zip(changing["since_position"], self.decisions, strict=True)
        nothing_reported = all(one is None for one in combined) and all(changing["active"])
        if nothing_reported and all(since == one.position for since, one in activated):
            return {}
        seen = [
            visible if values is not None else None
            for visible, values in zip(changing["visible"], combined, strict=True)
        ]
        flags = [
            INACTIVE * (not active) + SEEN * (visible is not None)
            for active, visible in zip(changing["active"], seen, strict=True)
        ]
        tables = [one for one in combined if one is not None]
        return {
            "since_positions": np.array(changing["since_position"], dtype=np.int64),
            "since_times": np.array(changing["since"], dtype=np.float64),
            "flags": np.array(flags, dtype=np.uint8),
            "learned_at": np.array(changing["learned_at"], dtype=np.int64),
            "combined_sizes": np.array([0 if one is None else one.size for one in combined], dtype=np.int32),
            "combined_slots": np.array([0 if one is None else one.shape[1] for one in combined], dtype=np.int32),
            "combined": np.concatenate([np.empty(0), *(one.ravel() for one in tables)]),
            "seen": np.concatenate([np.empty(0), *(one for one in seen if one is not None)]).astype(np.uint8),
        }


def _size(event: DecisionMade) -> int:
    """Return about how many bytes an event needs in memory."""
    large: int = sum(array.nbytes for name in LARGE_ARRAYS if (array := getattr(event, name)) is not None)
    large += len(event.context_fields or "") + len(event.item_fields or "")
    return EVENT_BYTES + ARRAYS_OF_SLOTS * event.items.nbytes + large
