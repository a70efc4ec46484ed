"""Check from counts whether visitors click as the click model of a policy assumes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankloop.analytics.advice import advise
from rankloop.analytics.click_assumptions import ClickAssumptions
from rankloop.analytics.counters import MAX_TRACKED_SLOTS
from rankloop.analytics.intervals import NORMAL_95, wilson
from rankloop.analytics.position_effects import PositionEffects, slot_effects
from rankloop.types import FloatArray

MAX_MULTIPLE_CLICK_SHARE = 0.05
"""Share of clicked lists that may have several clicks before a policy that learns from one click loses too much."""
MAX_EFFECT_DEVIATION = 0.2
"""Relative difference between the measured and the assumed effect of a slot that is tolerated."""
MIN_CONTINUE_RATIO = 0.5
"""Visitors are taken to stop at a click if clicks below a click are less than this share of the expected number."""
FALSE_ALARM_PROBABILITY = 0.01
"""Probability that chance alone violates the check of a ranker's slots."""
MIN_CLICKED_LISTS = 100
"""Clicked lists that a check needs."""
MIN_EXPECTED_CLICKS = 50
"""Expected clicks below a click that a check needs."""
MIN_CLICKS_FOR_LAST_CLICK = 0.05
"""Share of the expected clicks below a click from which on last-click is suggested instead of cascade."""
MAX_LOG_EFFECT_ERROR = 0.5
"""Standard error of a log effect above which the effect of a slot counts as unknown."""
MIN_FALL_ERRORS = 3.0
"""Standard errors by which a lower slot must fall behind to count as less examined."""
TOP_DOWN_MODELS = ("cascade", "last-click")
"""Click models in which visitors scan from the top and may not examine slots below a click."""

ClicksBelow = tuple[float, float, float]
"""Observed clicks below a click, expected number, and its standard error."""


@dataclass(frozen=True, slots=True)
class AssumptionCheck:
    """The check of one assumption of a policy, with advice if it is violated."""

    name: str  # multiple-clicks, clicks-after-click or position-bias
    state: str  # ok, violated, insufficient-data, or not-tested (counts cannot decide, or it does not matter)
    finding: str
    advice: str | None = None
    settings: dict[str, Any] | None = None  # changes of the ranker's settings that would fit


@dataclass(frozen=True, slots=True)
class SlotEffect:
    """Click rate in a slot relative to the same items in the reference slot, with a 95 % interval."""

    slot: int
    reference: int
    shown: int
    clicked: int
    effect: float | None  # None if too little is known
    low: float | None
    high: float | None
    assumed: float | None  # by the policy
    mismatch: bool  # differs from the assumed effect significantly and by more than is tolerated


@dataclass(frozen=True)
class ClickEvidence:
    """Counts from which click models can be distinguished, of both groups together."""

    lists: NDArray[np.int64]  # [4] by number of clicks
    tables: Mapping[str, NDArray[np.uint32]]  # [n, P]; see `rankloop.analytics.click_counters`
    segments: int

    @property
    def clicked(self) -> int:
        """Number of lists with a click."""
        return int(self.lists[1:].sum())

    def counts(self, top_down: bool) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        """Return how often items were shown and clicked, [n, P]: down to the first click of a list, or in all slots."""
        t = self.tables
        return (t["settled"] - t["below"], t["first"]) if top_down else (t["settled"], t["first"] + t["again"])


def check_click_model(
    assumes: ClickAssumptions, evidence: ClickEvidence
) -> tuple[list[AssumptionCheck], list[SlotEffect]]:
    """Return the checks of all assumptions of a policy, and the measured effects of the slots."""
    if not assumes.learns:
        return [AssumptionCheck("multiple-clicks", "not-tested", f"{assumes.policy} does not learn from clicks.")], []
    below = clicks_below(evidence)
    slots, effects = _measure_slots(assumes, evidence)
    if assumes.single:
        first = _check_multiple_clicks(assumes, evidence, below, measured=effects is not None)
    else:
        first = _check_after_click(assumes, below)
    return [first, _check_position_bias(assumes, evidence, slots, effects, below)], slots


# Several clicks


def clicks_below(evidence: ClickEvidence) -> ClicksBelow:
    """Return the clicks below a click, the number expected if visitors continued, and its standard error.

    The expectation follows from the click rates of the same items in the same slots without a click above.
    """
    shown, first = evidence.counts(top_down=True)
    below = evidence.tables["below"]
    known = (shown > 0) & (below > 0)
    n, m = shown[known].astype(np.float64), below[known].astype(np.float64)
    rate = first[known] / n
    expected, variance = float((m * rate).sum()), float((m * m * rate * (1.0 - rate) / n).sum())
    return float(evidence.tables["again"][known].sum()), expected, math.sqrt(variance)


def visitors_stop(below: ClicksBelow) -> bool:
    """Return whether visitors click significantly less after a click than before."""
    observed, expected, error = below
    gap = MIN_CONTINUE_RATIO * expected - observed
    spread = math.sqrt(MIN_CONTINUE_RATIO * expected + (MIN_CONTINUE_RATIO * error) ** 2)
    return gap > NormalDist().inv_cdf(1.0 - FALSE_ALARM_PROBABILITY) * spread


def _check_multiple_clicks(
    assumes: ClickAssumptions, evidence: ClickEvidence, below: ClicksBelow, *, measured: bool
) -> AssumptionCheck:
    """Check a policy that learns from one click per list; `measured` says whether slot effects could be measured."""
    name, clicked, several = "multiple-clicks", evidence.clicked, int(evidence.lists[2:].sum())
    if clicked < MIN_CLICKED_LISTS:
        needed = f"{_count(clicked, 'clicked list')}, {MIN_CLICKED_LISTS} are required"
        return AssumptionCheck(name, "insufficient-data", f"Not enough data: {needed}.")
    bounds = wilson(several, clicked)
    text = f"{several:,} of {clicked:,} clicked lists ({100 * several / clicked:.1f} %) have several clicks"
    if bounds is None or bounds[0] <= MAX_MULTIPLE_CLICK_SHARE:
        return AssumptionCheck(name, "ok", f"{text}; up to {100 * MAX_MULTIPLE_CLICK_SHARE:.0f} % is tolerated.")
    text = f"{text}, but {assumes.policy} learns from the first click only."
    if visitors_stop(below) or not measured:
        return AssumptionCheck(name, "violated", text, *advise(assumes, "last-click"))
    effects = slot_effects(*evidence.counts(top_down=False))
    model = "position-based" if _falls(effects) else "semi-bandit"
    return AssumptionCheck(name, "violated", text, *advise(assumes, model, _bias(effects)))


def _check_after_click(assumes: ClickAssumptions, below: ClicksBelow) -> AssumptionCheck:
    """Check a policy that learns from every click and takes slots below a click as examined."""
    name, (observed, expected, _) = "clicks-after-click", below
    if assumes.feedback in TOP_DOWN_MODELS:
        text = "Not relevant: the policy learns from all slots down to the last click."
        return AssumptionCheck(name, "not-tested", text)
    if expected < MIN_EXPECTED_CLICKS:
        text = f"Not enough data: {expected:.0f} clicks below a click are expected, {MIN_EXPECTED_CLICKS} are required."
        return AssumptionCheck(name, "insufficient-data", text)
    text = f"{observed:,.0f} clicks below a click; {expected:,.0f} are expected if visitors continue after a click"
    if not visitors_stop(below):
        return AssumptionCheck(name, "ok", f"{text}.")
    text = f"{text}. Visitors stop, and {assumes.policy} learns unexamined items as not clicked."
    advice, settings = advise(assumes, "last-click" if observed > MIN_CLICKS_FOR_LAST_CLICK * expected else "cascade")
    if assumes.settings.aggregate != "sum" and assumes.settings.reward is None:
        advice += " If you send one feedback event per click, set aggregate: sum; otherwise only the first one counts."
    return AssumptionCheck(name, "violated", text, advice, settings)


# Position bias


def _not_tested(assumes: ClickAssumptions, evidence: ClickEvidence) -> str | None:
    """Return why the position bias cannot be tested from counts or does not matter, or None if it is tested."""
    if assumes.slots < 2:
        return "Lists have only one slot."
    if not assumes.ignores_slots:
        return f"{assumes.policy} learns the position bias itself or compares only items in the same slots."
    if assumes.contextual or evidence.segments > 1:
        which = "contexts" if assumes.contextual else "segments"
        return f"Lists differ by {which}, so counts cannot separate the effect of a slot from that of the visitors."
    if assumes.amounts:
        return "Outcomes are amounts, not clicks."
    return None


def _assumed_effects(assumes: ClickAssumptions) -> FloatArray:
    """Return the slot effects that the policy assumes, [P]; NaN where they cannot be compared."""
    tracked = min(assumes.slots, MAX_TRACKED_SLOTS)
    if assumes.bias is None:
        return np.ones(tracked)
    bias = np.array(assumes.bias[:tracked])
    assumed = np.where(bias > 0, bias, np.nan)
    if assumes.slots > MAX_TRACKED_SLOTS:
        assumed[-1] = np.nan  # this counter includes all later slots
    return assumed


def _measure_slots(
    assumes: ClickAssumptions, evidence: ClickEvidence
) -> tuple[list[SlotEffect], PositionEffects | None]:
    """Return the measured effect of every slot compared with the assumed one; none if they cannot be tested."""
    if _not_tested(assumes, evidence) is not None:
        return [], None
    shown, clicked = evidence.counts(assumes.feedback in TOP_DOWN_MODELS)
    effects, assumed = slot_effects(shown, clicked), _assumed_effects(assumes)
    reference = effects.reference()
    if math.isnan(assumed[reference]):
        reference = int(np.argmax(np.nan_to_num(assumed)))
    assumed = assumed / assumed[reference]
    logs, error = effects.relative_to(reference, np.zeros(len(assumed)))
    deviation, _ = effects.relative_to(reference, np.log(assumed))
    # Bonferroni: all slots but the reference are tested.
    z = NormalDist().inv_cdf(1.0 - FALSE_ALARM_PROBABILITY / (2 * max(1, len(assumed) - 1)))
    measured = []
    for p, (log, se) in enumerate(zip(logs.tolist(), error.tolist(), strict=True)):
        known = se < MAX_LOG_EFFECT_ERROR
        mismatch = p != reference and known and abs(deviation[p]) > max(z * se, math.log1p(MAX_EFFECT_DEVIATION))
        effect, low, high = (math.exp(log + q * se) for q in (0.0, -NORMAL_95, NORMAL_95))
        measured.append(
            SlotEffect(
                slot=p,
                reference=reference,
                shown=int(shown[:, p].sum()),
                clicked=int(clicked[:, p].sum()),
                effect=effect if known else None,
                low=low if known else None,
                high=high if known else None,
                assumed=None if math.isnan(assumed[p]) else float(assumed[p]),
                mismatch=bool(mismatch),
            )
        )
    return measured, effects


def _check_position_bias(
    assumes: ClickAssumptions,
    evidence: ClickEvidence,
    slots: list[SlotEffect],
    effects: PositionEffects | None,
    below: ClicksBelow,
) -> AssumptionCheck:
    """Check a policy whose estimates do not depend on the slot."""
    name, reason, stop = "position-bias", _not_tested(assumes, evidence), visitors_stop(below)
    if reason is None and stop and not (assumes.single or assumes.feedback in TOP_DOWN_MODELS):
        reason = "Visitors stop at a click; until the click model fits, slot effects cannot be measured."
    if reason is not None or effects is None:
        return AssumptionCheck(name, "not-tested", reason or "")
    known = [one for one in slots if one.slot != one.reference and one.effect is not None and one.assumed is not None]
    wrong = [one for one in known if one.mismatch]
    if not known:
        return AssumptionCheck(name, "insufficient-data", "Not enough data: few items were clicked in several slots.")
    tolerance, error = f"{100 * MAX_EFFECT_DEVIATION:.0f} %", f"{100 * FALSE_ALARM_PROBABILITY:.0f} %"
    rule = f"(Tolerance {tolerance}, false-alarm probability {error}.)"
    if not wrong:
        some = "" if len(known) == len(slots) - 1 else f" ({len(known)} of {len(slots) - 1} slots could be tested)"
        return AssumptionCheck(name, "ok", f"Click rates by slot are as {assumes.policy} assumes{some}. {rule}")
    measured = ", ".join(
        f"{_two(one.effect)} [{_two(one.low)}, {_two(one.high)}] in slot {one.slot} (assumed: {_two(one.assumed)})"
        for one in wrong
    )
    source = "configured bias" if assumes.bias is not None else "policy"
    text = f"Click rates of the same items relative to slot {wrong[0].reference} differ from what the {source} assumes"
    text = f"{text}: {measured}. {rule}"
    if assumes.bias is None and stop:
        return AssumptionCheck(name, "violated", text, *advise(assumes, "choice"))
    model = "position-based" if assumes.bias is None else assumes.feedback
    all_slots = slot_effects(*evidence.counts(top_down=False))
    return AssumptionCheck(name, "violated", text, *advise(assumes, model, _bias(all_slots, assumes.bias)))


def _falls(effects: PositionEffects) -> bool:
    """Return whether some slot is examined significantly less than the reference slot above it."""
    reference = effects.reference()
    logs, error = effects.relative_to(reference, np.zeros(len(effects.log)))
    lower = np.arange(len(logs)) > reference
    clear = (logs < -math.log1p(MAX_EFFECT_DEVIATION)) & (logs < -MIN_FALL_ERRORS * error)
    return bool((lower & clear & (error < MAX_LOG_EFFECT_ERROR)).any())


def _bias(effects: PositionEffects, configured: tuple[float, ...] | None = None) -> list[float] | None:
    """Return the estimated position bias, with maximum 1; unknown slots keep the configured one. None without both."""
    reference = effects.reference()
    logs, error = effects.relative_to(reference, np.zeros(len(effects.log)))
    bias = np.exp(logs)
    for p in np.flatnonzero(error >= MAX_LOG_EFFECT_ERROR):
        if configured is None or configured[reference] <= 0:
            return None
        bias[p] = configured[p] / configured[reference]
    return [float(one) for one in np.round(bias / bias.max(), 2)]


def _two(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"
