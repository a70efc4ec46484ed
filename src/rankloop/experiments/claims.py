"""Claims of the papers as data, and statistical tests that decide them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
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
    SMALL = "cannot tell at this size"
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
    """A statement of a paper, its location there, the data that it is about, and the test that decides it."""

    text: str
    source: str  # section, figure or table
    data: str  # the data set or problem
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


def interval_inside(value: float, half: float, low: float, high: float) -> ClaimVerdict:
    """Return HOLDS if the whole interval value ± half lies between the bounds, FAILS if it lies outside of them."""
    above, below = interval_above(value, half, low), interval_above(value, half, high).opposite
    return max((above, below), key=list(ClaimVerdict).index)


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
    at: int | None = None  # the round, if not the last
    where: Key = field(default_factory=dict)

    def judge(self, outcome: Outcome) -> ClaimFinding:
        """Compare the ratio of mean final regrets with `times`."""
        return combine(self._each(outcome))

    def _each(self, outcome: Outcome) -> Iterator[tuple[str, ClaimFinding]]:
        for panel, result in outcome.where(**self.where):
            for label in self.worse:
                mine = trace(result, self.better)
                found = compare_regret(trace(result, label), mine, self.times, _checkpoint(mine, self.at))
                yield panel_name(panel.title, outcome), found


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
            yield panel_name(panel.title, outcome), ClaimFinding(found.verdict.opposite, found.numbers)


@dataclass(frozen=True)
class SimilarRegret:
    """The final regret of `label` is between `low` and `high` times that of `to`, in every panel (paired, 95 %)."""

    label: str
    to: str
    low: float
    high: float
    where: Key = field(default_factory=dict)

    def judge(self, outcome: Outcome) -> ClaimFinding:
        """Compare the ratio of mean final regrets with both bounds."""
        return combine(self._each(outcome))

    def _each(self, outcome: Outcome) -> Iterator[tuple[str, ClaimFinding]]:
        for panel, result in outcome.where(**self.where):
            mine, other = trace(result, self.label), trace(result, self.to)
            above = compare_regret(mine, other, self.low)
            below = compare_regret(mine, other, self.high)
            verdict = max((above.verdict, below.verdict.opposite), key=list(ClaimVerdict).index)
            numbers = above.numbers.split(" (the bound")[0] + f" (bounds {self.low:g} and {self.high:g})"
            yield panel_name(panel.title, outcome), ClaimFinding(verdict, numbers)


@dataclass(frozen=True)
class ForEachConstant:
    """A claim about a policy with a constant that the paper does not print, tested with several values of it.

    The authors chose one value: the claim holds if it holds with one of them, and fails only if it fails with all.
    """

    tests: tuple[tuple[str, ClaimTest], ...]  # the constant's value as text, and the test with it

    def judge(self, outcome: Outcome) -> ClaimFinding:
        """Return the best verdict over the values, or cannot tell where the claim fails with some of them only."""
        found = [(value, test.judge(outcome)) for value, test in self.tests]
        verdict = min((finding.verdict for _, finding in found), key=list(ClaimVerdict).index)
        return ClaimFinding(verdict, "; ".join(f"{value}: {f.verdict}, {f.numbers}" for value, f in found))


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
            c = _checkpoint(mine, self.at)
            # A custom policy does not change the verdict on a claim of the paper.
            others = (t for t in result if t is not mine and t.label not in panel.own)
            rival = min(others, key=lambda t: float(t.regret[c].mean()))
            found = compare_regret(rival, mine, 1.0, c)
            yield (
                panel_name(panel.title, outcome),
                ClaimFinding(found.verdict, f"next is {rival.label}: {found.numbers}"),
            )


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
            yield panel_name(panel.title, outcome), ClaimFinding(verdict, numbers)


def trace(result: Result, label: str) -> Trace:
    """Return the trace of a label, which may be the baseline."""
    return result.random if label == result.random.label and label not in [t.label for t in result] else result[label]


def _checkpoint(trace: Trace, at: int | None) -> int:
    """Return the index of the first checkpoint at this round or later; of the last one for None."""
    return -1 if at is None else int(np.searchsorted(trace.rounds, at).clip(max=len(trace.rounds) - 1))


def panel_name(title: str, outcome: Outcome) -> str:
    """Return the title of a panel; nothing where the outcome has only one."""
    return title if len(outcome.parts) > 1 else ""
