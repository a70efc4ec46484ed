"""The estimates of a ranker's items, as a table that can be sorted, searched and paged."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rankloop.analytics.intervals import NORMAL_95
from rankloop.analytics.learned_effects import SlotWorth, TrustSummary, score_trust, slot_worths
from rankloop.analytics.ranker_state import RankerState
from rankloop.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class ItemEstimate:
    """The estimated value of an item in slot 0 with a 95 % interval, and its counts in both A/B groups.

    `shown`, `clicked` and `click_through` are those of the treatment group.
    """

    item: str
    enabled: bool
    estimate: float | None
    low: float | None
    high: float | None
    shown: int
    clicked: int
    click_through: float | None  # clicked / shown
    control_shown: int
    control_clicked: int
    control_click_through: float | None


@dataclass(frozen=True)
class EstimateTable:
    """A copy of the numbers of n items, so that sorting and searching need no lock.

    Only the rows of the requested page become objects: with ten thousand items, building them takes most of the time.
    """

    ids: Sequence[str]
    present: IntArray  # columns of the items that were not removed, in the order in which they were added
    enabled: BoolArray  # [n]
    mean: FloatArray  # [n], NaN without an estimate
    half: FloatArray  # [n], half of the 95 % interval, NaN without one
    shown: IntArray  # [group, n]
    clicked: IntArray  # [group, n]
    slots: list[SlotWorth]  # empty if the policy learns no position bias
    trust: TrustSummary | None  # in the caller's scores

    def rows(
        self,
        sort: str = "estimate",
        order: str | None = None,
        search: str = "",
        limit: int | None = None,
        skip: int = 0,
    ) -> tuple[list[ItemEstimate], int]:
        """Return one page of the items whose id contains a text, and the number of all such items.

        Args:
            sort: a column, counts being those of the treatment group; items without a value come last.
            order: ascending or descending; the default is ascending for ids and descending for numbers.
            search: text to find in the ids, ignoring case.
            limit: maximum number of rows; None for all.
            skip: number of rows to skip.
        """
        columns = self.present
        if search:
            text = search.lower()
            columns = np.array([at for at in columns.tolist() if text in self.ids[at].lower()], dtype=np.int64)
        columns = self._sorted(columns, sort, order)
        page = columns[skip:] if limit is None else columns[skip : skip + limit]
        return [self._row(at) for at in page.tolist()], len(columns)

    def _sorted(self, columns: IntArray, sort: str, order: str | None) -> IntArray:
        if sort == "item":
            by_id = sorted(columns.tolist(), key=self.ids.__getitem__, reverse=order == "descending")
            return np.array(by_id, dtype=np.int64)
        numbers = self._numbers(sort)[columns]
        return columns[np.argsort(numbers if order == "ascending" else -numbers, kind="stable")]

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
        raise ValueError(f"sort is {sort!r}; accepted: item, estimate, shown, clicked, click_through")

    def _row(self, at: int) -> ItemEstimate:
        mean, half = _finite(self.mean[at]), _finite(self.half[at])
        low, high = (None, None) if mean is None or half is None else (mean - half, mean + half)
        groups = zip(self.shown[:, at].tolist(), self.clicked[:, at].tolist(), strict=True)
        treatment, control = ((n, clicks, clicks / n if n else None) for n, clicks in groups)
        return ItemEstimate(self.ids[at], bool(self.enabled[at]), mean, low, high, *treatment, *control)


def estimate_table(state: RankerState, segment: str) -> EstimateTable:
    """Return the current estimates of a segment's learner for all items, with the counts of all segments."""
    table, counters, n = state.items, state.counters, len(state.items.ids)
    mean, half = (_or_nan(numbers, n) for numbers in slot_estimates(state, segment))
    shown, clicked = (
        np.einsum("anp->an", counts[:, :n]).astype(np.int64) for counts in (counters.shown, counters.clicked)
    )
    return EstimateTable(
        ids=list(table.ids),
        present=table.present,
        enabled=table.enabled[:n].copy(),
        mean=mean,
        half=half,
        shown=shown,
        clicked=clicked,
        slots=slot_worths(state, segment),
        trust=score_trust(state, segment),
    )


def slot_estimates(state: RankerState, segment: str) -> tuple[FloatArray | None, FloatArray | None]:
    """Return the estimates of all items in slot 0 and half of their 95 % intervals, [capacity] each.

    Both are None if the policy has no estimates. A context of zeros stands for all contexts.
    """
    learners = state.learners
    estimates = learners.policy.estimates(learners.of(segment), learners.request(1, learners.no_context()))
    if estimates is None:
        return None, None
    mean, deviation = estimates
    return mean[0], None if deviation is None else NORMAL_95 * deviation[0]


def _or_nan(numbers: FloatArray | None, n: int) -> FloatArray:
    return np.full(n, np.nan) if numbers is None else numbers[:n].copy()


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
