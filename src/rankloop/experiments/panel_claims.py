"""Tests of claims that compare one policy between panels, such as its regret by number of items."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from rankloop.experiments.claims import (
    ClaimFinding,
    combine,
    interval_above,
    interval_inside,
    panel_name,
    trace,
)
from rankloop.experiments.outcome import Key, Outcome
from rankloop.simulator.stats import half_width, ratio_of_means
from rankloop.types import FloatArray


@dataclass(frozen=True)
class MonotoneTrend:
    """The final regret (or reward) of `label` increases (or decreases) from panel to panel, up to the panel `until`."""

    label: str
    of: str = "regret"
    falls: bool = False
    until: str = ""  # title of the last panel that the claim is about, if not all of them
    where: Key = field(default_factory=dict)

    def judge(self, outcome: Outcome) -> ClaimFinding:
        """Require each step to exceed its confidence interval."""
        found = _finals(outcome, self.label, self.of, self.where)
        steps = []
        for (_, low), (title, high) in pairwise(found):
            step = (low - high if self.falls else high - low).mean()
            noise = float(np.hypot(half_width(low), half_width(high)))
            steps.append(("", ClaimFinding(interval_above(float(step), noise, 0.0), "")))
            if title == self.until:
                break
        numbers = ", ".join(f"{title}: {final.mean():,.0f} ± {half_width(final):,.0f}" for title, final in found)
        return ClaimFinding(combine(steps).verdict, numbers)


@dataclass(frozen=True)
class RegretSpread:
    """Over the panels, the largest mean final regret of `label` is at most (or more than) `times` the smallest."""

    label: str
    times: float
    wide: bool = False  # claim more than `times`
    where: Key = field(default_factory=dict)

    def judge(self, outcome: Outcome) -> ClaimFinding:
        """Compare the ratio of the two means with `times`; the panels are treated as independent."""
        finals = _finals(outcome, self.label, "regret", self.where)
        (least, low), (most, high) = (pick(finals, key=lambda f: float(f[1].mean())) for pick in (min, max))
        ratio, noise = _ratio(high, low)
        verdict = interval_above(ratio, noise, self.times) if self.wide else interval_above(-ratio, noise, -self.times)
        return ClaimFinding(verdict, f"{self.label} at {most} / at {least} = {ratio:.2f} ± {noise:.2f}")


@dataclass(frozen=True)
class PanelRatio:
    """The final regret of `label` in one panel is between `low` and `high` times that in another panel."""

    label: str
    panel: str
    to: str
    low: float
    high: float

    def judge(self, outcome: Outcome) -> ClaimFinding:
        """Compare the ratio of the two means with both bounds; the panels are treated as independent."""
        finals = dict(_finals(outcome, self.label, "regret", {}))
        ratio, noise = _ratio(finals[self.panel], finals[self.to])
        numbers = f"{self.label} at {self.panel} / at {self.to} = {ratio:.2f} ± {noise:.2f}"
        verdict = interval_inside(ratio, noise, self.low, self.high)
        return ClaimFinding(verdict, f"{numbers} (bounds {self.low:g} and {self.high:g})")


@dataclass(frozen=True)
class LowestPanel:
    """The final regret of `label` is lower in the panel `panel` than in every other one."""

    label: str
    panel: str

    def judge(self, outcome: Outcome) -> ClaimFinding:
        """Require each difference to exceed its confidence interval; the panels are treated as independent."""
        finals = _finals(outcome, self.label, "regret", {})
        mine = dict(finals)[self.panel]
        differences = []
        for title, other in finals:
            if title != self.panel:
                noise = float(np.hypot(half_width(mine), half_width(other)))
                verdict = interval_above(float(other.mean() - mine.mean()), noise, 0.0)
                differences.append(("", ClaimFinding(verdict, "")))
        numbers = ", ".join(f"{title}: {final.mean():,.0f} ± {half_width(final):,.0f}" for title, final in finals)
        return ClaimFinding(combine(differences).verdict, numbers)


@dataclass(frozen=True)
class GapGrows:
    """The regret of each of `worse`, relative to that of `better`, increases from panel to panel."""

    better: str
    worse: tuple[str, ...]

    def judge(self, outcome: Outcome) -> ClaimFinding:
        """Require each step of the ratio to exceed its confidence interval."""
        return combine(self._each(outcome))

    def _each(self, outcome: Outcome) -> Iterator[tuple[str, ClaimFinding]]:
        for label in self.worse:
            found = [
                (panel_name(p.title, outcome), *ratio_of_means(trace(r, label).final, trace(r, self.better).final))
                for p, r in outcome.parts
            ]
            steps = [
                ("", ClaimFinding(interval_above(high - low, float(np.hypot(a, b)), 0.0), ""))
                for (_, low, a), (_, high, b) in pairwise(found)
            ]
            numbers = ", ".join(f"{title}: {ratio:.2f} ± {half:.2f}" for title, ratio, half in found)
            yield "", ClaimFinding(combine(steps).verdict, f"{label} / {self.better}, {numbers}")


def _finals(outcome: Outcome, label: str, of: str, where: Key) -> list[tuple[str, FloatArray]]:
    """Return title and final regret or reward [R] of each panel."""
    return [(p.title, getattr(trace(r, label), of)[-1]) for p, r in outcome.where(**where)]


def _ratio(a: FloatArray, b: FloatArray) -> tuple[float, float]:
    """Return the ratio of two means and half its interval (delta method); the samples are treated as independent."""
    ratio = float(a.mean() / b.mean())
    return ratio, ratio * float(np.hypot(half_width(a) / a.mean(), half_width(b) / b.mean()))
