"""Time in as many spans as the lists can fill."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rankloop.analytics.intervals import wilson
from rankloop.analytics.overview import TimeBucket
from rankloop.schema import GroupSummary

FULL = 120
"""Settled lists that a span should have: with fewer, a line shows noise."""


@dataclass(slots=True)
class Sums:
    """Lists of one group in one span."""

    lists: float = 0.0
    settled: float = 0.0
    clicked: float = 0.0
    regret: float = 0.0
    regret_lists: float = 0.0
    exploring: float = 0.0  # exploration shares, each as often as it had lists
    explored_lists: float = 0.0  # lists that had one

    def add(self, group: GroupSummary) -> None:
        """One more bucket."""
        self.lists += group.lists
        self.settled += group.settled
        self.clicked += group.clicked
        if group.regret is not None:
            self.regret += group.regret
            self.regret_lists += group.regret_lists
        if group.exploration_share is not None:
            self.exploring += group.exploration_share * group.lists
            self.explored_lists += group.lists

    @property
    def rate(self) -> float | None:
        """Click-through."""
        return self.clicked / self.settled if self.settled else None

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Its 95 % interval."""
        return wilson(self.clicked, self.settled)

    @property
    def share(self) -> float | None:
        """Of scores that explored."""
        return self.exploring / self.explored_lists if self.explored_lists else None

    @property
    def loss(self) -> float | None:
        """Regret of a list."""
        return self.regret / self.regret_lists if self.regret_lists else None


@dataclass(frozen=True, slots=True)
class Span:
    """Some time, and the lists of both groups in it."""

    start: float
    seconds: float
    policy: Sums
    control: Sums


def spans(times: Sequence[TimeBucket], most: int) -> list[Span]:
    """At most so many spans, all equally long; those without any list are there too."""
    if not times:
        return []
    unit = times[0].seconds
    first = times[0].start
    units = round((times[-1].start - first) / unit) + 1
    settled = sum(bucket.treatment.settled + bucket.control.settled for bucket in times)
    wanted = max(1, min(most, units, int(settled / FULL)))
    together = math.ceil(units / wanted)
    found = [
        Span(first + n * together * unit, together * unit, Sums(), Sums()) for n in range(math.ceil(units / together))
    ]
    for bucket in times:
        at = found[round((bucket.start - first) / unit) // together]
        at.policy.add(bucket.treatment)
        at.control.add(bucket.control)
    return _whole(found)


def _whole(found: list[Span]) -> list[Span]:
    """The last span has only begun: with few lists it belongs to the one before."""
    *before, last = found
    if not before or _lists(last) >= sum(map(_lists, before)) / (2 * len(before)):
        return found
    to = before.pop()
    for mine, other in ((to.policy, last.policy), (to.control, last.control)):
        for name in Sums.__slots__:
            setattr(mine, name, getattr(mine, name) + getattr(other, name))
    return [*before, Span(to.start, to.seconds + last.seconds, to.policy, to.control)]


def _lists(span: Span) -> float:
    return span.policy.lists + span.control.lists


def ends(times: Sequence[TimeBucket], lists: str = "settled") -> tuple[Sums, Sums] | None:
    """About the first third of the policy's lists, and the last; None where time does not tell them apart."""
    whole = sum(getattr(bucket.treatment, lists) for bucket in times)
    first, last, so_far = Sums(), Sums(), 0
    for bucket in times:
        size = getattr(bucket.treatment, lists)
        middle = so_far + size / 2
        if middle <= whole / 3:
            first.add(bucket.treatment)
        elif middle > 2 * whole / 3:
            last.add(bucket.treatment)
        so_far += size
    return (first, last) if first.lists and last.lists else None
