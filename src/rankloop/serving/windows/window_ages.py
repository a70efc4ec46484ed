"""How long decisions have been open: by a clock that never jumps, and after a restart by the stamps of the log."""

from __future__ import annotations

import time
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from rankloop.types import BoolArray, FloatArray

Clock = Callable[[], float]
SPARE_MARKS = 4096
"""Marks of settled decisions that are kept at least, before all of them are removed in one pass."""


class ForwardClock:
    """The time that a clock has run forward: a backward step counts as no time at all.

    A forward step cannot be told from time that passes.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock, self._last, self._behind = clock, clock(), 0.0

    def __call__(self) -> float:
        """Return the time without the backward steps so far."""
        now = self._clock()
        self._behind += max(0.0, self._last - now)
        self._last = now
        return now + self._behind


def monotonic_of(clock: Clock) -> Clock:
    """Return the clock that ages open decisions beside a given wall clock.

    For the machine's wall clock that is its monotonic clock. Any other clock is a simulated one, which then tells both
    times; its backward steps count as no time.
    """
    return time.monotonic if clock is time.time else ForwardClock(clock)


class WindowAges:
    """Since when decisions are open, in the seconds of a monotonic clock, by log position.

    A mark says that the decisions up to a position are open since a time at the latest. Each decision has a mark of
    its own, so its window closes neither early nor late.
    """

    def __init__(self) -> None:
        self._positions, self._since = array("q"), array("d")

    def __len__(self) -> int:
        return len(self._positions)

    def add(self, position: int, since: float) -> None:
        """Mark the decision at a position, which is later in the log than all others."""
        self._positions.append(position)
        self._since.append(max(since, self._since[-1]) if self._since else since)

    def due(self, now: float, window: float) -> int:
        """Return the position up to which the windows of all decisions have ended; 0 if none has."""
        ended = bisect_right(self._since, now, key=lambda since: since + window)
        return self._positions[ended - 1] if ended else 0

    @property
    def last(self) -> int:
        """The position of the last mark; 0 if there is none."""
        return self._positions[-1] if self._positions else 0

    def forget_before(self, position: int) -> None:
        """Remove the marks before a position, where no decision is open any more."""
        settled = bisect_left(self._positions, position)
        del self._positions[:settled], self._since[:settled]

    def forget_settled(self, positions: Iterable[int], count: int) -> None:
        """Remove the marks of settled decisions, if there are many.

        Args:
            positions: of the open decisions, in order.
            count: how many they are.
        """
        if len(self) > 2 * count + SPARE_MARKS:
            kept = np.isin(np.array(self._positions), np.fromiter(positions, np.int64, count), assume_unique=True)
            self._positions = array("q", np.array(self._positions)[kept].tobytes())
            self._since = array("d", np.array(self._since)[kept].tobytes())

    def restore(self, positions: Sequence[int], times: Sequence[float], wall: float, monotonic: float) -> None:
        """Mark decisions that another process made, by their stamps and the current time of both clocks."""
        stamps = believable(np.array(times, dtype=np.float64), wall)
        self._positions, self._since = array("q", positions), array("d", (stamps + (monotonic - wall)).tobytes())


def believable(times: FloatArray, now: float) -> FloatArray:
    """Return stamps in log order as times that never decrease and do not lie in the future.

    A stamp is believed if it belongs to the largest set of stamps that never decrease and are not after `now`. Each
    other one, made by a clock that was wrong then, is replaced by the next one that is believed, or by `now`: if the
    believed stamps are right, no decision is taken for older than it is, nor for younger than the next one.
    """
    believed = np.full(len(times), fill_value=False)
    past = np.flatnonzero(times <= now)
    believed[past[_longest_run(times[past])]] = True
    return np.asarray(np.minimum.accumulate(np.where(believed, times, now)[::-1])[::-1])


def _longest_run(times: FloatArray) -> BoolArray:
    """Return which times form a longest subsequence that never decreases."""
    if (times[1:] >= times[:-1]).all():
        return np.full(len(times), fill_value=True)
    ends: list[float] = []  # the smallest last time of a subsequence of each length
    lengths = [0] * len(times)  # of the longest subsequence that ends with each time
    for i, at in enumerate(times.tolist()):
        lengths[i] = bisect_right(ends, at)
        ends[lengths[i] : lengths[i] + 1] = [at]
    member, wanted, bound = np.full(len(times), fill_value=False), len(ends) - 1, np.inf
    for i in range(len(times) - 1, -1, -1):
        if lengths[i] == wanted and times[i] <= bound:
            member[i], wanted, bound = True, wanted - 1, float(times[i])
    return member
