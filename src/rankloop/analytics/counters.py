"""How a ranker has done: counts that follow from the log, kept as it grows."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from rankloop.analytics.click_counters import COUNT, TOGETHER, ClickCounters, joined
from rankloop.arrays import Array
from rankloop.eventlog.events import DecisionMade
from rankloop.types import EMPTY, FloatArray, IntArray

GROUPS = ("treatment", "control")
FIELDS = ("lists", "settled", "clicked", "value", "regret", "known", "exploring", "slots", "explored")
"""Lists; those whose outcome is known; those clicked; what they were worth; what they lost against the best list, and
for how many that is known; shares of scores that explored, over so many slots; lists in which exploring changed
something."""
MINUTES, HOURS = 2 * 24 * 60, 90 * 24
"""So many are remembered; minutes that are forgotten count for their hour."""
LAGS = (0.1, 1.0, 10.0, 60.0, 600.0, 3600.0, 86400.0)
"""Seconds from a list to its feedback, the upper ends of what is counted together."""
MAX_TRACKED_SLOTS = 10
"""Slots that are told apart for each item; the last one counts for all that follow."""

LISTS, SETTLED, CLICKED, VALUE, REGRET, KNOWN, EXPLORING, SLOTS, EXPLORED = range(len(FIELDS))
Counts = list[list[float]]  # of each group, of each field


def _zero() -> Counts:
    return [[0.0] * len(FIELDS) for _ in GROUPS]


class Counters:
    """Counts lists by group: in total, by time, by item and slot. An outcome counts at the time of its decision."""

    def __init__(self, slots: int, capacity: int) -> None:
        self.since: float | None = None  # the first list
        self.total = _zero()
        self.minutes: OrderedDict[int, Counts] = OrderedDict()
        self.hours: OrderedDict[int, Counts] = OrderedDict()  # of the minutes before those
        self._today, self.explored_today = 0, 0
        self.feedback_delays, self.feedback_delay_seconds = [0] * (len(LAGS) + 1), 0.0
        self.late = self.closed = self.withdrawn = 0
        self._listed: list[list[IntArray]] = [[] for _ in GROUPS]  # not counted yet, as with clicks
        self._places = np.minimum(np.arange(slots), MAX_TRACKED_SLOTS - 1)
        shape = (len(GROUPS), capacity, min(slots, MAX_TRACKED_SLOTS))
        self._shown = np.zeros(shape, dtype=COUNT)
        self.clicks = ClickCounters(slots, MAX_TRACKED_SLOTS, capacity)

    def grow(self, capacity: int) -> None:
        """Make room for items."""
        if capacity > self._shown.shape[1]:
            self._shown = np.pad(self._shown, ((0, 0), (0, capacity - self._shown.shape[1]), (0, 0)))
            self.clicks.grow(capacity)

    @property
    def shown(self) -> NDArray[np.uint32]:
        """How often each item was listed, [groups, items, places]."""
        self._catch_up()
        return self._shown

    @property
    def clicked(self) -> NDArray[np.uint32]:
        """How often it was clicked there, [groups, items, places]."""
        self.clicks.catch_up()
        return self.clicks.hits

    def listed(self, shown: DecisionMade) -> None:
        """A list was decided."""
        if self.since is None:
            self.since = shown.time
        minute = int(shown.time // 60)
        counts = self.minutes.get(minute)
        if counts is None:
            counts = self._begin(minute)
        group = 1 if shown.group == "control" else 0
        for own in (self.total[group], counts[group]):
            own[LISTS] += 1
            own[EXPLORING] += shown.exploring
            own[SLOTS] += shown.judged
            own[EXPLORED] += shown.explored
        if shown.explored:
            self.explored_today = 1 + self.explored_on(shown.time)
            self._today = int(shown.time // 86400)
        self._listed[group].append(shown.items)
        if len(self._listed[group]) >= TOGETHER:
            self._catch_up()

    def explored_on(self, time: float) -> int:
        """Lists that exploring changed on the day of the last one, if this is the same day."""
        return self.explored_today if int(time // 86400) == self._today else 0

    def _begin(self, minute: int) -> Counts:
        counts = self.minutes[minute] = _zero()
        while len(self.minutes) > MINUTES:
            old, gone = self.minutes.popitem(last=False)
            hour = self.hours.setdefault(old // 60, _zero())
            for own, more in zip(hour, gone, strict=True):
                own[:] = [a + b for a, b in zip(own, more, strict=True)]
        while len(self.hours) > HOURS:
            self.hours.popitem(last=False)
        return counts

    def told(self, shown: DecisionMade, time: float) -> None:
        """The first feedback for a list came."""
        lag = time - shown.time
        self.feedback_delays[bisect_left(LAGS, lag)] += 1
        self.feedback_delay_seconds += lag

    def settled(self, shown: DecisionMade, outcome: FloatArray, regret: float | None) -> bool:
        """The outcome of a list is known: what each slot was worth; whether there was any click."""
        group, values = 1 if shown.group == "control" else 0, outcome.tolist()
        clicked = any(values)
        minute = int(shown.time // 60)
        counts = self.minutes.get(minute) or self.hours.get(minute // 60)
        for own in (self.total[group],) if counts is None else (self.total[group], counts[group]):
            own[SETTLED] += 1
            own[CLICKED] += clicked
            own[VALUE] += sum(values)
            if regret is not None:
                own[REGRET] += regret
                own[KNOWN] += 1
        self.clicks.settled(group, shown.explored, shown.items, outcome)
        return clicked

    def _catch_up(self) -> None:
        """Count what was put off."""
        for counts, lists in zip(self._shown, self._listed, strict=True):
            if lists:
                items, slots, _ = joined(lists)
                there = items != EMPTY
                np.add.at(counts, (items[there], self._places[slots[there]]), 1)
                lists.clear()

    def arrays(self) -> dict[str, Array]:
        """All counts."""
        found: dict[str, Array] = {
            "total": np.array(self.total),
            "feedback_delays": np.array(self.feedback_delays, dtype=np.int64),
            "others": np.array(
                [self.late, self.closed, self.withdrawn, self._today, self.explored_today], dtype=np.int64
            ),
            "feedback_delay_seconds": np.array(self.feedback_delay_seconds),
            "since": np.array(np.nan if self.since is None else self.since),
            "shown": self.shown.copy(),
            **{f"clicks.{name}": array for name, array in self.clicks.arrays().items()},
        }
        for name, kept in (("minutes", self.minutes), ("hours", self.hours)):
            found[f"{name}.at"] = np.array(list(kept), dtype=np.int64)
            found[name] = np.array(list(kept.values())).reshape(-1, len(GROUPS), len(FIELDS))
        return found

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Become what `arrays` gave."""
        self.total = arrays["total"].tolist()
        self.feedback_delays, self.feedback_delay_seconds = (
            arrays["feedback_delays"].tolist(),
            float(arrays["feedback_delay_seconds"]),
        )
        self.late, self.closed, self.withdrawn, self._today, self.explored_today = arrays["others"].tolist()
        since = float(arrays["since"])
        self.since = None if math.isnan(since) else since
        self._shown, self._listed = arrays["shown"].astype(COUNT), [[] for _ in GROUPS]
        self.clicks.restore({name.removeprefix("clicks."): array for name, array in arrays.items()})
        for name, kept in (("minutes", self.minutes), ("hours", self.hours)):
            kept.clear()
            kept.update(zip(arrays[f"{name}.at"].tolist(), arrays[name].tolist(), strict=True))
