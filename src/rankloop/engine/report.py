"""How a ranker does: against control, over time, item by item. Read from counts, never from the log."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from rankloop.engine.intervals import difference, wilson
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
from rankloop.schema import Arm, Lift

SPANS = (1, 2, 5, 10, 15, 30, 60, 120, 180, 240, 360, 720, 1440)
"""Minutes that are put together."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """Lists decided in one span of time, and what became of them so far."""

    start: float
    seconds: float
    policy: Arm
    control: Arm


@dataclass(frozen=True, slots=True)
class Lag:
    """Lists whose feedback came within so many seconds, and not within the bound before."""

    within: float | None  # None: later than all bounds
    lists: int


@dataclass(frozen=True, slots=True)
class Change:
    """Something about the ranker changed: charts mark it."""

    time: float
    label: str


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
    changes: list[Change]  # within those times, in their order


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
    tally, config, times = replica.tally, replica.config, _times(replica, hours, points)
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
        times=times,
        changes=_changes(replica, times),
    )


def _changes(replica: Replica, times: Sequence[Bucket]) -> list[Change]:
    """Changes from the beginning of the first span of time to the end of the last."""
    if not times:
        return []
    start, end = times[0].start, times[-1].start + times[-1].seconds
    return [Change(time, label) for time, label in sorted(replica.changes) if start <= time <= end]


def _times(replica: Replica, hours: float, points: int) -> list[Bucket]:
    """The last hours before the last list, minutes put together where they would be too many."""
    tally = replica.tally
    if hours <= 0.0 or not tally.minutes:
        return []
    last = max(tally.minutes)
    first = last - int(60 * hours)
    old = [(60 * hour, counts) for hour, counts in tally.hours.items() if 60 * hour > first]
    kept = old + [(minute, counts) for minute, counts in tally.minutes.items() if minute > first]
    minutes = np.array([minute for minute, _ in kept])
    together = _together(last - int(minutes.min()) + 1, points, 60 if old else 1)
    at, where = np.unique(minutes // together, return_inverse=True)
    sums = np.zeros((len(at), len(ARMS), len(FIELDS)))
    flat = chain.from_iterable(chain.from_iterable(counts) for _, counts in kept)
    np.add.at(sums, where, np.fromiter(flat, np.float64, len(kept) * sums[0].size).reshape(-1, *sums.shape[1:]))
    return [
        Bucket(60.0 * together * start, 60.0 * together, *(arm(own) for own in counts))
        for start, counts in zip(at.tolist(), sums.tolist(), strict=True)
    ]


def _together(minutes: int, points: int, least: int) -> int:
    """Minutes of a span, such that there are at most so many of them: a number that divides hours or days."""
    needed = max(least, math.ceil(minutes / points))
    return next((span for span in SPANS if span >= needed), 1440 * math.ceil(needed / 1440))


@dataclass(frozen=True, slots=True)
class Placed:
    """How often an item stood in each place of an arm's lists, and was clicked there."""

    shown: list[int]
    clicked: list[int]


@dataclass(frozen=True, slots=True)
class Places:
    """Where an item stood in lists of the policy, and in those of the control group."""

    item: str
    policy: Placed
    control: Placed


def places(replica: Replica, limit: int) -> list[Places]:
    """The items shown most in either arm; the last place counts for all that follow it."""
    tally = replica.tally
    often = np.einsum("np->n", tally.shown[0] + tally.shown[1]).astype(np.int64)
    most = [at for at in np.argsort(-often, kind="stable")[:limit].tolist() if often[at]]
    shown, clicked = tally.shown[:, most].tolist(), tally.clicked[:, most].tolist()
    return [
        Places(replica.table.ids[at], *(Placed(shown[arm][n], clicked[arm][n]) for arm in range(len(ARMS))))
        for n, at in enumerate(most)
    ]


def _ratio(a: float, b: float) -> float | None:
    return a / b if b else None
