"""The part of a ranker that reads: its items, reports, and the history of a decision."""

from __future__ import annotations

import re
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np

from rankloop.analytics import diagnosis, overview
from rankloop.analytics.decision_history import DecisionEvent, DecisionHistory, history, settled_list
from rankloop.analytics.diagnosis import Diagnosis
from rankloop.analytics.estimates import EstimateTable, estimate_table
from rankloop.analytics.overview import ItemSlotCounts, Overview
from rankloop.errors import Busy, InvalidInput, UnknownDecision
from rankloop.eventlog import Store, Writer
from rankloop.eventlog.events import DecisionMade, decode, decode_as
from rankloop.schema import Item, Quarantine, RankRequest
from rankloop.serving import costs
from rankloop.serving.costs import Cost
from rankloop.serving.items.item_table import check_prior
from rankloop.serving.ranking import Ranking
from rankloop.serving.replica import Replica

ID_TIME_DIGITS = 11
ID_TIME = re.compile(f"[0-9a-f]{{{ID_TIME_DIGITS}}}[A-Za-z0-9_-]{{12}}")
"""An id that starts with the time of its decision."""
MAX_UNCOMMITTED_SECONDS = 30.0
"""Age up to which a decision may be one that another process has answered and not committed yet."""
PAUSES_SECONDS = (0.01, 0.02, 0.04, 0.08)
"""How long feedback waits for such a decision, before the caller is asked to try again."""


class RankerQueries(ABC):
    """The queries of a ranker, which change nothing."""

    name: str
    store: Store
    quarantine: Quarantine | None  # the position and the reason, if it is quarantined
    _replica: Replica
    _lock: threading.RLock
    _uncommitted: dict[str, DecisionMade]  # decisions that were answered and wait for their commit
    _writer: Writer
    _clock: Callable[[], float]
    _new_segments: dict[str, str]  # of decisions that wait for their commit and were not answered yet, by their ids

    @abstractmethod
    def flush(self) -> None:
        """Wait until all decisions are in the log."""

    @abstractmethod
    def recent_decision(self, id: str) -> DecisionMade | None:
        """Return a decision that is open and recent, or uncommitted; None if only the log may have it."""

    @property
    def position(self) -> int:
        """The log position of the last event that was applied."""
        return self._replica.position

    def items(self) -> list[Item]:
        """Return every item that was not removed."""
        with self._lock:
            return self._replica.items.all()

    def item(self, id: str) -> Item:
        """Return one item."""
        with self._lock:
            return self._replica.items.get(id)

    def overview(self, hours: float = 2.0, points: int = 120) -> Overview:
        """Return the results of both groups, in total and over the last hours in at most `points` time buckets."""
        with self._lock:
            return overview.overview(self._replica, hours, points)

    def estimates(self, segment: str = "") -> EstimateTable:
        """Return the estimate of every item by the learner of a segment, with its counts."""
        with self._lock:
            return estimate_table(self._replica, segment)

    def slot_counts(self, limit: int = 100) -> list[ItemSlotCounts]:
        """Return how often the most shown items were in each slot, by group."""
        with self._lock:
            return overview.slot_counts(self._replica, limit)

    def diagnosis(self) -> Diagnosis:
        """Return which items the policy favours, what exploration costs, and whether its click model fits."""
        with self._lock:
            inputs = diagnosis.gather(self._replica, self._replica.assumptions())
        return diagnosis.diagnose(inputs)

    def history(self, decision: str) -> DecisionHistory:
        """Return a decision with its explanation and all its feedback."""
        self.find_decision(decision)
        self.flush()
        skipped = self._replica.skipped
        entries = [entry for entry in self.store.about(self.name, decision) if entry.position not in skipped]
        made = next(decode_as(DecisionMade, entry) for entry in entries if entry.kind == DecisionMade.kind)
        events = [decode(entry) for entry in entries]
        with self._lock:
            replica = self._replica
            ids, is_open = replica.items.ids, decision in replica.open_decisions

            def worth(about: Sequence[DecisionEvent]) -> float | None:
                settled = settled_list(about, made, replica.config)
                return None if settled is None else replica.value_of(*settled)

            return history(
                events, made, ids, Ranking(made, ids).items, is_open=is_open, objective=replica.objective, worth=worth
            )

    # Looking up decisions

    def find_decision(self, id: str) -> DecisionMade:
        """Return a decision, open or settled; this may read the log."""
        # A lone surrogate cannot be looked up in a store.
        event = self._logged_decision(id) if id.isprintable() else None
        if event is None and self._writer.process:
            event = self._awaited_decision(id)
        if event is None:
            raise UnknownDecision(f"decision {id!r} is not one that this ranker made.")
        return event

    def _awaited_decision(self, id: str) -> DecisionMade | None:
        """Return a decision that another process has answered and not committed yet; `Busy` if it may still come."""
        age = self._clock() - 1e-3 * int(id[:ID_TIME_DIGITS], 16) if ID_TIME.fullmatch(id) else np.inf
        if abs(age) > MAX_UNCOMMITTED_SECONDS:
            return None
        for pause in PAUSES_SECONDS:
            time.sleep(pause)
            event = self._logged_decision(id)
            if event is not None:
                return event
        raise Busy(f"decision {id!r} is not in the log yet; try again later.")

    def _logged_decision(self, id: str) -> DecisionMade | None:
        recent = self.recent_decision(id)
        if recent is not None:
            return recent
        entry = self.store.find(self.name, DecisionMade.kind, id)
        if entry is None:
            return None
        if entry.position > self._replica.position:
            self._writer.wait_for(entry.position)  # fails if another process has written it and this one cannot follow
        if entry.position in self._replica.skipped:
            raise UnknownDecision(f"decision {id!r} was excluded from the log.")
        return decode_as(DecisionMade, entry)

    @property
    def takes_priors(self) -> bool:
        """Whether items may have priors."""
        return self._replica.learners.policy.takes_priors

    @property
    def replaces_priors(self) -> bool:
        """Whether the prior of an item may be replaced."""
        return self._replica.learners.policy.replaces_priors

    def accepts_prior(self, item: Item) -> bool:
        """Return whether the policy can take the prior of a new item."""
        try:
            check_prior("prior", item, None, self._replica.learners.policy)
        except InvalidInput:
            return False
        return True

    def draws_cost(self, request: RankRequest) -> Cost:
        """Return what the draws of a propensity cost; this takes no lock."""
        named = request.items if request.candidates is None else request.candidates
        items = len(self._replica.items) if named is None else len(named)
        return costs.of_draws(request.propensity, items, self._row_size)

    def priors_cost(self, items: Sequence[Item]) -> Cost:
        """Return what the priors of items cost; this takes no lock."""
        priors = sum(item.prior is not None for item in items) if self.takes_priors else 0
        return costs.of_priors(priors, len(self._replica.learners.segments), self._row_size)

    @property
    def _row_size(self) -> int:
        return self._replica.config.row_width

    def counts(self) -> dict[str, int]:
        """Return the number of items, segments, decisions and open decisions, and the log position."""
        with self._lock:
            uncommitted = self._uncommitted.values()
            counts = self._replica.counts()
            counts["open_decisions"] += len(uncommitted)
            counts["decisions"] = max([counts["decisions"], *(event.number for event in uncommitted)])
            return counts

    def columns_with(self, ids: Sequence[str]) -> int:
        """Return the number of columns after these items are put; removed items keep theirs."""
        with self._lock:
            return self._replica.items.columns_with(ids)

    def segments(self) -> set[str]:
        """Return the segments that have a learner, or get one with their first commit."""
        with self._lock:
            return set(self._replica.learners.segments) | self._coming_segments()

    def _coming_segments(self) -> set[str]:
        """Return the segments that get a learner with their first commit, which is under way."""
        coming = set(self._new_segments.values()) | {event.segment for event in self._uncommitted.values()}
        return coming - self._replica.learners.segments.keys()
