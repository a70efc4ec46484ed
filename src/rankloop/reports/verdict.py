"""Is it better than control? One answer, and how sure it is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

from rankloop.analytics.intervals import NORMAL_95, needed
from rankloop.reports.facts import Facts
from rankloop.serving.guardrail import sequential_radius

CLOSE = 0.05
"""Share of control's click-through below which nobody need care for a difference."""
TOGETHER = 0.9
"""Share of the lists from hours in which both were shown, below which only those hours are compared."""


@dataclass(frozen=True, slots=True)
class ControlVerdict:
    """The policy beside control."""

    state: str  # better, worse, same, early; none, shadow or unsettled where nothing can be compared
    policy: float = 0.0  # click-through
    control: float = 0.0
    difference: float = 0.0
    low: float = 0.0
    high: float = 0.0
    better: float = 0.5  # probability
    at_any_time: bool = False  # it holds however often one looks
    hours: bool = False  # only hours in which both were shown are compared
    lists: int = 0  # that were compared
    needed: float = math.inf  # lists that would show the difference as it looks now
    needed_close: float = math.inf  # lists that would show a difference of CLOSE

    @property
    def share(self) -> float | None:
        """The difference as a share of control's."""
        return self.difference / self.control if self.control else None


def verdict(facts: Facts) -> ControlVerdict:
    """The answer, from an overview's lift, or hour by hour where traffic was not the same all the time."""
    overview, policy, control = facts.overview, facts.policy, facts.control
    if overview.lift is None or policy.click_through is None or control.click_through is None:
        waits = policy.lists > 0 and control.lists > 0
        return ControlVerdict("unsettled" if waits else "shadow" if overview.mode == "shadow" else "none")
    rates, n = (policy.click_through, control.click_through), (policy.settled, control.settled)
    difference, low, high, better = (
        overview.lift.difference,
        overview.lift.low,
        overview.lift.high,
        overview.lift.better,
    )
    hourly, half = facts.diagnosis.concurrent, (overview.lift.high - overview.lift.low) / 2
    by_hours = hourly is not None and (
        hourly.treatment + hourly.control < TOGETHER * sum(n) or abs(hourly.difference - difference) > half / 3
    )
    if hourly is not None and by_hours:
        difference, low, high, n = hourly.difference, hourly.low, hourly.high, (hourly.treatment, hourly.control)
        better = NormalDist().cdf(difference / ((high - low) / (2 * NORMAL_95))) if high > low else better
        rates = (rates[1] + difference, rates[1])
    error = (high - low) / (2 * NORMAL_95)
    sure = error > 0 and abs(difference) > sequential_radius(min(n), 0.05) * error
    state = "better" if low > 0 else "worse" if high < 0 else "early"
    if state == "early" and max(-low, high) < CLOSE * rates[1]:
        state = "same"
    share = n[0] / sum(n)
    return ControlVerdict(
        state,
        *rates,
        difference,
        low,
        high,
        better,
        at_any_time=sure,
        hours=by_hours,
        lists=sum(n),
        needed=needed(*rates, share) if 0 < rates[0] < 1 else math.inf,
        needed_close=needed(min(1.0, (1 + CLOSE) * rates[1]), rates[1], share),
    )
