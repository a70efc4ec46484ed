"""What a ranker can be asked: its items, how it does, one decision."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence

from rankloop.analytics import diagnosis, overview
from rankloop.analytics.decision_history import DecisionHistory, history
from rankloop.analytics.diagnosis import Diagnosis
from rankloop.analytics.estimates import EstimateTable, estimate_table
from rankloop.analytics.overview import ItemSlotCounts, Overview
from rankloop.errors import InvalidInput, UnknownDecision
from rankloop.eventlog import LogEntry, Store
from rankloop.eventlog.events import DecisionMade, decode, decode_as
from rankloop.schema import Item
from rankloop.serving.item_table import check_prior
from rankloop.serving.ranking import Ranking
from rankloop.serving.replica import Replica


class RankerQueries(ABC):
    """The part of a ranker that changes nothing."""

    name: str
    store: Store
    _replica: Replica
    _lock: threading.RLock
    _unkept: dict[str, DecisionMade]  # lists that were answered and are on their way to the log

    @abstractmethod
    def flush(self) -> None:
        """Wait until all lists that were answered are in the log."""

    @property
    def position(self) -> int:
        """Of the last entry of the log that was applied."""
        return self._replica.position

    def items(self) -> list[Item]:
        """Every item that was not removed."""
        with self._lock:
            return self._replica.items.all()

    def item(self, id: str) -> Item:
        """One item as it is now."""
        with self._lock:
            return self._replica.items.get(id)

    def overview(self, hours: float = 2.0, points: int = 120) -> Overview:
        """How it does: against control, and over the last hours in about so many spans of time at most."""
        with self._lock:
            return overview.overview(self._replica, hours, points)

    def estimates(self, segment: str = "") -> EstimateTable:
        """What is believed of every item by the learner of a segment, and how often it was shown and clicked."""
        with self._lock:
            return estimate_table(self._replica, segment)

    def slot_counts(self, limit: int = 100) -> list[ItemSlotCounts]:
        """How often the items shown most stood in each slot, in lists of the treatment group and of control."""
        with self._lock:
            return overview.slot_counts(self._replica, limit)

    def diagnosis(self) -> Diagnosis:
        """Which items it favours, what exploring costs, and whether visitors click as it assumes."""
        with self._lock:
            gathered = diagnosis.gather(self._replica, self._replica.assumptions())
        return diagnosis.diagnose(gathered)

    def history(self, decision: str) -> DecisionHistory:
        """What was shown and why, and what happened."""
        self._find(decision)
        self.flush()
        entries = [entry for entry in self.store.about(self.name, decision) if self._counts(entry)]
        shown = next(decode_as(DecisionMade, entry) for entry in entries if entry.kind == DecisionMade.kind)
        records = [decode(entry) for entry in entries]
        with self._lock:
            ids, is_open = self._replica.items.ids, self._replica.open_decisions.get(decision) is not None
            return history(records, shown, ids, Ranking(shown, ids).items, is_open=is_open)

    @property
    def takes_priors(self) -> bool:
        """Whether items may bring scores of another ranker."""
        return self._replica.learners.policy.takes_priors

    def suits(self, item: Item) -> bool:
        """Whether the policy takes the score of another ranker that an item would bring."""
        try:
            check_prior("prior", item, None, self._replica.learners.policy)
        except InvalidInput:
            return False
        return True

    @property
    def replaces_priors(self) -> bool:
        """Whether the score of another ranker may be replaced by another one."""
        return self._replica.learners.policy.replaces_priors

    def counts(self) -> dict[str, int]:
        """Items, segments, decisions, open ones, and the position in the log."""
        with self._lock:
            coming = self._unkept.values()  # on their way to the log: for the caller they are there
            counts = self._replica.counts()
            counts["open_decisions"] += len(coming)
            counts["decisions"] = max([counts["decisions"], *(shown.number for shown in coming)])
            return counts

    def room(self, ids: Sequence[str]) -> int:
        """Columns that there would be with these: those of removed items stay taken, also where the id comes back."""
        with self._lock:
            table = self._replica.items
            return len(table.ids) + sum(not table.has(id) for id in set(ids))

    def segments(self) -> set[str]:
        """Segments that have a learner, or will have one as soon as their first list is in the log."""
        with self._lock:
            known = set(self._replica.learners.segments)
            return known | {shown.segment for shown in self._unkept.values()}

    def has_segment(self, segment: str) -> bool:
        """Whether a segment has a learner already."""
        return segment in self._replica.learners.segments

    def _find(self, decision: str) -> DecisionMade:
        """A decision that was made, open or not."""
        # Half a pair of surrogates cannot be looked up in a store.
        found = self._made(decision) if decision.isprintable() else None
        if found is None:
            raise UnknownDecision(f"decision {decision!r} is not one that this ranker made.")
        return found

    def _made(self, decision: str) -> DecisionMade | None:
        """A decision that was made, open or not; None where there is none. May look into the log."""
        found = self._near(decision)
        if found is not None:
            return found
        entry = self.store.find(self.name, DecisionMade.kind, decision)
        if entry is None:
            return None
        if not self._counts(entry):
            raise UnknownDecision(f"decision {decision!r} was excluded from the log.")
        return decode_as(DecisionMade, entry)

    def _counts(self, entry: LogEntry) -> bool:
        """Whether no operator has excluded an event."""
        return entry.position not in self._replica.skipped

    def _near(self, decision: str) -> DecisionMade | None:
        """A decision that is open, or on its way to the log.

        Without the lock, which whoever decides holds for long: a list is open before it is no longer on its way.
        """
        coming = self._unkept.get(decision)
        if coming is not None:
            return coming
        waiting = self._replica.open_decisions.get(decision)
        return None if waiting is None else waiting.shown

    def is_near(self, decision: str) -> bool:
        """Whether feedback for a decision needs no look into the log."""
        return self._near(decision) is not None
