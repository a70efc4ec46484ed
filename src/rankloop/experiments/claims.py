"""Claims of the papers as data, and statistical tests that decide them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import Protocol

import numpy as np

from rankloop.experiments.outcome import Key, Outcome
from rankloop.simulator.result import Result
from rankloop.simulator.stats import half_width, ratio_of_means
from rankloop.simulator.trace import Trace


class ClaimVerdict(StrEnum):
    """The verdict on a claim; ordered from best to worst."""

    HOLDS = "holds"
    UNSURE = "cannot tell"
    FAILS = "does not hold"

    @property
    def opposite(self) -> ClaimVerdict:
        """Return the verdict on the opposite claim."""
        return {ClaimVerdict.HOLDS: ClaimVerdict.FAILS, ClaimVerdict.FAILS: ClaimVerdict.HOLDS}.get(self, self)


@dataclass(frozen=True)
class ClaimFinding:
    """A verdict with the numbers behind it."""

    verdict: ClaimVerdict
    numbers: str


class ClaimTest(Protocol):
    """A test that decides a claim from the results of an experiment."""

    def judge(self, outcome: Outcome) -> ClaimFinding:
        """Return the verdict for an outcome."""


@dataclass(frozen=True)
class Claim:
    """A statement of a paper, its location in the paper, and the test that decides it."""

    text: str
    source: str
    test: ClaimTest

    def judge(self, outcome: Outcome) -> ClaimFinding:
        """Return the verdict for an outcome."""
        return self.test.judge(outcome)


def combine(findings: Iterable[tuple[str, ClaimFinding]]) -> ClaimFinding:
    """Return one finding for several panels, with the worst of their verdicts."""
    named = list(findings)
    worst = max((f.verdict for _, f in named), key=list(ClaimVerdict).index, default=ClaimVerdict.UNSURE)
    return ClaimFinding(worst, "; ".join(f"{name}: {f.numbers}" if name else f.numbers for name, f in named))


def interval_above(value: float, half: float, bound: float) -> ClaimVerdict:
    """Return HOLDS if the whole interval value ± half lies above the bound, FAILS if it lies below."""
    if np.isnan(half):
        return ClaimVerdict.UNSURE
    if value - half > bound:
        return ClaimVerdict.HOLDS
    return ClaimVerdict.FAILS if value + half < bound else ClaimVerdict.UNSURE


def compare_regret(worse: Trace, better: Trace, times: float, at: int = -1) -> ClaimFinding:
    """Test whether the regret of `worse` is above `times` that of `better` at a checkpoint (paired, 95 %).

    The test uses the difference, which also exists for a regret of 0 or below; the ratio is reported where it exists.
    """
    a, b = worse.regret[at], better.regret[at]
    difference = a - times * b
    verdict = interval_above(float(difference.mean()), float(half_width(difference)), 0.0)
    if b.mean() > 0:
        ratio, half = ratio_of_means(a, b)
        bound = "" if times == 1.0 else f" (the bound is {times:g})"
        return ClaimFinding(verdict, f"{worse.label} / {better.label} = {ratio:.2f} ± {half:.2f}{bound}")
    return ClaimFinding(verdict, f"{worse.label} {a.mean():.4g}, {better.label} {b.mean():.4g}")


@dataclass(frozen=True)
class LowerRegret:
    """The final regret of `worse` is more than `times` that of `better`, in every panel (paired, 95 %)."""

    better: str
    worse: tuple[str, ...]
    times: float = 1.0
    where: Key = field(default_factory=dict)

    def judge(self, outcome: Outcome) -> ClaimFinding:
        """Compare the ratio of mean final regrets with `times`."""
        return combine(self._each(outcome))

    def _each(self, outcome: Outcome) -> Iterator[tuple[str, ClaimFinding]]:
        for panel, result in outcome.where(**self.where):
            for label in self.worse:
                found = compare_regret(trace(result, label), trace(result, self.better), self.times)
                yield _name(panel.title, outcome), found


@dataclass(frozen=True)
class CloseTo:
    """The final regret of `label` is at most `times` that of `to`, in every panel (paired, 95 %)."""

    label: str
    to: str
    times: float
    where: Key = field(default_factory=dict)

    def judge(self, outcome: Outcome) -> ClaimFinding:
        """Compare the ratio of mean final regrets with `times`."""
        return combine(self._each(outcome))

    def _each(self, outcome: Outcome) -> Iterator[tuple[str, ClaimFinding]]:
        for panel, result in outcome.where(**self.where):
            found = compare_regret(trace(result, self.label), trace(result, self.to), self.times)
            yield _name(panel.title, outcome), ClaimFinding(found.verdict.opposite, found.numbers)


@dataclass(frozen=True)
class LowestRegret:
    """No other policy of the panel has lower final regret; a difference within the noise is undecided."""

    label: str
    at: int | None = None  # the round, if not the last
    where: Key = field(default_factory=dict)

    def judge(self, outcome: Outcome) -> ClaimFinding:
        """Compare with the best of the other policies."""
        return combine(self._each(outcome))

    def _each(self, outcome: Outcome) -> Iterator[tuple[str, ClaimFinding]]:
        for panel, result in outcome.where(**self.where):
            mine = trace(result, self.label)
            c = -1 if self.at is None else int(np.searchsorted(mine.rounds, self.at).clip(max=len(mine.rounds) - 1))
            # A custom policy does not change the verdict on a claim of the paper.
            others = (t for t in result if t is not mine and t.label not in panel.own)
            rival = min(others, key=lambda t: float(t.regret[c].mean()))
            found = compare_regret(rival, mine, 1.0, c)
            yield _name(panel.title, outcome), ClaimFinding(found.verdict, f"next is {rival.label}: {found.numbers}")


@dataclass(frozen=True)
class LowerInEveryRun:
    """In each single replication the final regret of `better` is below that of `worse`."""

    better: str
    worse: str
    where: Key = field(default_factory=dict)

    def judge(self, outcome: Outcome) -> ClaimFinding:
        """Count the replications in which it holds."""
        return combine(self._each(outcome))

    def _each(self, outcome: Outcome) -> Iterator[tuple[str, ClaimFinding]]:
        for panel, result in outcome.where(**self.where):
            below = trace(result, self.better).final < trace(result, self.worse).final
            verdict = ClaimVerdict.HOLDS if below.all() else ClaimVerdict.FAILS
            yield _name(panel.title, outcome), ClaimFinding(verdict, f"in {below.sum()} of {below.size} runs")


@dataclass(frozen=True)
class MonotoneTrend:
    """The final regret (or reward) of `label` increases (or decreases) from panel to panel."""

    label: str
    of: str = "regret"
    falls: bool = False
    where: Key = field(default_factory=dict)

    def judge(self, outcome: Outcome) -> ClaimFinding:
        """Require each step to exceed its confidence interval."""
        found = [(p.title, getattr(trace(r, self.label), self.of)[-1]) for p, r in outcome.where(**self.where)]
        steps = []
        for (_, low), (_, high) in pairwise(found):
            step = (low - high if self.falls else high - low).mean()
            noise = float(np.hypot(half_width(low), half_width(high)))
            steps.append(("", ClaimFinding(interval_above(float(step), noise, 0.0), "")))
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
        finals = [(p.title, trace(r, self.label).final) for p, r in outcome.where(**self.where)]
        (least, low), (most, high) = (pick(finals, key=lambda f: float(f[1].mean())) for pick in (min, max))
        ratio = float(high.mean() / low.mean())
        noise = ratio * float(np.hypot(half_width(high) / high.mean(), half_width(low) / low.mean()))
        verdict = interval_above(ratio, noise, self.times) if self.wide else interval_above(-ratio, noise, -self.times)
        return ClaimFinding(verdict, f"{self.label} at {most} / at {least} = {ratio:.2f} ± {noise:.2f}")


@dataclass(frozen=True)
class LinearGrowth:
    """Regret grows linearly to the end: the slope of the last quarter is at least `share` of the second quarter's."""

    label: str
    share: float = 0.7
    where: Key = field(default_factory=dict)

    def judge(self, outcome: Outcome) -> ClaimFinding:
        """Compare the growth in the two quarters."""
        return combine(self._each(outcome))

    def _each(self, outcome: Outcome) -> Iterator[tuple[str, ClaimFinding]]:
        for panel, result in outcome.where(**self.where):
            regret = trace(result, self.label).regret
            C = len(regret) - 1
            early, late = (regret[b] - regret[a] for a, b in ((C // 4, C // 2), (3 * C // 4, C)))
            difference = late - self.share * early
            verdict = interval_above(float(difference.mean()), float(half_width(difference)), 0.0)
            numbers = (
                f"{self.label} grows by {late.mean():.4g} in the last quarter, by {early.mean():.4g} in the second"
            )
            yield _name(panel.title, outcome), ClaimFinding(verdict, numbers)


def trace(result: Result, label: str) -> Trace:
    """Return the trace of a label, which may be the baseline."""
    return result.random if label == result.random.label and label not in [t.label for t in result] else result[label]


def _name(title: str, outcome: Outcome) -> str:
    return title if len(outcome.parts) > 1 else ""
