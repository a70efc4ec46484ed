"""The overview of a ranker: A/B groups, lift, time series and feedback delays, computed from counters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from rankloop.analytics.counters import (
    CLICKED,
    EXPLORATION,
    EXPLORATION_SLOTS,
    EXPLORED,
    FEEDBACK_DELAY_BOUNDS,
    FIELDS,
    GROUPS,
    LISTS,
    REGRET,
    REGRET_LISTS,
    SETTLED,
    SQUARES,
    VALUE,
    Counts,
)
from rankloop.analytics.intervals import difference, wilson
from rankloop.analytics.kind_overview import kind_summaries
from rankloop.analytics.list_value import UNITS, is_binary
from rankloop.analytics.mean_intervals import Moments, mean_difference, mean_interval
from rankloop.analytics.ranker_state import RankerState
from rankloop.schema import GroupSummary, Lift
from rankloop.schema.answers import KindSummary

BUCKET_MINUTES = (1, 2, 5, 10, 15, 30, 60, 120, 180, 240, 360, 720, 1440)
"""Lengths of a time bucket, in minutes; all divide a day."""


@dataclass(frozen=True, slots=True)
class TimeBucket:
    """The decisions of one time span, with the outcomes known so far."""

    start: float
    seconds: float
    treatment: GroupSummary
    control: GroupSummary


@dataclass(frozen=True, slots=True)
class FeedbackDelay:
    """Number of lists whose first feedback arrived within a bound, and after the bound before it."""

    within: float | None  # seconds; None in the last bin, which has no upper bound
    lists: int


@dataclass(frozen=True, slots=True)
class ConfigMarker:
    """A change of the settings or of the guardrail, which charts mark."""

    time: float
    label: str


@dataclass(frozen=True, slots=True)
class Overview:
    """The state and the results of a ranker."""

    policy: str
    mode: str
    traffic: float
    guardrail_tripped: str | None  # the reason, if the guardrail has tripped
    since: float | None  # time of the first decision
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
    feedback_delay_seconds: float  # sum over all lists with feedback
    times: list[TimeBucket]
    changes: list[ConfigMarker]  # within these times, in order
    objective: str  # in which lists are valued: that of the settings, or net-reward
    unit: str  # of the values: see `list_value.UNITS`
    kinds: list[KindSummary] = field(default_factory=list)  # of feedback, if the settings declare some
    unshown: int = 0  # lists, among the withdrawn, without the impression that would have counted them


def group_summary(counts: Sequence[float], objective: str) -> GroupSummary:
    """Summarize one A/B group from its counts, one for each of `FIELDS`, with values in an objective."""
    if len(counts) != len(FIELDS):
        raise ValueError(f"counts has {len(counts)} values; accepted: {len(FIELDS)}, one for each field")
    bounds = wilson(counts[CLICKED], counts[SETTLED])
    worth = bounds if is_binary(objective) else mean_interval(_moments(counts))
    return GroupSummary(
        lists=int(counts[LISTS]),
        settled=int(counts[SETTLED]),
        clicked=int(counts[CLICKED]),
        click_through=_ratio(counts[CLICKED], counts[SETTLED]),
        low=None if bounds is None else bounds[0],
        high=None if bounds is None else bounds[1],
        value=counts[VALUE],
        value_per_list=_ratio(counts[VALUE], counts[SETTLED]),
        value_low=None if worth is None else worth[0],
        value_high=None if worth is None else worth[1],
        value_squares=counts[SQUARES],
        regret=counts[REGRET] if counts[REGRET_LISTS] else None,
        regret_lists=int(counts[REGRET_LISTS]),
        exploration_share=_ratio(counts[EXPLORATION], counts[EXPLORATION_SLOTS]),
        explored=int(counts[EXPLORED]),
    )


def lift(counts: Counts, objective: str) -> Lift | None:
    """Return the lift of treatment over control in an objective, or None if one group has no outcomes."""
    treatment, control = (_moments(fields) for fields in counts)
    if is_binary(objective):
        estimate = difference((treatment.total, treatment.n), (control.total, control.n))
    else:
        estimate = mean_difference(treatment, control)
    if estimate is None:
        return None
    absolute, low, high, better = estimate
    return Lift(absolute, low, high, absolute / abs(control.total / control.n) if control.total else None, better)


def _moments(counts: Sequence[float]) -> Moments:
    """Return the values of a group."""
    return Moments(counts[SETTLED], counts[VALUE], counts[SQUARES])


def overview(state: RankerState, hours: float = 2.0, points: int = 120) -> Overview:
    """Return the overview of a ranker, with the last `hours` in at most about `points` time buckets."""
    counters, config, times = state.counters, state.config, _times(state, hours, points)
    objective = state.objective
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
        groups={name: group_summary(counts, objective) for name, counts in zip(GROUPS, counters.total, strict=True)},
        lift=lift(counters.total, objective),
        feedback_delays=[
            FeedbackDelay(within, lists)
            for within, lists in zip((*FEEDBACK_DELAY_BOUNDS, None), counters.feedback_delays, strict=True)
        ],
        feedback_delay_seconds=counters.feedback_delay_seconds,
        times=times,
        changes=_changes(state, times),
        objective=objective,
        unit=UNITS[objective],
        kinds=kind_summaries(counters),
        unshown=counters.unshown,
    )


def _changes(state: RankerState, times: Sequence[TimeBucket]) -> list[ConfigMarker]:
    """Return the changes from the start of the first bucket to the end of the last."""
    if not times:
        return []
    start, end = times[0].start, times[-1].start + times[-1].seconds
    return [ConfigMarker(time, label) for time, label in sorted(state.changes) if start <= time <= end]


def _times(state: RankerState, hours: float, points: int) -> list[TimeBucket]:
    """Return the buckets of the last hours before the last decision; minutes are merged to stay within `points`."""
    counters = state.counters
    if hours <= 0.0 or not counters.minutes:
        return []
    last = max(counters.minutes)
    first = last - int(60 * hours)
    old = [(60 * hour, counts) for hour, counts in counters.hours.items() if 60 * hour > first]
    periods = old + [(minute, counts) for minute, counts in counters.minutes.items() if minute > first]
    minutes = np.array([minute for minute, _ in periods])
    width = _bucket_minutes(last - int(minutes.min()) + 1, points, 60 if old else 1)
    at, bucket = np.unique(minutes // width, return_inverse=True)
    sums = np.zeros((len(at), len(GROUPS), len(FIELDS)))
    flat = chain.from_iterable(chain.from_iterable(counts) for _, counts in periods)
    np.add.at(sums, bucket, np.fromiter(flat, np.float64, len(periods) * sums[0].size).reshape(-1, *sums.shape[1:]))
    return [
        TimeBucket(60.0 * width * start, 60.0 * width, *(group_summary(fields, state.objective) for fields in counts))
        for start, counts in zip(at.tolist(), sums.tolist(), strict=True)
    ]


def _bucket_minutes(minutes: int, points: int, shortest: int) -> int:
    """Return a bucket length in minutes, so that `minutes` need at most `points` buckets; it divides days."""
    needed = max(shortest, math.ceil(minutes / points))
    return next((width for width in BUCKET_MINUTES if width >= needed), 1440 * math.ceil(needed / 1440))


@dataclass(frozen=True, slots=True)
class SlotCounts:
    """How often an item was shown and clicked in each slot, in one A/B group."""

    shown: list[int]
    clicked: list[int]


@dataclass(frozen=True, slots=True)
class ItemSlotCounts:
    """The counts of an item by slot, in both A/B groups."""

    item: str
    treatment: SlotCounts
    control: SlotCounts


def slot_counts(state: RankerState, limit: int) -> list[ItemSlotCounts]:
    """Return the counts of the `limit` most shown items; the last tracked slot counts all later slots too."""
    counters = state.counters
    totals = np.einsum("np->n", counters.shown[0] + counters.shown[1]).astype(np.int64)
    most = [at for at in np.argsort(-totals, kind="stable")[:limit].tolist() if totals[at]]
    shown, clicked = counters.shown[:, most].tolist(), counters.clicked[:, most].tolist()
    return [
        ItemSlotCounts(
            state.items.ids[at], *(SlotCounts(shown[group][n], clicked[group][n]) for group in range(len(GROUPS)))
        )
        for n, at in enumerate(most)
    ]


def _ratio(a: float, b: float) -> float | None:
    return a / b if b else None
