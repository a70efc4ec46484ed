"""What a ranker believes of its items, as a table that can be sorted, searched and read page by page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rankloop.analytics.intervals import NORMAL_95
from rankloop.analytics.ranker_state import RankerState
from rankloop.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class ItemEstimate:
    """What is believed of an item in the first slot, with a 95 % interval, and how often it was shown and clicked.

    `shown`, `clicked` and `click_through` are of the policy's lists; control's have names of their own.
    """

    item: str
    enabled: bool
    estimate: float | None
    low: float | None
    high: float | None
    shown: int
    clicked: int
    click_through: float | None  # clicked of shown
    control_shown: int
    control_clicked: int
    control_click_through: float | None


@dataclass(frozen=True)
class EstimateTable:
    """A copy of the numbers of n items: whoever sorts and searches it holds up nobody.

    Only the rows that somebody reads become estimates; with ten thousand items that is most of the time.
    """

    ids: Sequence[str]
    there: IntArray  # those that were not removed, in the order in which they were added
    enabled: BoolArray  # [n]
    mean: FloatArray  # [n], NaN where nothing is believed
    half: FloatArray  # [n], of a 95 % interval, NaN where there is none
    shown: IntArray  # [group, n]
    clicked: IntArray  # [group, n]

    def rows(
        self,
        sort: str = "estimate",
        order: str | None = None,
        search: str = "",
        limit: int | None = None,
        skip: int = 0,
    ) -> tuple[list[ItemEstimate], int]:
        """Some of the items whose id has these letters, and how many those are.

        Args:
            sort: a column, numbers of the policy's lists; items of which it says nothing come last.
            order: ascending or descending; names go from a to z, numbers from the largest, unless this says so.
            search: letters, large or small.
            limit: at most so many.
            skip: so many come before them.
        """
        found = self.there
        if search:
            letters = search.lower()
            found = np.array([at for at in found.tolist() if letters in self.ids[at].lower()], dtype=np.int64)
        found = self._sorted(found, sort, order)
        page = found[skip:] if limit is None else found[skip : skip + limit]
        return [self._row(at) for at in page.tolist()], len(found)

    def _sorted(self, found: IntArray, sort: str, order: str | None) -> IntArray:
        if sort == "item":
            names = sorted(found.tolist(), key=self.ids.__getitem__, reverse=order == "descending")
            return np.array(names, dtype=np.int64)
        numbers = self._numbers(sort)[found]
        return found[np.argsort(numbers if order == "ascending" else -numbers, kind="stable")]

    def _numbers(self, sort: str) -> FloatArray:
        match sort:
            case "estimate":
                return self.mean
            case "click_through":
                shown, rate = self.shown[0], np.full(len(self.ids), np.nan)
                np.divide(self.clicked[0], shown, out=rate, where=shown > 0)
                return rate
            case "shown" | "clicked":
                return np.asarray((self.shown if sort == "shown" else self.clicked)[0], dtype=float)
        raise ValueError(f"nothing can be sorted by {sort}")

    def _row(self, at: int) -> ItemEstimate:
        middle, half = _finite(self.mean[at]), _finite(self.half[at])
        low, high = (None, None) if middle is None or half is None else (middle - half, middle + half)
        groups = zip(self.shown[:, at].tolist(), self.clicked[:, at].tolist(), strict=True)
        policy, control = ((n, clicks, clicks / n if n else None) for n, clicks in groups)
        return ItemEstimate(self.ids[at], bool(self.enabled[at]), middle, low, high, *policy, *control)


def estimate_table(state: RankerState, segment: str) -> EstimateTable:
    """What the learner of a segment believes of every item now, and how often each was shown and clicked."""
    table, counters, n = state.items, state.counters, len(state.items.ids)
    mean, half = (_or_nothing(numbers, n) for numbers in believed(state, segment))
    shown, clicked = (
        np.einsum("anp->an", counts[:, :n]).astype(np.int64) for counts in (counters.shown, counters.clicked)
    )
    return EstimateTable(list(table.ids), table.present, table.enabled[:n].copy(), mean, half, shown, clicked)


def believed(state: RankerState, segment: str) -> tuple[FloatArray | None, FloatArray | None]:
    """The estimate of every column in the first slot, and half of its interval, [capacity]; None without any."""
    learners = state.learners
    context = None if state.config.context is None else np.zeros((1, state.config.context))
    found = learners.policy.estimates(learners.of(segment), learners.request(1, context))
    if found is None:
        return None, None
    mean, width = found
    return mean[0], None if width is None else NORMAL_95 * width[0]


def _or_nothing(numbers: FloatArray | None, n: int) -> FloatArray:
    return np.full(n, np.nan) if numbers is None else numbers[:n].copy()


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
