"""What a report tells beyond an overview: whom exploring favours, what it costs, whether the click model fits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rankloop.analytics.click_assumptions import ClickAssumptions
from rankloop.analytics.click_model_fit import AssumptionCheck, ClickEvidence, SlotEffect, judge
from rankloop.analytics.counters import CLICKED, LISTS, SETTLED
from rankloop.analytics.estimates import believed
from rankloop.analytics.intervals import Counted, stratified, wilson
from rankloop.analytics.ranker_state import RankerState
from rankloop.types import BoolArray, FloatArray

TOLD = 8
"""Items of each kind that are named."""
SURE = 4.0
"""Standard errors by which an item must stand in more lists of one group than of the other to be named."""
MUCH = 1.5
"""And so many times as often."""
FIRM = 30
"""Showings of an item from which on its estimate is taken for more than a guess."""


@dataclass(frozen=True, slots=True)
class ConcurrentComparison:
    """The policy beside control in the hours in which both were shown: other hours may have had other visitors."""

    hours: int
    treatment: int  # settled lists in those hours
    control: int
    difference: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class ExplorationOutcome:
    """Lists that exploring changed, where that was looked at, and all others of the policy."""

    settled: int
    clicked: int
    others: int
    others_clicked: int


@dataclass(frozen=True, slots=True)
class ItemSummary:
    """An item: its share of each group's lists, its clicks there, and its estimate."""

    item: str
    treatment_share: float | None  # share of the treatment group's lists
    control_share: float | None
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
    clicks: dict[str, list[int]]  # settled lists of each group with 0, 1, 2, 3 or more clicks
    checks: list[AssumptionCheck]
    slots: list[SlotEffect]
    concurrent: ConcurrentComparison | None
    explored: ExplorationOutcome | None
    worth: float | None  # of all lists shown, as a share of the list believed best now, by what is believed now
    gained: list[ItemSummary]
    lost: list[ItemSummary]
    shifted: tuple[int, int]  # how many gained and lost, of which those are the first
    most: list[ItemSummary]
    unseen: int  # enabled items that were never shown
    unseen_items: list[str]


@dataclass(frozen=True)
class DiagnosisInputs:
    """A copy of what is needed of a state: whoever diagnoses holds up nobody."""

    assumes: ClickAssumptions
    clicked: ClickEvidence
    lists: NDArray[np.int64]  # [group, 4] by number of clicks
    explored: tuple[int, int]
    total: FloatArray  # [group, field]
    hours: FloatArray  # [hours, group, field]
    since: float | None
    until: float | None
    ids: Sequence[str]
    enabled: BoolArray  # [n]
    shown: NDArray[np.int64]  # [group, n]
    hits: NDArray[np.int64]  # [group, n]
    places: NDArray[np.uint32]  # [n, P] showings of the policy
    mean: FloatArray | None  # [n]
    half: FloatArray | None  # [n]
    rates: bool  # estimates are click rates


def gather(state: RankerState, assumes: ClickAssumptions) -> DiagnosisInputs:
    """Copy what a diagnosis needs, so that it can be made without the ranker's lock."""
    counters, table, learners = state.counters, state.items, state.learners
    n = len(table.ids)
    counters.clicks.catch_up()
    tables = {name: counts[:n].copy() for name, counts in counters.clicks.tables.items()}
    lists = counters.clicks.lists.copy()
    explored = counters.clicks.explored.tolist()
    mean, half, rates = _believed(state)
    return DiagnosisInputs(
        assumes=assumes,
        clicked=ClickEvidence(lists.sum(axis=0), tables, len(learners.segments)),
        lists=lists,
        explored=(explored[0], explored[1]),
        total=np.array(counters.total),
        hours=_hours(state),
        since=counters.since,
        until=60.0 * (max(counters.minutes) + 1) if counters.minutes else None,
        ids=list(table.ids),
        enabled=table.enabled[:n].copy(),
        shown=counters.shown[:, :n].sum(axis=2, dtype=np.int64),
        hits=counters.clicked[:, :n].sum(axis=2, dtype=np.int64),
        places=counters.shown[0, :n].copy(),
        mean=None if mean is None else mean[:n],
        half=None if half is None else half[:n],
        rates=rates,
    )


def _hours(state: RankerState) -> FloatArray:
    """Counts of every hour that is remembered, [hours, group, field]."""
    counters = state.counters
    at = np.array([*counters.hours, *(minute // 60 for minute in counters.minutes)], dtype=np.int64)
    if not len(at):
        return np.zeros((0, 2, 1 + max(SETTLED, CLICKED)))
    counts = np.array([*counters.hours.values(), *counters.minutes.values()])
    which, where = np.unique(at, return_inverse=True)
    sums = np.zeros((len(which), *counts.shape[1:]))
    np.add.at(sums, where, counts)
    return sums


def _believed(state: RankerState) -> tuple[FloatArray | None, FloatArray | None, bool]:
    """Estimates in the first slot and half their intervals, [capacity]; whether they are click rates.

    None where visitors differ by segments or contexts: no estimate is that of all of them.
    """
    learners, config = state.learners, state.config
    if len(learners.segments) != 1 or config.context is not None:
        return None, None, False
    (segment,) = learners.segments
    mean, half = believed(state, segment)
    if mean is None:
        return None, None, False
    return mean, half, learners.policy.estimates_rates and config.objective in ("any-click", "clicks")


def diagnose(found: DiagnosisInputs) -> Diagnosis:
    """Judge what was gathered."""
    checks, slots = judge(found.assumes, found.clicked)
    gained, lost = _shifted(found)
    often = np.argsort(-found.shown.sum(axis=0), kind="stable")[:TOLD]
    unseen = np.flatnonzero(found.enabled & (found.shown.sum(axis=0) == 0))
    return Diagnosis(
        policy=found.assumes.policy,
        reads=found.assumes.feedback,
        since=found.since,
        until=found.until,
        clicks={"treatment": found.lists[0].tolist(), "control": found.lists[1].tolist()},
        checks=checks,
        slots=slots,
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


def _concurrent(hours: FloatArray) -> ConcurrentComparison | None:
    n, clicks = hours[:, :, SETTLED], hours[:, :, CLICKED]
    groups: list[Counted] = [(clicks[:, group], n[:, group]) for group in (0, 1)]
    found = stratified(*groups)
    if found is None:
        return None
    both = (n > 0).all(axis=1)
    policy, control = n[both].sum(axis=0).tolist()
    return ConcurrentComparison(int(both.sum()), int(policy), int(control), *found)


def _explored(found: DiagnosisInputs) -> ExplorationOutcome | None:
    settled, clicked = found.explored
    if not settled:
        return None
    n, clicks = int(found.total[0, SETTLED]), int(found.total[0, CLICKED])
    return ExplorationOutcome(settled, clicked, n - settled, clicks - clicked)


def _worth(found: DiagnosisInputs) -> float | None:
    """What is believed now of all that was shown, place by place, beside what is believed of the best now."""
    if not found.rates or found.mean is None:
        return None
    mean, slots = found.mean, found.places.shape[1]
    best = np.flatnonzero(found.enabled)
    best = best[np.argsort(-mean[best], kind="stable")][:slots]
    if len(best) < slots or (found.shown[0, best] < FIRM).any() or not (mean[best] > 0).all():
        return None
    bias = np.ones(slots) if found.assumes.bias is None else np.array(found.assumes.bias[:slots])
    ideal = np.empty(slots)
    ideal[np.argsort(-bias, kind="stable")] = mean[best]
    often = found.places.sum(axis=0, dtype=np.int64)
    return float((found.places * mean[:, None] * bias).sum()) / float((often * ideal * bias).sum())


def _shifted(found: DiagnosisInputs) -> tuple[list[int], list[int]]:
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


def _told(found: DiagnosisInputs, at: int) -> ItemSummary:
    shown, clicked = found.shown[:, at].tolist(), found.hits[:, at].tolist()
    share = [n / lists if lists else None for n, lists in zip(shown, found.total[:, LISTS].tolist(), strict=True)]
    rate = [_rate(*of) for of in zip(clicked, shown, strict=True)]
    middle = None if found.mean is None else _finite(found.mean[at])
    half = None if middle is None or found.half is None else _finite(found.half[at])
    return ItemSummary(
        item=found.ids[at],
        treatment_share=share[0],
        control_share=share[1],
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
    """The share of clicks of one group, with a 95 % interval."""
    bounds = wilson(clicked, shown)
    return (None, None, None) if bounds is None else (clicked / shown, *bounds)


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
