"""The diagnosis of a ranker: items that gained or lost, the cost of exploration, and the fit of the click model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rankloop.analytics.click_assumptions import ClickAssumptions
from rankloop.analytics.click_model_fit import AssumptionCheck, ClickEvidence, SlotEffect, check_click_model
from rankloop.analytics.counters import CLICKED, LISTS, SETTLED, SQUARES, VALUE
from rankloop.analytics.estimates import slot_estimates
from rankloop.analytics.intervals import Counted, stratified, wilson
from rankloop.analytics.learned_effects import (
    SlotWorth,
    TrustSummary,
    busiest_segment,
    score_trust,
    slot_worths,
)
from rankloop.analytics.list_value import is_binary
from rankloop.analytics.mean_intervals import stratified_means
from rankloop.analytics.ranker_state import RankerState
from rankloop.types import BoolArray, FloatArray

MAX_NAMED_ITEMS = 8
"""Items in each list of a diagnosis."""
MIN_SHIFT_ERRORS = 4.0
"""An item gained or lost if its shares of the lists of both groups differ by more than this many standard errors ..."""
MIN_SHIFT_RATIO = 1.5
"""... and by more than this factor."""
MIN_SHOWN_FOR_VALUE = 30
"""Times that each item of the best list must have been shown before `value_share` is computed."""


@dataclass(frozen=True, slots=True)
class ConcurrentComparison:
    """Treatment compared with control, in the objective, within the hours that have outcomes of both groups.

    Visitors may differ from hour to hour, so hours with only one group are left out.
    """

    hours: int
    treatment_lists: int  # settled lists in these hours
    control_lists: int
    difference: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class ExplorationOutcome:
    """Settled lists of the treatment group that exploration changed and those it did not, and how many were clicked."""

    changed: int
    changed_clicked: int
    unchanged: int
    unchanged_clicked: int


@dataclass(frozen=True, slots=True)
class ItemSummary:
    """An item: its share of the lists of each A/B group, its clicks, and its estimate."""

    item: str
    treatment_share: float | None  # share of the treatment group's lists
    control_share: float | None
    shown: int  # in the treatment group
    clicked: int
    click_through: float | None  # with a 95 % interval
    low: float | None
    high: float | None
    control_shown: int
    control_clicked: int
    control_click_through: float | None
    control_low: float | None
    control_high: float | None
    estimate: float | None  # in slot 0, with a 95 % interval
    estimate_low: float | None
    estimate_high: float | None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Findings about a ranker that go beyond its overview."""

    policy: str
    click_model: str  # that the policy assumes
    since: float | None  # time of the first decision
    until: float | None  # end of the last minute with a decision
    lists_by_clicks: dict[str, list[int]]  # settled lists of each group with 0, 1, 2 and 3 or more clicks
    checks: list[AssumptionCheck]
    slots: list[SlotEffect]
    concurrent: ConcurrentComparison | None
    exploration: ExplorationOutcome | None
    value_share: float | None  # value of all lists shown, as a share of that of the best list, by current estimates
    gained: list[ItemSummary]  # shown far more often in treatment than in control, the largest shift first
    lost: list[ItemSummary]  # shown far less often
    moved_counts: tuple[int, int]  # number of all items that gained, and that lost
    most_shown: list[ItemSummary]
    never_shown: int  # number of enabled items that were never shown
    never_shown_items: list[str]  # the first of them
    segment: str  # the busiest one, whose learner the following are of
    slot_worths: list[SlotWorth]  # what the policy has learned about its slots; empty if it learns no position bias
    score_trust: TrustSummary | None  # how far it trusts the caller's scores; None if it does not weigh them


@dataclass(frozen=True)
class DiagnosisInputs:
    """A copy of the state that a diagnosis needs, so that it runs without the lock of the ranker."""

    assumes: ClickAssumptions
    objective: str  # in which lists are valued
    evidence: ClickEvidence
    lists: NDArray[np.int64]  # [group, 4] by number of clicks
    explored: tuple[int, int]  # lists that exploration changed, and those of them with a click
    total: FloatArray  # [group, field]
    hours: FloatArray  # [hours, group, field]
    since: float | None
    until: float | None
    ids: Sequence[str]
    enabled: BoolArray  # [n]
    shown: NDArray[np.int64]  # [group, n]
    clicked: NDArray[np.int64]  # [group, n]
    slot_shown: NDArray[np.uint32]  # [n, P] in the treatment group
    mean: FloatArray | None  # [n]
    half: FloatArray | None  # [n]
    estimates_rates: bool  # estimates are click probabilities
    segment: str  # the busiest one
    slot_worths: list[SlotWorth]
    score_trust: TrustSummary | None


def gather(state: RankerState, assumes: ClickAssumptions) -> DiagnosisInputs:
    """Copy the state that a diagnosis needs; the caller holds the lock of the ranker."""
    counters, table, learners = state.counters, state.items, state.learners
    n, clicks = len(table.ids), counters.clicks
    tables = {name: counts[:n].copy() for name, counts in clicks.tables.items()}
    lists, explored = clicks.lists.copy(), clicks.explored.tolist()
    mean, half, estimates_rates = _common_estimates(state)
    segment = busiest_segment(state)
    return DiagnosisInputs(
        assumes=assumes,
        objective=state.objective,
        evidence=ClickEvidence(lists.sum(axis=0), tables, len(learners.segments)),
        lists=lists,
        explored=(explored[0], explored[1]),
        total=np.array(counters.total),
        hours=_hours(state),
        since=counters.since,
        until=60.0 * (max(counters.minutes) + 1) if counters.minutes else None,
        ids=list(table.ids),
        enabled=table.enabled[:n].copy(),
        shown=counters.shown[:, :n].sum(axis=2, dtype=np.int64),
        clicked=counters.clicked[:, :n].sum(axis=2, dtype=np.int64),
        slot_shown=counters.shown[0, :n].copy(),
        mean=None if mean is None else mean[:n],
        half=None if half is None else half[:n],
        estimates_rates=estimates_rates,
        segment=segment,
        slot_worths=slot_worths(state, segment),
        score_trust=score_trust(state, segment),
    )


def _hours(state: RankerState) -> FloatArray:
    """Return the counts of every hour that has counters, [hours, group, field]."""
    counters = state.counters
    at = np.array([*counters.hours, *(minute // 60 for minute in counters.minutes)], dtype=np.int64)
    if not len(at):
        return np.zeros((0, 2, 1 + SQUARES))
    counts = np.array([*counters.hours.values(), *counters.minutes.values()])
    hours, index = np.unique(at, return_inverse=True)
    sums = np.zeros((len(hours), *counts.shape[1:]))
    np.add.at(sums, index, counts)
    return sums


def _common_estimates(state: RankerState) -> tuple[FloatArray | None, FloatArray | None, bool]:
    """Return estimates in slot 0 and half of their 95 % intervals, [capacity], and whether they are click rates.

    With several segments or with contexts there is no estimate for all visitors, and both are None.
    """
    learners, config = state.learners, state.config
    if len(learners.segments) != 1 or learners.no_context() is not None:
        return None, None, False
    (segment,) = learners.segments
    mean, half = slot_estimates(state, segment)
    if mean is None:
        return None, None, False
    return mean, half, learners.policy.estimates_rates and config.objective in ("any-click", "clicks")


def diagnose(inputs: DiagnosisInputs) -> Diagnosis:
    """Return the diagnosis of a copied state."""
    checks, slots = check_click_model(inputs.assumes, inputs.evidence)
    gained, lost = _moved(inputs)
    shown = inputs.shown.sum(axis=0)
    most_shown = np.argsort(-shown, kind="stable")[:MAX_NAMED_ITEMS]
    never_shown = np.flatnonzero(inputs.enabled & (shown == 0))
    return Diagnosis(
        policy=inputs.assumes.policy,
        click_model=inputs.assumes.feedback,
        since=inputs.since,
        until=inputs.until,
        lists_by_clicks={"treatment": inputs.lists[0].tolist(), "control": inputs.lists[1].tolist()},
        checks=checks,
        slots=slots,
        concurrent=_concurrent(inputs.hours, inputs.objective),
        exploration=_exploration(inputs),
        value_share=_value_share(inputs),
        gained=[_item_summary(inputs, at) for at in gained[:MAX_NAMED_ITEMS]],
        lost=[_item_summary(inputs, at) for at in lost[:MAX_NAMED_ITEMS]],
        moved_counts=(len(gained), len(lost)),
        most_shown=[_item_summary(inputs, at) for at in most_shown.tolist() if shown[at]],
        never_shown=len(never_shown),
        never_shown_items=[inputs.ids[at] for at in never_shown[:MAX_NAMED_ITEMS].tolist()],
        segment=inputs.segment,
        slot_worths=inputs.slot_worths,
        score_trust=inputs.score_trust,
    )


def _concurrent(hours: FloatArray, objective: str) -> ConcurrentComparison | None:
    """Compare the groups hour by hour; None if no hour has outcomes of both."""
    n, value = hours[:, :, SETTLED], hours[:, :, VALUE]
    if is_binary(objective):
        groups: list[Counted] = [(value[:, group], n[:, group]) for group in (0, 1)]
        estimate = stratified(*groups)
    else:
        moments = hours[:, :, [SETTLED, VALUE, SQUARES]]
        estimate = stratified_means(moments[:, 0], moments[:, 1])
    if estimate is None:
        return None
    both = (n > 0).all(axis=1)
    treatment, control = n[both].sum(axis=0).tolist()
    return ConcurrentComparison(int(both.sum()), int(treatment), int(control), *estimate)


def _exploration(inputs: DiagnosisInputs) -> ExplorationOutcome | None:
    changed, changed_clicked = inputs.explored
    if not changed:
        return None
    settled, clicked = int(inputs.total[0, SETTLED]), int(inputs.total[0, CLICKED])
    return ExplorationOutcome(changed, changed_clicked, settled - changed, clicked - changed_clicked)


def _value_share(inputs: DiagnosisInputs) -> float | None:
    """Return the value of all lists shown as a share of showing the best list each time, by current estimates.

    None if estimates are not click rates, or if an item of the best list was rarely shown.
    """
    if not inputs.estimates_rates or inputs.mean is None:
        return None
    mean, slots = inputs.mean, inputs.slot_shown.shape[1]
    best = np.flatnonzero(inputs.enabled)
    best = best[np.argsort(-mean[best], kind="stable")][:slots]
    if len(best) < slots or (inputs.shown[0, best] < MIN_SHOWN_FOR_VALUE).any() or not (mean[best] > 0).all():
        return None
    bias = np.ones(slots) if inputs.assumes.bias is None else np.array(inputs.assumes.bias[:slots])
    ideal = np.empty(slots)
    ideal[np.argsort(-bias, kind="stable")] = mean[best]
    lists = inputs.slot_shown.sum(axis=0, dtype=np.int64)  # [P]
    return float((inputs.slot_shown * mean[:, None] * bias).sum()) / float((lists * ideal * bias).sum())


def _moved(inputs: DiagnosisInputs) -> tuple[list[int], list[int]]:
    """Return the items shown far more often in treatment than in control, and far less often; largest shift first."""
    lists = inputs.total[:, LISTS]
    if not lists.all():
        return [], []
    share = inputs.shown / lists[:, None]
    error = np.sqrt(((share * (1.0 - np.minimum(share, 1.0)) + 1.0 / lists[:, None]) / lists[:, None]).sum(axis=0))
    more = share[0] - share[1]
    order = np.argsort(-more, kind="stable")
    ratio = share.max(axis=0) > MIN_SHIFT_RATIO * share.min(axis=0)
    clear = inputs.enabled & (np.abs(more) > MIN_SHIFT_ERRORS * error) & ratio
    gained = [at for at in order.tolist() if clear[at] and more[at] > 0]
    lost = [at for at in order[::-1].tolist() if clear[at] and more[at] < 0]
    return gained, lost


def _item_summary(inputs: DiagnosisInputs, at: int) -> ItemSummary:
    shown, clicked = inputs.shown[:, at].tolist(), inputs.clicked[:, at].tolist()
    share = [n / lists if lists else None for n, lists in zip(shown, inputs.total[:, LISTS].tolist(), strict=True)]
    rate = [_rate(*counts) for counts in zip(clicked, shown, strict=True)]
    mean = None if inputs.mean is None else _finite(inputs.mean[at])
    half = None if mean is None or inputs.half is None else _finite(inputs.half[at])
    return ItemSummary(
        item=inputs.ids[at],
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
        estimate=mean,
        estimate_low=None if mean is None or half is None else mean - half,
        estimate_high=None if mean is None or half is None else mean + half,
    )


def _rate(clicked: int, shown: int) -> tuple[float | None, float | None, float | None]:
    """Return a click-through rate with its 95 % interval."""
    bounds = wilson(clicked, shown)
    return (None, None, None) if bounds is None else (clicked / shown, *bounds)


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
