"""Do visitors click as the policy assumes? Judged from counts, and only where the counts are beyond noise."""

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

SEVERAL = 0.05
"""Share of the clicked lists that may have several clicks before a policy that reads only the first loses too much."""
OFF = 0.2
"""Share by which a place may differ from what is assumed of it."""
STOPS = 0.5
"""Share of the clicks that would follow a click if nobody stopped there, below which visitors are said to stop."""
ERROR = 0.01
"""Probability that chance alone makes any place of a ranker look wrong."""
LEAST = 100
"""Clicked lists before anything is said, and clicks that had to follow another."""
VAGUE = 0.5
"""Standard error of a log effect from which on nothing is known of a place."""
SCANS = ("cascade", "last-click")
"""Who reads lists from the top: nothing below the first click need have been looked at."""


@dataclass(frozen=True, slots=True)
class AssumptionCheck:
    """One assumption of a policy: whether it holds, and what to do where it does not."""

    name: str  # several-clicks, after-a-click or slots
    state: str  # fine, wrong, unsure (too little data) or unjudged (counts cannot tell, or it does not matter)
    words: str
    advice: str | None = None
    settings: dict[str, Any] | None = None  # that would fit: what to replace the ranker's with


@dataclass(frozen=True, slots=True)
class SlotEffect:
    """Click rate in a place beside that of the same items in another, with a 95 % interval."""

    slot: int
    reference: int  # the slot that it is compared with
    shown: int
    clicked: int
    effect: float | None  # None where too little is known
    low: float | None
    high: float | None
    assumed: float | None  # by the policy
    off: bool  # beyond noise and by more than is harmless


@dataclass(frozen=True)
class ClickEvidence:
    """Counts that tell click models apart, both groups together."""

    lists: NDArray[np.int64]  # [4] by number of clicks
    tables: Mapping[str, NDArray[np.uint32]]  # [n, P]; see `rankloop.analytics.click_counters`
    segments: int

    @property
    def clicked(self) -> int:
        """Lists with a click."""
        return int(self.lists[1:].sum())

    def counted(self, scans: bool) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        """Shown and clicked, [n, P]: down to the first click of a list only, or in all of it."""
        t = self.tables
        return (t["settled"] - t["below"], t["first"]) if scans else (t["settled"], t["first"] + t["again"])


def judge(assumes: ClickAssumptions, counts: ClickEvidence) -> tuple[list[AssumptionCheck], list[SlotEffect]]:
    """All assumptions of a policy, and what places do."""
    if not assumes.learns:
        return [AssumptionCheck("several-clicks", "unjudged", f"{assumes.policy} learns nothing from clicks.")], []
    follow = after_click(counts)
    places, effects = _places(assumes, counts)
    told = effects is not None
    checks = [_several(assumes, counts, follow, told)] if assumes.single else [_after(assumes, counts, follow)]
    checks.append(_judged_places(assumes, counts, places, effects, follow))
    return checks, places


# Several clicks


def after_click(counts: ClickEvidence) -> tuple[float, float, float]:
    """Clicks after a click above; those to be expected if nobody stopped there; the latter's standard error.

    Expected is what the same items in the same places got where nothing above them was clicked.
    """
    shown, first = counts.counted(scans=True)
    below = counts.tables["below"]
    known = (shown > 0) & (below > 0)
    n, m = shown[known].astype(np.float64), below[known].astype(np.float64)
    rate = first[known] / n
    expected, variance = float((m * rate).sum()), float((m * m * rate * (1.0 - rate) / n).sum())
    return float(counts.tables["again"][known].sum()), expected, math.sqrt(variance)


def stops(follow: tuple[float, float, float]) -> bool:
    """Whether visitors credibly click far less after a click than before."""
    found, expected, error = follow
    gap = STOPS * expected - found
    return gap > NormalDist().inv_cdf(1.0 - ERROR) * math.sqrt(STOPS * expected + (STOPS * error) ** 2)


def _several(
    assumes: ClickAssumptions, counts: ClickEvidence, follow: tuple[float, float, float], places: bool
) -> AssumptionCheck:
    """For policies that read one click of a list; whether effects of places can be told."""
    name, clicked, several = "several-clicks", counts.clicked, int(counts.lists[2:].sum())
    if clicked < LEAST:
        return AssumptionCheck(name, "unsure", f"Too little data: {_n(clicked, 'clicked list')}; {LEAST} are needed.")
    bounds = wilson(several, clicked)
    said = f"{several:,} of {clicked:,} clicked lists ({100 * several / clicked:.1f} %) had several clicks"
    if bounds is None or bounds[0] <= SEVERAL:
        return AssumptionCheck(name, "fine", f"{said}; up to {100 * SEVERAL:.0f} % is no matter.")
    words = f"{said}, and {assumes.policy} learns only from the first of each."
    if stops(follow) or not places:
        return AssumptionCheck(name, "wrong", words, *advise(assumes, "last-click"))
    effects = slot_effects(*counts.counted(scans=False))
    model = "position-based" if _falling(effects) else "semi-bandit"
    return AssumptionCheck(name, "wrong", words, *advise(assumes, model, _bias(effects)))


def _after(assumes: ClickAssumptions, counts: ClickEvidence, follow: tuple[float, float, float]) -> AssumptionCheck:
    """For policies that read every click, and for which a slot below a click was seen like any other."""
    name, (found, expected, _) = "after-a-click", follow
    if assumes.feedback in SCANS:
        return AssumptionCheck(name, "unjudged", "Every click down to the last is read, whether visitors go on or not.")
    if expected < LEAST / 2:
        return AssumptionCheck(
            name, "unsure", f"Too little data: {expected:.0f} clicks after a click were to be expected."
        )
    said = f"Below a click there were {found:,.0f} more, where {expected:,.0f} were to be expected if nobody stopped"
    if not stops(follow):
        return AssumptionCheck(name, "fine", f"{said}.")
    words = f"{said}: visitors stop, and {assumes.policy} takes what they did not look at for disliked."
    advice, settings = advise(assumes, "last-click" if found > 0.05 * expected else "cascade")
    if assumes.settings.aggregate != "sum":
        advice += " Or else each click is told by itself: then only the first counts, and aggregate: sum counts all."
    return AssumptionCheck(name, "wrong", words, advice, settings)


# Places


def _unjudged(assumes: ClickAssumptions, counts: ClickEvidence) -> str | None:
    """Why counts cannot say whether the policy is right about places, or why it does not matter."""
    if assumes.slots < 2:
        return "Lists have one place."
    if not assumes.ignores_slots:
        return f"{assumes.policy} learns by itself what places do, or compares only items that share them."
    if assumes.contextual or counts.segments > 1:
        which = "contexts" if assumes.contextual else "segments"
        return f"Lists differ by {which}: where an item stood says who saw it, and counts cannot tell the two apart."
    if assumes.amounts:
        return "Amounts are learned from, not clicks."
    return None


def _assumed(assumes: ClickAssumptions) -> FloatArray:
    """What the policy takes the places to do, [P]; NaN where that cannot be compared."""
    places = min(assumes.slots, MAX_TRACKED_SLOTS)
    if assumes.bias is None:
        return np.ones(places)
    bias = np.array(assumes.bias[:places])
    assumed = np.where(bias > 0, bias, np.nan)
    if assumes.slots > MAX_TRACKED_SLOTS:
        assumed[-1] = np.nan  # all that follow are counted together
    return assumed


def _places(assumes: ClickAssumptions, counts: ClickEvidence) -> tuple[list[SlotEffect], PositionEffects | None]:
    if _unjudged(assumes, counts) is not None:
        return [], None
    shown, clicked = counts.counted(assumes.feedback in SCANS)
    effects, assumed = slot_effects(shown, clicked), _assumed(assumes)
    anchor = effects.anchor()
    if math.isnan(assumed[anchor]):
        anchor = int(np.argmax(np.nan_to_num(assumed)))
    assumed = assumed / assumed[anchor]
    logs, error = effects.beside(np.zeros(len(assumed)), anchor)
    off, _ = effects.beside(np.log(assumed), anchor)
    sure = NormalDist().inv_cdf(1.0 - ERROR / (2 * max(1, len(assumed) - 1)))
    found = []
    for p, (log, se) in enumerate(zip(logs.tolist(), error.tolist(), strict=True)):
        known = se < VAGUE
        wrong = p != anchor and known and abs(off[p]) > max(sure * se, math.log1p(OFF))
        effect, low, high = (math.exp(log + z * se) for z in (0.0, -NORMAL_95, NORMAL_95))
        found.append(
            SlotEffect(
                slot=p,
                reference=anchor,
                shown=int(shown[:, p].sum()),
                clicked=int(clicked[:, p].sum()),
                effect=effect if known else None,
                low=low if known else None,
                high=high if known else None,
                assumed=None if math.isnan(assumed[p]) else float(assumed[p]),
                off=bool(wrong),
            )
        )
    return found, effects


def _judged_places(
    assumes: ClickAssumptions,
    counts: ClickEvidence,
    places: list[SlotEffect],
    effects: PositionEffects | None,
    follow: tuple[float, float, float],
) -> AssumptionCheck:
    name, why, stop = "slots", _unjudged(assumes, counts), stops(follow)
    if why is None and stop and not (assumes.single or assumes.feedback in SCANS):
        why = "Visitors stop at a click, and while that is read wrongly nothing can be said of places."
    if why is not None or effects is None:
        return AssumptionCheck(name, "unjudged", why or "")
    known = [one for one in places if one.slot != one.reference and one.effect is not None and one.assumed is not None]
    wrong = [one for one in known if one.off]
    if not known:
        return AssumptionCheck(name, "unsure", "Too little data: hardly any items were clicked in different places.")
    rule = f"(Named are places off by more than {100 * OFF:.0f} %, with an error of {100 * ERROR:.0f} %.)"
    if not wrong:
        some = "" if len(known) == len(places) - 1 else f" ({len(known)} of {len(places) - 1} could be told)"
        return AssumptionCheck(
            name, "fine", f"The same items are clicked in lower places as {assumes.policy} assumes{some}. {rule}"
        )
    told = ", ".join(
        f"{_two(one.effect)} [{_two(one.low)}, {_two(one.high)}] in slot {one.slot} (assumed: {_two(one.assumed)})"
        for one in wrong
    )
    who = "bias" if assumes.bias is not None else "policy"
    compared = f"Compared with slot {wrong[0].reference}, the same items are clicked differently"
    words = f"{compared} than the {who} says: {told}. {rule}"
    if assumes.bias is None and stop:
        return AssumptionCheck(name, "wrong", words, *advise(assumes, "choice"))
    model = "position-based" if assumes.bias is None else assumes.feedback
    everywhere = slot_effects(*counts.counted(scans=False))
    return AssumptionCheck(name, "wrong", words, *advise(assumes, model, _bias(everywhere, assumes.bias)))


def _falling(effects: PositionEffects) -> bool:
    """Whether some place is credibly looked at less than one above it."""
    anchor = effects.anchor()
    off, error = effects.beside(np.zeros(len(effects.log)), anchor)
    below = np.arange(len(off)) > anchor
    return bool((below & (off < -math.log1p(OFF)) & (off < -3.0 * error) & (error < VAGUE)).any())


def _bias(effects: PositionEffects, known: tuple[float, ...] | None = None) -> list[float] | None:
    """Estimated probabilities that each place is looked at, the largest 1; as configured where that is not known."""
    anchor = effects.anchor()
    logs, error = effects.beside(np.zeros(len(effects.log)), anchor)
    bias = np.exp(logs)
    for p in np.flatnonzero(error >= VAGUE):
        if known is None or known[anchor] <= 0:
            return None
        bias[p] = known[p] / known[anchor]
    return [float(one) for one in np.round(bias / bias.max(), 2)]


def _two(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _n(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"
