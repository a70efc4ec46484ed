"""How a ranker does: against control, over time, item by item. Read from counts, never from the log."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from rankloop.analytics.counters import (
    CLICKED,
    EXPLORED,
    EXPLORING,
    FIELDS,
    GROUPS,
    KNOWN,
    LAGS,
    LISTS,
    REGRET,
    SETTLED,
    SLOTS,
    VALUE,
    Counts,
)
from rankloop.analytics.intervals import difference, wilson
from rankloop.analytics.ranker_state import RankerState
from rankloop.schema import GroupSummary, Lift

SPANS = (1, 2, 5, 10, 15, 30, 60, 120, 180, 240, 360, 720, 1440)
"""Minutes that are put together."""


@dataclass(frozen=True, slots=True)
class TimeBucket:
    """Lists decided in one span of time, and what became of them so far."""

    start: float
    seconds: float
    treatment: GroupSummary
    control: GroupSummary


@dataclass(frozen=True, slots=True)
class FeedbackDelay:
    """Lists whose feedback came within so many seconds, and not within the bound before."""

    within: float | None  # None: later than all bounds
    lists: int


@dataclass(frozen=True, slots=True)
class ConfigMarker:
    """Something about the ranker changed: charts mark it."""

    time: float
    label: str


@dataclass(frozen=True, slots=True)
class Overview:
    """A ranker at a glance."""

    policy: str
    mode: str
    traffic: float
    guardrail_tripped: str | None  # why the guard fell back to the control order, if it did
    since: float | None  # the first list
    items: int
    segments: int
    decisions: int
    open_decisions: int
    position: int
    late: int
    closed: int
    withdrawn: int
    groups: dict[str, GroupSummary]
    lift: Lift | None
    feedback_delays: list[FeedbackDelay]
    feedback_delay_seconds: float  # summed over them
    times: list[TimeBucket]
    changes: list[ConfigMarker]  # within those times, in their order


def group_summary(counts: Sequence[float]) -> GroupSummary:
    """Numbers of one group, from its counts."""
    if len(counts) != len(FIELDS):
        raise ValueError("counts are one for each field")
    bounds = wilson(counts[CLICKED], counts[SETTLED])
    return GroupSummary(
        lists=int(counts[LISTS]),
        settled=int(counts[SETTLED]),
        clicked=int(counts[CLICKED]),
        click_through=_ratio(counts[CLICKED], counts[SETTLED]),
        low=None if bounds is None else bounds[0],
        high=None if bounds is None else bounds[1],
        value=counts[VALUE],
        regret=counts[REGRET] if counts[KNOWN] else None,
        regret_lists=int(counts[KNOWN]),
        exploration_share=_ratio(counts[EXPLORING], counts[SLOTS]),
        explored=int(counts[EXPLORED]),
    )


def lift(counts: Counts) -> Lift | None:
    """The policy beside control; None where one of them has no outcome."""
    (n, clicks), (m, own) = ((one[SETTLED], one[CLICKED]) for one in counts)
    found = difference((clicks, n), (own, m))
    if found is None:
        return None
    gained, low, high, better = found
    return Lift(gained, low, high, gained / (own / m) if own else None, better)


def overview(state: RankerState, hours: float = 2.0, points: int = 120) -> Overview:
    """A ranker at a glance, with the last hours in at most so many spans of time."""
    counters, config, times = state.counters, state.config, _times(state, hours, points)
    return Overview(
        policy=config.policy,
        mode=config.mode,
        traffic=config.traffic,
        guardrail_tripped=state.guardrail_tripped,
        since=counters.since,
        **state.counts(),
        late=counters.late,
        closed=counters.closed,
        withdrawn=counters.withdrawn,
        groups={name: group_summary(counts) for name, counts in zip(GROUPS, counters.total, strict=True)},
        lift=lift(counters.total),
        feedback_delays=[
            FeedbackDelay(within, lists) for within, lists in zip((*LAGS, None), counters.feedback_delays, strict=True)
        ],
        feedback_delay_seconds=counters.feedback_delay_seconds,
        times=times,
        changes=_changes(state, times),
    )


def _changes(state: RankerState, times: Sequence[TimeBucket]) -> list[ConfigMarker]:
    """Changes from the beginning of the first span of time to the end of the last."""
    if not times:
        return []
    start, end = times[0].start, times[-1].start + times[-1].seconds
    return [ConfigMarker(time, label) for time, label in sorted(state.changes) if start <= time <= end]


def _times(state: RankerState, hours: float, points: int) -> list[TimeBucket]:
    """The last hours before the last list, minutes put together where they would be too many."""
    counters = state.counters
    if hours <= 0.0 or not counters.minutes:
        return []
    last = max(counters.minutes)
    first = last - int(60 * hours)
    old = [(60 * hour, counts) for hour, counts in counters.hours.items() if 60 * hour > first]
    kept = old + [(minute, counts) for minute, counts in counters.minutes.items() if minute > first]
    minutes = np.array([minute for minute, _ in kept])
    together = _together(last - int(minutes.min()) + 1, points, 60 if old else 1)
    at, where = np.unique(minutes // together, return_inverse=True)
    sums = np.zeros((len(at), len(GROUPS), len(FIELDS)))
    flat = chain.from_iterable(chain.from_iterable(counts) for _, counts in kept)
    np.add.at(sums, where, np.fromiter(flat, np.float64, len(kept) * sums[0].size).reshape(-1, *sums.shape[1:]))
    return [
        TimeBucket(60.0 * together * start, 60.0 * together, *(group_summary(own) for own in counts))
        for start, counts in zip(at.tolist(), sums.tolist(), strict=True)
    ]


def _together(minutes: int, points: int, least: int) -> int:
    """Minutes of a span, such that there are at most so many of them: a number that divides hours or days."""
    needed = max(least, math.ceil(minutes / points))
    return next((span for span in SPANS if span >= needed), 1440 * math.ceil(needed / 1440))


@dataclass(frozen=True, slots=True)
class SlotCounts:
    """How often an item stood in each slot of a group's lists, and was clicked there."""

    shown: list[int]
    clicked: list[int]


@dataclass(frozen=True, slots=True)
class ItemSlotCounts:
    """Where an item stood in lists of the policy, and in those of the control group."""

    item: str
    treatment: SlotCounts
    control: SlotCounts


def slot_counts(state: RankerState, limit: int) -> list[ItemSlotCounts]:
    """The items shown most in either group; the last slot counts for all that follow it."""
    counters = state.counters
    often = np.einsum("np->n", counters.shown[0] + counters.shown[1]).astype(np.int64)
    most = [at for at in np.argsort(-often, kind="stable")[:limit].tolist() if often[at]]
    shown, clicked = counters.shown[:, most].tolist(), counters.clicked[:, most].tolist()
    return [
        ItemSlotCounts(
            state.items.ids[at], *(SlotCounts(shown[group][n], clicked[group][n]) for group in range(len(GROUPS)))
        )
        for n, at in enumerate(most)
    ]


def _ratio(a: float, b: float) -> float | None:
    return a / b if b else None
