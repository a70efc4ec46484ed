"""Counters of decisions, feedback and outcomes, updated as a ranker applies its log."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from rankloop.analytics.click_counters import COUNT, ClickCounters, SettledList, join_lists
from rankloop.analytics.kind_counters import KindCounters
from rankloop.arrays import Array
from rankloop.eventlog.events import DecisionMade
from rankloop.types import EMPTY, BoolArray, FloatArray, IntArray

GROUPS = ("treatment", "control")
FIELDS = ("lists", "settled", "clicked", "value", "squares", "regret", "known", "exploring", "slots", "explored")
"""Counts of each group: lists; lists with a known outcome; lists with a click; summed value in the ranker's objective;
summed squares of the values; summed regret; lists with a known regret; summed exploration shares; slots that these
shares are of; lists that exploration changed. Snapshots store these names."""
LISTS, SETTLED, CLICKED, VALUE, SQUARES, REGRET = range(6)
REGRET_LISTS, EXPLORATION, EXPLORATION_SLOTS, EXPLORED = range(6, len(FIELDS))
MAX_MINUTES, MAX_HOURS = 2 * 24 * 60, 90 * 24
"""Minutes and hours with counters of their own. The oldest minute is added to its hour, the oldest hour is dropped."""
FEEDBACK_DELAY_BOUNDS = (0.1, 1.0, 10.0, 60.0, 600.0, 3600.0, 86400.0)
"""Upper bounds, in seconds, of the bins that count the time from a decision to its first feedback."""
MAX_TRACKED_SLOTS = 10
"""Slots that are counted separately for each item; the last one counts all later slots too."""
BATCH_LISTS = 512
"""Lists whose items are counted in one vectorized update: counting them one by one would dominate the cost."""
SECONDS_PER_DAY = 86400
MAX_EXPLORED_DAYS = 8
"""Days whose explored lists are counted separately: a clock that was wrong for a while must not reset today's count."""

Counts = list[list[float]]  # [group, field]
Outcome = tuple[FloatArray, float]
"""Outcome [k] of a list, and its value in the objective."""


def _zero() -> Counts:
    return [[0.0] * len(FIELDS) for _ in GROUPS]


class Counters:
    """Counts of decisions and outcomes by group: in total, by time, by item and slot.

    An outcome counts at the time of its decision. Counts by item and slot are deferred: lists collect here until a
    batch is full or the counts are read.
    """

    def __init__(self, slots: int, capacity: int, kinds: Sequence[str] = ()) -> None:
        self.kinds = KindCounters(kinds)
        self.since: float | None = None  # time of the first decision
        self.total = _zero()
        self.minutes: OrderedDict[int, Counts] = OrderedDict()
        self.hours: OrderedDict[int, Counts] = OrderedDict()  # before the first of the minutes
        self._explored_days: dict[int, int] = {}  # explored lists by day; the day counted last is last
        self.feedback_delays, self.feedback_delay_seconds = [0] * (len(FEEDBACK_DELAY_BOUNDS) + 1), 0.0
        self.late = self.closed = self.withdrawn = 0
        self.unshown = 0  # lists, among the withdrawn, that were never counted as shown
        self.own_rewards = 0  # settled lists whose request brought rewards or losses of its own
        self._tracked = np.minimum(np.arange(slots), MAX_TRACKED_SLOTS - 1)
        self._shown = np.zeros((len(GROUPS), capacity, min(slots, MAX_TRACKED_SLOTS)), dtype=COUNT)
        self._clicks = ClickCounters(slots, MAX_TRACKED_SLOTS, capacity)
        self._deferred_lists: tuple[list[IntArray], ...] = ([], [])  # by group
        self._deferred_unseen: tuple[list[IntArray], ...] = ([], [])  # by group
        self._deferred_outcomes: list[SettledList] = []
        self._deferred_former: list[SettledList] = []  # outcomes that were counted, and have changed since

    @classmethod
    def column_bytes(cls, slots: int) -> int:
        """Return the bytes of the counts of one item."""
        return cls(slots, 1).nbytes - cls(slots, 0).nbytes

    @property
    def nbytes(self) -> int:
        """Bytes of the counts by item and slot."""
        return self._shown.nbytes + self._clicks.nbytes

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` items."""
        if capacity > self._shown.shape[1]:
            self._shown = np.pad(self._shown, ((0, 0), (0, capacity - self._shown.shape[1]), (0, 0)))
            self._clicks.grow(capacity)

    @property
    def shown(self) -> NDArray[np.uint32]:
        """How often each item was shown in each slot, [groups, items, slots]."""
        self._count_lists()
        return self._shown

    @property
    def clicks(self) -> ClickCounters:
        """The counters of clicks, up to date."""
        self._count_outcomes()
        return self._clicks

    @property
    def clicked(self) -> NDArray[np.uint32]:
        """How often each item was clicked in each slot, [groups, items, slots]."""
        return self.clicks.hits

    def count_decision(self, decision: DecisionMade) -> None:
        """Count a decision whose list is shown."""
        self.count_explored(decision)
        self.count_shown(decision)

    def count_explored(self, decision: DecisionMade) -> None:
        """Count a decision that exploration changed against the day's exploration, shown or not."""
        if decision.explored:
            day = int(decision.time // SECONDS_PER_DAY)
            self._explored_days[day] = 1 + self._explored_days.pop(day, 0)
            if len(self._explored_days) > MAX_EXPLORED_DAYS:
                del self._explored_days[next(iter(self._explored_days))]

    def count_shown(self, decision: DecisionMade) -> None:
        """Count a list that is shown, at the time of its decision."""
        if self.since is None:
            self.since = decision.time
        minute = int(decision.time // 60)
        counts = self.minutes.get(minute)
        if counts is None:
            counts = self._start_minute(minute)
        group = 1 if decision.group == "control" else 0
        for fields in (self.total[group], counts[group]):
            fields[LISTS] += 1
            fields[EXPLORATION] += decision.exploring
            fields[EXPLORATION_SLOTS] += decision.judged
            fields[EXPLORED] += decision.explored
        lists = self._deferred_lists[group]
        lists.append(decision.items)
        if len(lists) >= BATCH_LISTS:
            self._count_lists()

    def count_unseen(self, decision: DecisionMade, visible: BoolArray) -> None:
        """Take back what `count_decision` counted in the slots [k] that were not visible."""
        unseen = self._deferred_unseen[1 if decision.group == "control" else 0]
        unseen.append(np.where(visible, EMPTY, decision.items))
        if len(unseen) >= BATCH_LISTS:
            self._count_lists()

    def explored_on(self, time: float) -> int:
        """Return how many decisions exploration changed on the day of a time, if that is one of the latest days."""
        return self._explored_days.get(int(time // SECONDS_PER_DAY), 0)

    def _start_minute(self, minute: int) -> Counts:
        """Return the counters of a new minute; the oldest minutes are added to their hours."""
        counts = self.minutes[minute] = _zero()
        while len(self.minutes) > MAX_MINUTES:
            oldest, dropped = self.minutes.popitem(last=False)
            hour = self.hours.setdefault(oldest // 60, _zero())
            for fields, added in zip(hour, dropped, strict=True):
                fields[:] = [a + b for a, b in zip(fields, added, strict=True)]
        while len(self.hours) > MAX_HOURS:
            self.hours.popitem(last=False)
        return counts

    def count_feedback(self, decided: float, time: float) -> None:
        """Count the delay of the first feedback for a decision that was made at the time `decided`."""
        delay = time - decided
        self.feedback_delays[bisect_left(FEEDBACK_DELAY_BOUNDS, delay)] += 1
        self.feedback_delay_seconds += delay

    def count_outcome(self, decision: DecisionMade, outcome: FloatArray, value: float, regret: float | None) -> None:
        """Count the final outcome [k] of a decision and its value in the objective."""
        self.own_rewards += decision.rewards is not None or decision.losses is not None
        group, values = 1 if decision.group == "control" else 0, outcome.tolist()
        clicked = any(values)
        minute = int(decision.time // 60)
        counts = self.minutes.get(minute) or self.hours.get(minute // 60)
        for fields in (self.total[group],) if counts is None else (self.total[group], counts[group]):
            fields[SETTLED] += 1
            fields[CLICKED] += clicked
            fields[VALUE] += value
            fields[SQUARES] += value * value
            if regret is not None:
                fields[REGRET] += regret
                fields[REGRET_LISTS] += 1
        if values:
            self._deferred_outcomes.append((group, decision.explored, decision.items, outcome))
            if len(self._deferred_outcomes) >= BATCH_LISTS:
                self._count_outcomes()

    def amend_outcome(self, decision: DecisionMade, before: Outcome, after: Outcome) -> None:
        """Replace the outcome with which a decision was counted."""
        group, (old, old_value), (new, value) = 1 if decision.group == "control" else 0, before, after
        minute = int(decision.time // 60)
        counts = self.minutes.get(minute) or self.hours.get(minute // 60)
        for fields in (self.total[group],) if counts is None else (self.total[group], counts[group]):
            fields[CLICKED] += int(new.any()) - int(old.any())
            fields[VALUE] += value - old_value
            fields[SQUARES] += value * value - old_value * old_value
        if len(old) and ((old != 0.0) != (new != 0.0)).any():
            self._deferred_outcomes.append((group, decision.explored, decision.items, new))
            self._deferred_former.append((group, decision.explored, decision.items, old))
            if len(self._deferred_outcomes) >= BATCH_LISTS:
                self._count_outcomes()

    def _count_lists(self) -> None:
        """Count the deferred lists by item and slot, then take back what was not seen of them."""
        for count, deferred in ((np.add, self._deferred_lists), (np.subtract, self._deferred_unseen)):
            for counts, lists in zip(self._shown, deferred, strict=True):
                if lists:
                    items, slots, _ = join_lists(lists)
                    filled = items != EMPTY
                    count.at(counts, (items[filled], self._tracked[slots[filled]]), 1)
                    lists.clear()

    def _count_outcomes(self) -> None:
        """Hand the deferred outcomes to the counters of clicks."""
        batch, self._deferred_outcomes = self._deferred_outcomes, []
        former, self._deferred_former = self._deferred_former, []
        self._clicks.count(batch)
        self._clicks.count(former, np.subtract)

    def arrays(self) -> dict[str, Array]:
        """Return copies of all counts by name, for a snapshot."""
        arrays: dict[str, Array] = {
            "total": np.array(self.total),
            "feedback_delays": np.array(self.feedback_delays, dtype=np.int64),
            "others": np.array([self.late, self.closed, self.withdrawn, self.own_rewards], dtype=np.int64),
            "explored_days": np.array(list(self._explored_days.items()), dtype=np.int64).reshape(-1, 2),
            "feedback_delay_seconds": np.array(self.feedback_delay_seconds),
            "since": np.array(np.nan if self.since is None else self.since),
            "shown": self.shown.copy(),
            **{f"clicks.{name}": array for name, array in self.clicks.arrays().items()},
            **self.kinds.arrays(),
            **({"unshown": np.array(self.unshown)} if self.unshown else {}),
        }
        for name, periods in (("minutes", self.minutes), ("hours", self.hours)):
            arrays[f"{name}.at"] = np.array(list(periods), dtype=np.int64)
            arrays[name] = np.array(list(periods.values())).reshape(-1, len(GROUPS), len(FIELDS))
        return arrays

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Restore the counts that `arrays` returned."""
        self.total = arrays["total"].tolist()
        self.feedback_delays = arrays["feedback_delays"].tolist()
        self.feedback_delay_seconds = float(arrays["feedback_delay_seconds"])
        self.late, self.closed, self.withdrawn, self.own_rewards = arrays["others"].tolist()
        self._explored_days = dict(arrays["explored_days"].tolist())
        since = float(arrays["since"])
        self.since = None if math.isnan(since) else since
        self._shown, self._deferred_outcomes, self._deferred_former = arrays["shown"].astype(COUNT), [], []
        self.kinds.restore(arrays)
        self.unshown = int(arrays["unshown"]) if "unshown" in arrays else 0
        self._deferred_lists, self._deferred_unseen = ([], []), ([], [])
        self._clicks.restore({name.removeprefix("clicks."): array for name, array in arrays.items()})
        for name, periods in (("minutes", self.minutes), ("hours", self.hours)):
            periods.clear()
            periods.update(zip(arrays[f"{name}.at"].tolist(), arrays[name].tolist(), strict=True))
