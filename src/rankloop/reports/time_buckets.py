"""Merge the time buckets of an overview until each holds enough lists for a chart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rankloop.analytics.intervals import difference, wilson
from rankloop.analytics.mean_intervals import Moments, mean_difference, mean_interval
from rankloop.analytics.overview import TimeBucket
from rankloop.reports.value_format import ValueFormat
from rankloop.schema import GroupSummary

MIN_SETTLED_LISTS = 120
"""Settled lists that a merged bucket should have on average: with fewer, a line shows mostly noise."""


@dataclass(slots=True)
class GroupTotals:
    """Sums over the lists of one A/B group in one time span."""

    lists: float = 0.0
    settled: float = 0.0
    clicked: float = 0.0
    value: float = 0.0
    squares: float = 0.0  # of the values
    regret: float = 0.0
    regret_lists: float = 0.0
    exploration: float = 0.0  # exploration shares, weighted by lists
    exploration_lists: float = 0.0  # lists with an exploration share

    def add(self, group: GroupSummary) -> None:
        """Add the lists of a bucket."""
        self.lists += group.lists
        self.settled += group.settled
        self.clicked += group.clicked
        self.value += group.value
        self.squares += group.value_squares
        if group.regret is not None:
            self.regret += group.regret
            self.regret_lists += group.regret_lists
        if group.exploration_share is not None:
            self.exploration += group.exploration_share * group.lists
            self.exploration_lists += group.lists

    @property
    def value_per_list(self) -> float | None:
        """The value per list, in the objective."""
        return self.value / self.settled if self.settled else None

    @property
    def moments(self) -> Moments:
        """The values of the settled lists."""
        return Moments(self.settled, self.value, self.squares)

    def bounds(self, written: ValueFormat) -> tuple[float, float] | None:
        """Return the 95 % interval of the value per list."""
        return wilson(self.value, self.settled) if written.is_rate else mean_interval(self.moments)

    @property
    def exploration_share(self) -> float | None:
        """The share of the scores that comes from exploration."""
        return self.exploration / self.exploration_lists if self.exploration_lists else None

    @property
    def mean_regret(self) -> float | None:
        """The regret per list."""
        return self.regret / self.regret_lists if self.regret_lists else None


@dataclass(frozen=True, slots=True)
class MergedBucket:
    """A time span with the lists of both A/B groups."""

    start: float
    seconds: float
    treatment: GroupTotals
    control: GroupTotals


def merge_buckets(times: Sequence[TimeBucket], limit: int) -> list[MergedBucket]:
    """Return at most `limit` adjacent buckets of equal length, including empty ones."""
    if not times:
        return []
    unit = times[0].seconds
    first = times[0].start
    units = round((times[-1].start - first) / unit) + 1
    settled = sum(bucket.treatment.settled + bucket.control.settled for bucket in times)
    wanted = max(1, min(limit, units, int(settled / MIN_SETTLED_LISTS)))
    width = math.ceil(units / wanted)
    merged = [
        MergedBucket(first + n * width * unit, width * unit, GroupTotals(), GroupTotals())
        for n in range(math.ceil(units / width))
    ]
    for bucket in times:
        target = merged[round((bucket.start - first) / unit) // width]
        target.treatment.add(bucket.treatment)
        target.control.add(bucket.control)
    return _join_incomplete(merged)


def _join_incomplete(merged: list[MergedBucket]) -> list[MergedBucket]:
    """Join the last bucket with the one before it if it has less than half of the usual lists."""
    *before, last = merged
    if not before or _lists(last) >= sum(map(_lists, before)) / (2 * len(before)):
        return merged
    target = before.pop()
    for totals, added in ((target.treatment, last.treatment), (target.control, last.control)):
        for name in GroupTotals.__slots__:
            setattr(totals, name, getattr(totals, name) + getattr(added, name))
    joined = MergedBucket(target.start, target.seconds + last.seconds, target.treatment, target.control)
    return [*before, joined]


def _lists(bucket: MergedBucket) -> float:
    return bucket.treatment.lists + bucket.control.lists


def change(last: GroupTotals, first: GroupTotals, written: ValueFormat) -> tuple[float, float, float, float] | None:
    """Return the difference of two values per list, its 95 % interval, and the probability that the last is larger."""
    if written.is_rate:
        return difference((last.value, last.settled), (first.value, first.settled))
    return mean_difference(last.moments, first.moments)


def first_and_last_third(times: Sequence[TimeBucket], field: str = "settled") -> tuple[GroupTotals, GroupTotals] | None:
    """Return about the first and the last third of the treatment lists, or None if the buckets do not separate them."""
    total = sum(getattr(bucket.treatment, field) for bucket in times)
    first, last, before = GroupTotals(), GroupTotals(), 0
    for bucket in times:
        size = getattr(bucket.treatment, field)
        middle = before + size / 2
        if middle <= total / 3:
            first.add(bucket.treatment)
        elif middle > 2 * total / 3:
            last.add(bucket.treatment)
        before += size
    return (first, last) if first.lists and last.lists else None
