"""How a ranker does: against control, over time, item by item. Read from counts, never from the log."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankloop.engine.inside import belief_of
from rankloop.engine.intervals import NORMAL_95, difference, wilson
from rankloop.engine.replica import Replica
from rankloop.engine.tally import (
    ARMS,
    CLICKED,
    EXPLORED,
    EXPLORING,
    FIELDS,
    KNOWN,
    LAGS,
    LISTS,
    REGRET,
    SETTLED,
    SLOTS,
    VALUE,
    Counts,
)
from rankloop.types import FloatArray


@dataclass(frozen=True, slots=True)
class Arm:
    """Lists of the policy, or of the control group."""

    lists: int
    settled: int  # their outcome is known
    clicked: int
    click_through: float | None  # clicked of settled
    low: float | None  # a 95 % interval
    high: float | None
    value: float
    regret: float | None  # lost against the best list, over all lists where that is known
    regretted: int  # how many those are
    exploration_share: float | None
    explored: int  # lists that exploring changed, where that was looked at


@dataclass(frozen=True, slots=True)
class Bucket:
    """Lists decided in one span of time, and what became of them so far."""

    start: float
    seconds: float
    policy: Arm
    control: Arm


@dataclass(frozen=True, slots=True)
class Lift:
    """Click-through of the policy beside the control group's: the difference with a 95 % interval."""

    difference: float
    low: float
    high: float
    share: float | None  # the difference as a share of control's
    better: float  # probability that the policy is better


@dataclass(frozen=True, slots=True)
class Lag:
    """Lists whose feedback came within so many seconds, and not within the bound before."""

    within: float | None  # None: later than all bounds
    lists: int


@dataclass(frozen=True, slots=True)
class Overview:
    """A ranker at a glance."""

    policy: str
    mode: str
    traffic: float
    guarded: str | None  # why the guard fell back to the control order, if it did
    since: float | None  # the first list
    items: int
    segments: int
    decisions: int
    pending: int
    position: int
    late: int
    closed: int
    withdrawn: int
    arms: dict[str, Arm]
    lift: Lift | None
    lags: list[Lag]
    lag_seconds: float  # summed over them
    times: list[Bucket]


@dataclass(frozen=True, slots=True)
class Estimate:
    """What is believed of an item in the first slot, with a 95 % interval, and how often it was shown and clicked."""

    item: str
    enabled: bool
    estimate: float | None
    low: float | None
    high: float | None
    shown: int
    clicked: int
    click_through: float | None
    control_shown: int
    control_clicked: int


def arm(counts: Sequence[float]) -> Arm:
    """Numbers of one arm, from its counts."""
    if len(counts) != len(FIELDS):
        raise ValueError("counts are one for each field")
    bounds = wilson(counts[CLICKED], counts[SETTLED])
    return Arm(
        lists=int(counts[LISTS]),
        settled=int(counts[SETTLED]),
        clicked=int(counts[CLICKED]),
        click_through=_ratio(counts[CLICKED], counts[SETTLED]),
        low=None if bounds is None else bounds[0],
        high=None if bounds is None else bounds[1],
        value=counts[VALUE],
        regret=counts[REGRET] if counts[KNOWN] else None,
        regretted=int(counts[KNOWN]),
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


def overview(replica: Replica, hours: float = 2.0, points: int = 120) -> Overview:
    """A ranker at a glance, with the last hours in at most so many spans of time."""
    tally, config = replica.tally, replica.config
    return Overview(
        policy=config.policy,
        mode=config.mode,
        traffic=config.traffic,
        guarded=replica.guarded,
        since=tally.since,
        **replica.counts(),
        late=tally.late,
        closed=tally.closed,
        withdrawn=tally.withdrawn,
        arms={name: arm(counts) for name, counts in zip(ARMS, tally.total, strict=True)},
        lift=lift(tally.total),
        lags=[Lag(within, lists) for within, lists in zip((*LAGS, None), tally.lags, strict=True)],
        lag_seconds=tally.lag_seconds,
        times=_times(replica, hours, points),
    )


def _times(replica: Replica, hours: float, points: int) -> list[Bucket]:
    """The last hours, minutes put together where they would be too many."""
    tally = replica.tally
    if not tally.minutes:
        return []
    together = max(1, math.ceil(60 * hours / points))
    first = max(tally.minutes) - int(60 * hours)
    sums: dict[int, FloatArray] = {}
    old = ((60 * hour, counts) for hour, counts in tally.hours.items())
    for minute, counts in (*old, *tally.minutes.items()):
        if minute > first:
            at = minute // together
            sums[at] = sums.get(at, 0.0) + np.array(counts)
    return [
        Bucket(60.0 * together * at, 60.0 * together, *(arm(own) for own in counts.tolist()))
        for at, counts in sorted(sums.items())
    ]


def estimates(replica: Replica, segment: str) -> list[Estimate]:
    """What is believed of every item, in the order in which they were added."""
    learners, table, tally = replica.learners, replica.table, replica.tally
    inner, belief = belief_of(learners.policy, learners.of(segment))
    mean: FloatArray | None = None
    width: FloatArray | None = None
    if inner is not None and hasattr(belief, "mean"):
        context = None if replica.config.context is None else np.zeros((1, replica.config.context))
        rows = inner.design.rows(learners.request(1, context), np.empty((1, 0), dtype=np.int64), 0)
        shape = (1, table.capacity)
        mean = np.broadcast_to(belief.mean(rows), shape)[0]
        width = np.broadcast_to(belief.width(rows), shape)[0] if hasattr(belief, "width") else None
    shown, clicked = tally.shown.sum(axis=2), tally.clicked.sum(axis=2)
    return [
        _estimate(id, bool(table.enabled[at]), at, mean, width, shown[:, at].tolist(), clicked[:, at].tolist())
        for at, id in enumerate(table.ids)
        if table.has(id)
    ]


def _estimate(
    id: str,
    enabled: bool,
    at: int,
    mean: FloatArray | None,
    width: FloatArray | None,
    shown: list[int],
    clicked: list[int],
) -> Estimate:
    middle = None if mean is None else _finite(mean[at])
    half = None if width is None else _finite(NORMAL_95 * width[at])
    low, high = (None, None) if middle is None or half is None else (middle - half, middle + half)
    rate = _ratio(clicked[0] + clicked[1], shown[0] + shown[1])
    return Estimate(id, enabled, middle, low, high, shown[0], clicked[0], rate, shown[1], clicked[1])


@dataclass(frozen=True, slots=True)
class Places:
    """How often an item stood in each place, and was clicked there."""

    item: str
    shown: list[int]
    clicked: list[int]


def places(replica: Replica, limit: int) -> list[Places]:
    """The items shown most, of both arms; the last place counts for all that follow it."""
    shown, clicked = replica.tally.shown.sum(axis=0), replica.tally.clicked.sum(axis=0)
    most = np.argsort(-shown.sum(axis=1), kind="stable")[:limit]
    return [
        Places(replica.table.ids[at], shown[at].tolist(), clicked[at].tolist())
        for at in most.tolist()
        if shown[at].any()
    ]


def _ratio(a: float, b: float) -> float | None:
    return a / b if b else None


def _finite(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None
