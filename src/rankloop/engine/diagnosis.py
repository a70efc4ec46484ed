"""What a report tells beyond an overview: whom exploring favours, what it costs, whether the click model fits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rankloop.engine.click_model import Check, Clicked, PlaceEffect, judge
from rankloop.engine.estimates import believed
from rankloop.engine.intervals import Counted, stratified, wilson
from rankloop.engine.reads import Reads
from rankloop.engine.replica import Replica
from rankloop.engine.tally import CLICKED, LISTS, SETTLED
from rankloop.types import BoolArray, FloatArray

TOLD = 8
"""Items of each kind that are named."""
SURE = 4.0
"""Standard errors by which an item must stand in more lists of one arm than of the other to be named."""
MUCH = 1.5
"""And so many times as often."""
FIRM = 30
"""Showings of an item from which on its estimate is taken for more than a guess."""


@dataclass(frozen=True, slots=True)
class Concurrent:
    """The policy beside control in the hours in which both were shown: other hours may have had other visitors."""

    hours: int
    policy: int  # settled lists in those hours
    control: int
    difference: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Explored:
    """Lists that exploring changed, where that was looked at, and all others of the policy."""

    settled: int
    clicked: int
    others: int
    others_clicked: int


@dataclass(frozen=True, slots=True)
class Told:
    """An item: in which share of each arm's lists it stands, how often it was clicked there, what is believed of it."""

    item: str
    policy: float | None  # share of the policy's lists
    control: float | None
    shown: int  # in lists of the policy
    clicked: int
    click_through: float | None  # with a 95 % interval
    low: float | None
    high: float | None
    control_shown: int
    control_clicked: int
    control_click_through: float | None
    control_low: float | None
    control_high: float | None
    estimate: float | None  # of the policy, in the first slot, with a 95 % interval
    estimate_low: float | None
    estimate_high: float | None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What a report tells beyond an overview."""

    policy: str
    reads: str  # how it reads clicks
    since: float | None  # the first list
    until: float | None  # the end of the last minute that had one
    clicks: dict[str, list[int]]  # settled lists of each arm with 0, 1, 2, 3 or more clicks
    checks: list[Check]
    places: list[PlaceEffect]
    concurrent: Concurrent | None
    explored: Explored | None
    worth: float | None  # of all lists shown, as a share of the list believed best now, by what is believed now
    gained: list[Told]
    lost: list[Told]
    shifted: tuple[int, int]  # how many gained and lost, of which those are the first
    most: list[Told]
    unseen: int  # enabled items that were never shown
    unseen_items: list[str]


@dataclass(frozen=True)
class Evidence:
    """A copy of what is needed of a replica: whoever diagnoses holds up nobody."""

    reads: Reads
    clicked: Clicked
    lists: NDArray[np.int64]  # [arm, 4] by number of clicks
    explored: tuple[int, int]
    total: FloatArray  # [arm, field]
    hours: FloatArray  # [hours, arm, field]
    since: float | None
    until: float | None
    ids: Sequence[str]
    enabled: BoolArray  # [n]
    shown: NDArray[np.int64]  # [arm, n]
    hits: NDArray[np.int64]  # [arm, n]
    places: NDArray[np.uint32]  # [n, P] showings of the policy
    mean: FloatArray | None  # [n]
    half: FloatArray | None  # [n]
    rates: bool  # estimates are click rates


def gather(replica: Replica) -> Evidence:
    """Copy what is needed."""
    tally, table, learners = replica.tally, replica.table, replica.learners
    n = len(table.ids)
    tally.clicks.catch_up()
    tables = {name: counts[:n].copy() for name, counts in tally.clicks.tables.items()}
    lists = tally.clicks.lists.copy()
    explored = tally.clicks.explored.tolist()
    mean, half, rates = _believed(replica)
    return Evidence(
        reads=Reads.of(replica.config, learners),
        clicked=Clicked(lists.sum(axis=0), tables, len(learners.segments)),
        lists=lists,
        explored=(explored[0], explored[1]),
        total=np.array(tally.total),
        hours=_hours(replica),
        since=tally.since,
        until=60.0 * (max(tally.minutes) + 1) if tally.minutes else None,
        ids=list(table.ids),
        enabled=table.enabled[:n].copy(),
        shown=tally.shown[:, :n].sum(axis=2, dtype=np.int64),
        hits=tally.clicked[:, :n].sum(axis=2, dtype=np.int64),
        places=tally.shown[0, :n].copy(),
        mean=None if mean is None else mean[:n],
        half=None if half is None else half[:n],
        rates=rates,
    )


def _hours(replica: Replica) -> FloatArray:
    """Counts of every hour that is remembered, [hours, arm, field]."""
    tally = replica.tally
    at = np.array([*tally.hours, *(minute // 60 for minute in tally.minutes)], dtype=np.int64)
    if not len(at):
        return np.zeros((0, 2, 1 + max(SETTLED, CLICKED)))
    counts = np.array([*tally.hours.values(), *tally.minutes.values()])
    which, where = np.unique(at, return_inverse=True)
    sums = np.zeros((len(which), *counts.shape[1:]))
    np.add.at(sums, where, counts)
    return sums


def _believed(replica: Replica) -> tuple[FloatArray | None, FloatArray | None, bool]:
    """Estimates in the first slot and half their intervals, [capacity]; whether they are click rates.

    None where visitors differ by segments or contexts: no estimate is that of all of them.
    """
    learners, config = replica.learners, replica.config
    if len(learners.segments) != 1 or config.context is not None:
        return None, None, False
    (segment,) = learners.segments
    mean, half = believed(replica, segment)
    if mean is None:
        return None, None, False
    return mean, half, learners.policy.estimates_rates and config.objective in ("any-click", "clicks")


def diagnose(found: Evidence) -> Diagnosis:
    """Judge what was gathered."""
    checks, places = judge(found.reads, found.clicked)
    gained, lost = _shifted(found)
    often = np.argsort(-found.shown.sum(axis=0), kind="stable")[:TOLD]
    unseen = np.flatnonzero(found.enabled & (found.shown.sum(axis=0) == 0))
    return Diagnosis(
        policy=found.reads.policy,
        reads=found.reads.feedback,
        since=found.since,
        until=found.until,
        clicks={"policy": found.lists[0].tolist(), "control": found.lists[1].tolist()},
        checks=checks,
        places=places,
        concurrent=_concurrent(found.hours),
        explored=_explored(found),
        worth=_worth(found),
        gained=[_told(found, at) for at in gained[:TOLD]],
        lost=[_told(found, at) for at in lost[:TOLD]],
        shifted=(len(gained), len(lost)),
        most=[_told(found, at) for at in often.tolist() if found.shown[:, at].any()],
        unseen=len(unseen),
        unseen_items=[found.ids[at] for at in unseen[:TOLD].tolist()],
    )


def _concurrent(hours: FloatArray) -> Concurrent | None:
    n, clicks = hours[:, :, SETTLED], hours[:, :, CLICKED]
    arms: list[Counted] = [(clicks[:, arm], n[:, arm]) for arm in (0, 1)]
    found = stratified(*arms)
    if found is None:
        return None
    both = (n > 0).all(axis=1)
    policy, control = n[both].sum(axis=0).tolist()
    return Concurrent(int(both.sum()), int(policy), int(control), *found)


def _explored(found: Evidence) -> Explored | None:
    settled, clicked = found.explored
    if not settled:
        return None
    n, clicks = int(found.total[0, SETTLED]), int(found.total[0, CLICKED])
    return Explored(settled, clicked, n - settled, clicks - clicked)


def _worth(found: Evidence) -> float | None:
    """What is believed now of all that was shown, place by place, beside what is believed of the best now."""
    if not found.rates or found.mean is None:
        return None
    mean, slots = found.mean, found.places.shape[1]
    best = np.flatnonzero(found.enabled)
    best = best[np.argsort(-mean[best], kind="stable")][:slots]
    if len(best) < slots or (found.shown[0, best] < FIRM).any() or not (mean[best] > 0).all():
        return None
    bias = np.ones(slots) if found.reads.bias is None else np.array(found.reads.bias[:slots])
    ideal = np.empty(slots)
    ideal[np.argsort(-bias, kind="stable")] = mean[best]
    often = found.places.sum(axis=0, dtype=np.int64)
    return float((found.places * mean[:, None] * bias).sum()) / float((often * ideal * bias).sum())


def _shifted(found: Evidence) -> tuple[list[int], list[int]]:
    """Items that stand in many more lists of the policy than of control, and in many fewer."""
    lists = found.total[:, LISTS]
    if not lists.all():
        return [], []
    share = found.shown / lists[:, None]
    error = np.sqrt(((share * (1.0 - np.minimum(share, 1.0)) + 1.0 / lists[:, None]) / lists[:, None]).sum(axis=0))
    more = share[0] - share[1]
    order = np.argsort(-more, kind="stable")
    clear = found.enabled & (np.abs(more) > SURE * error) & (share.max(axis=0) > MUCH * share.min(axis=0))
    up = [at for at in order.tolist() if clear[at] and more[at] > 0]
    down = [at for at in order[::-1].tolist() if clear[at] and more[at] < 0]
    return up, down


def _told(found: Evidence, at: int) -> Told:
    shown, clicked = found.shown[:, at].tolist(), found.hits[:, at].tolist()
    share = [n / lists if lists else None for n, lists in zip(shown, found.total[:, LISTS].tolist(), strict=True)]
    rate = [_rate(*of) for of in zip(clicked, shown, strict=True)]
    middle = None if found.mean is None else _finite(found.mean[at])
    half = None if middle is None or found.half is None else _finite(found.half[at])
    return Told(
        item=found.ids[at],
        policy=share[0],
        control=share[1],
        shown=shown[0],
        clicked=clicked[0],
        click_through=rate[0][0],
        low=rate[0][1],
        high=rate[0][2],
        control_shown=shown[1],
        control_clicked=clicked[1],
        control_click_through=rate[1][0],
        control_low=rate[1][1],
        control_high=rate[1][2],
        estimate=middle,
        estimate_low=None if middle is None or half is None else middle - half,
        estimate_high=None if middle is None or half is None else middle + half,
    )


def _rate(clicked: int, shown: int) -> tuple[float | None, float | None, float | None]:
    """The share of clicks of one arm, with a 95 % interval."""
    bounds = wilson(clicked, shown)
    return (None, None, None) if bounds is None else (clicked / shown, *bounds)


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
