"""The verdict of the A/B test: treatment compared with control."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

from rankloop.analytics.intervals import NORMAL_95, required_for_means, required_lists
from rankloop.analytics.mean_intervals import Moments
from rankloop.reports.report_data import ReportData
from rankloop.schema import GroupSummary
from rankloop.serving.outcomes.guardrail import sequential_radius

EQUIVALENCE_MARGIN = 0.05
"""Relative lift that does not matter: within it, treatment and control count as equivalent."""
MIN_CONCURRENT_SHARE = 0.9
"""Share of the lists that must come from hours with both groups; below it, only these hours are compared."""
MAX_POOLED_SHIFT = 1 / 3
"""Hours are compared separately if that moves the difference by more than this share of half the interval."""
SEQUENTIAL_ERROR = 0.05
"""Error probability of the sequential test."""
COMPARED_STATES = ("better", "worse", "equivalent", "inconclusive")


@dataclass(frozen=True, slots=True)
class ABTestVerdict:
    """Treatment compared with control."""

    state: str  # better, worse, equivalent or inconclusive; no-control, shadow or no-outcomes without a comparison
    treatment: float = 0.0  # value per list, in the objective
    control: float = 0.0
    difference: float = 0.0
    low: float = 0.0
    high: float = 0.0
    better: float = 0.5  # probability that treatment is better
    sequential: bool = False  # also significant in the sequential test, which allows repeated looks
    hourly: bool = False  # compared hour by hour
    lists: int = 0  # compared
    required: float = math.inf  # lists that would detect the present difference
    required_margin: float = math.inf  # lists that would detect a lift of EQUIVALENCE_MARGIN

    @property
    def compared(self) -> bool:
        """Whether both groups have outcomes."""
        return self.state in COMPARED_STATES

    @property
    def lift(self) -> float | None:
        """The difference relative to control, by the absolute value of control."""
        return self.difference / abs(self.control) if self.control else None


def verdict(data: ReportData) -> ABTestVerdict:
    """Return the verdict from the lift of the overview, or hour by hour if the traffic share has changed."""
    overview, treatment, control = data.overview, data.treatment, data.control
    if overview.lift is None or treatment.value_per_list is None or control.value_per_list is None:
        pending = treatment.lists > 0 and control.lists > 0
        return ABTestVerdict("no-outcomes" if pending else "shadow" if overview.mode == "shadow" else "no-control")
    rates, n = (treatment.value_per_list, control.value_per_list), (treatment.settled, control.settled)
    lift, concurrent = overview.lift, data.diagnosis.concurrent
    difference, low, high, better = lift.difference, lift.low, lift.high, lift.better
    hourly = concurrent is not None and (
        concurrent.treatment_lists + concurrent.control_lists < MIN_CONCURRENT_SHARE * sum(n)
        or abs(concurrent.difference - difference) > MAX_POOLED_SHIFT * (high - low) / 2
    )
    if concurrent is not None and hourly:
        difference, low, high = concurrent.difference, concurrent.low, concurrent.high
        n = (concurrent.treatment_lists, concurrent.control_lists)
        better = NormalDist().cdf(difference / ((high - low) / (2 * NORMAL_95))) if high > low else better
        rates = (rates[1] + difference, rates[1])
    error = (high - low) / (2 * NORMAL_95)
    state = "better" if low > 0 else "worse" if high < 0 else "inconclusive"
    if state == "inconclusive" and max(-low, high) < EQUIVALENCE_MARGIN * abs(rates[1]):
        state = "equivalent"
    share, is_rate = n[0] / sum(n), data.written.is_rate
    return ABTestVerdict(
        state,
        *rates,
        difference,
        low,
        high,
        better,
        sequential=error > 0 and abs(difference) > sequential_radius(min(n), SEQUENTIAL_ERROR) * error,
        hourly=hourly,
        lists=sum(n),
        required=_required(data, rates[0], rates[1], share) if not is_rate or 0 < rates[0] < 1 else math.inf,
        required_margin=_required(data, rates[1] + EQUIVALENCE_MARGIN * abs(rates[1]), rates[1], share),
    )


def _required(data: ReportData, treatment: float, control: float, share: float) -> float:
    """Return the lists that would detect the difference between two values per list.

    Of rates the variance follows from the rates themselves; of other values it is the observed one.
    """
    if data.written.is_rate:
        return required_lists(min(1.0, treatment), control, share)
    spread = [_variance(group) for group in (data.treatment, data.control)]
    return required_for_means(treatment - control, (spread[0], spread[1]), share)


def _variance(group: GroupSummary) -> float:
    """Return the variance of the value of one list."""
    return Moments(group.settled, group.value, group.value_squares).deviations / group.settled
