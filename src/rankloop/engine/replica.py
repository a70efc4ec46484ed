"""What a log says: the state of one ranker, entry after entry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice, takewhile
from typing import Any

import numpy as np

from rankloop.engine.config import RankerConfig
from rankloop.engine.items import Item, ItemTable
from rankloop.engine.learners import Learners, Lesson
from rankloop.engine.pending import Pending, Waiting
from rankloop.engine.ranking import Receipt
from rankloop.engine.records import (
    Closed,
    Guarded,
    Happened,
    ItemsPut,
    ItemsRemoved,
    Record,
    Shown,
    Withdrawn,
    decode_all,
)
from rankloop.engine.tally import Tally
from rankloop.store.base import Entry
from rankloop.types import FloatArray

TOGETHER = 2000
"""Entries of a replay that are taken in at once."""


class Replica:
    """Items, learners, open decisions and counts after the entries of a log up to a position.

    Only `apply` and `follow` change it, and only by what entries say: equal logs give equal replicas, bit for bit.
    """

    def __init__(self, config: RankerConfig) -> None:
        self.config = config
        self.table = ItemTable(config.dim, config.coverage)
        self.learners = Learners(config, self.table)
        self.pending = Pending(config.window)
        self.tally = Tally(config.slots, self.table.capacity)
        self.guarded: str | None = None  # why the guard fell back to the control order, if it did
        self.watched = [[0.0, 0.0], [0.0, 0.0]]  # settled and clicked lists of both arms since the guard stands
        self.decided = 0  # number of the last decision
        self.position = 0  # of the last entry
        self.witness: Callable[[Shown, FloatArray], None] | None = None  # sees lists before they are learned from
        self._later: dict[str, list[Lesson]] | None = None  # lessons of a replay by segment, not taken in yet

    def apply(self, record: Record) -> Receipt | None:
        """Become what one more record says."""
        match record:
            case Shown():
                self.decided = max(self.decided, record.number)
                self.learners.row(record.segment)
                self.pending.add(self.learners.scored(record) if self._is_foreign(record) else record)
                self.tally.listed(record)
            case Happened():
                return self._happened(record)
            case ItemsPut(_, items):
                self._put(items)
            case ItemsRemoved(_, ids):
                self.table.remove(ids)
                self.learners.follow()
            case Closed(_, decisions):
                for id in decisions:
                    self._close(self.pending.pop(id))
            case Withdrawn(_, id):
                return self._withdrawn(id)
            case Guarded(_, tripped, why):
                self.guarded = why if tripped else None
                self.watched = [[0.0, 0.0], [0.0, 0.0]]
        return None

    def _is_foreign(self, shown: Shown) -> bool:
        """Whether another policy decided: its rows are not what this one would have scored."""
        return bool(shown.policy) and shown.policy != self.config.policy

    def follow(self, entries: Iterable[Entry], until: int | None = None, page: int = TOGETHER) -> None:
        """Apply entries, up to a position if one is given: the same as one by one, and quicker, so many at once."""
        wanted = entries if until is None else takewhile(lambda entry: entry.position <= until, entries)
        left = iter(wanted)
        while some := list(islice(left, page)):
            records = decode_all(some)
            self.take_in([(entry.position, record) for entry, record in zip(some, records, strict=True)])
            self.pending.part(record.id for record in records if isinstance(record, Shown))

    def take_in(self, kept: Sequence[tuple[int, Record]]) -> list[Receipt | None]:
        """Apply records, each after its position: what one by one would give, with lessons of a segment together."""
        told: list[Receipt | None] = []
        self._later = {}
        try:
            for position, record in kept:
                if isinstance(record, ItemsPut | ItemsRemoved):
                    self._catch_up()
                told.append(self.apply(record))
                self.position = position
        finally:
            self._catch_up()
            self._later = None
        return told

    def _catch_up(self) -> None:
        for lessons in (self._later or {}).values():
            self.learners.learn(lessons)
        self._later = {}

    def _happened(self, record: Happened) -> Receipt:
        waiting = self.pending.get(record.decision)
        if waiting is None:
            self.tally.late += 1
            return Receipt(record.decision, "late")
        if waiting.outcome is None:
            self.tally.told(waiting.shown, record.time)
        waiting.add(record.outcome, record.regret, self.config.aggregate)
        if record.final or self.config.aggregate == "earliest":
            self.pending.pop(record.decision)
            return Receipt(record.decision, self._settle(waiting))
        return Receipt(record.decision, "kept")

    def _close(self, waiting: Waiting | None) -> None:
        if waiting is None:
            return
        self.tally.closed += 1
        if waiting.outcome is not None or self.config.on_close == "nothing":
            self._settle(waiting)

    def _withdrawn(self, id: str) -> Receipt:
        waiting = self.pending.pop(id)
        if waiting is None:
            return Receipt(id, "late")
        self.tally.withdrawn += 1
        return Receipt(id, "withdrawn")

    def _settle(self, waiting: Waiting) -> str:
        """The outcome of a list is known: count it, and learn from it where that is possible."""
        shown = waiting.shown
        outcome = np.zeros(len(shown.items)) if waiting.outcome is None else waiting.outcome
        clicked = self.tally.settled(shown, outcome, waiting.regret)
        control = shown.arm == "control"
        watched = self.watched[1 if control else 0]
        watched[0] += 1.0
        watched[1] += clicked
        if self.witness is not None:
            self.witness(shown, outcome)
        if (control or self._is_foreign(shown)) and not self.learners.from_others:
            return "counted"
        lesson = Lesson(shown, outcome)
        if self._later is None:
            self.learners.learn([lesson])
        else:
            self._later.setdefault(shown.segment, []).append(lesson)
        return "learned"

    def _put(self, items: Sequence[Item]) -> None:
        new = [item for item in items if item.id not in self.table.column]
        self.table.put(items)
        self.learners.follow()
        self.tally.grow(self.table.capacity)
        for item in new:
            if item.prior is not None:
                self.learners.believe(self.table.column[item.id], *item.prior)

    def counts(self) -> dict[str, Any]:
        """How large it is, and how far."""
        return {
            "items": len(self.table),
            "segments": len(self.learners.segments),
            "decisions": self.decided,
            "pending": len(self.pending),
            "position": self.position,
        }
