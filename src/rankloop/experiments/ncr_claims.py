"""Tests of claims about the best parameters of grid searches (paper `long-sequences`), all of them by intervals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rankloop.experiments.claims import ClaimFinding, ClaimVerdict, combine, interval_above, interval_inside
from rankloop.experiments.ncr import NAMES, BestParameters, MixtureSpaceEffect, NcrTable, best_parameters
from rankloop.experiments.outcome import Outcome
from rankloop.experiments.published import published
from rankloop.simulator.stats import half_width
from rankloop.types import FloatArray

ROUNDING = 0.005
"""Printed numbers have two digits: half a unit of the last one is rounding."""
BASELINES, PROPOSED = ("eps-ind", "c-ucb1", "gl-cdcm"), ("ind", "dep")


@dataclass(frozen=True)
class NcrNearPrinted:
    """Every cell of a policy at these budgets is within `tolerance` of the printed one."""

    table: int
    id: str
    budgets: tuple[int, ...] = (1, 5, 10)
    tolerance: float = 0.03

    def judge(self, outcome: Outcome) -> ClaimFinding:
        """Compare the interval of each cell with the printed number, and list the cells that are not near it."""
        cells = [c for c in NcrTable(self.table).cells(outcome) if c[1] == self.id and c[2] in self.budgets]
        found, far = [], []
        for scenario, _, budget, best, printed in cells:
            if printed is not None:
                value, half = float(best.ncr.mean()), float(half_width(best.ncr))
                room = self.tolerance + ROUNDING
                verdict = interval_inside(value - printed, half, -room, room)
                found.append(("", ClaimFinding(verdict, "")))
                if verdict != ClaimVerdict.HOLDS:
                    far.append(f"{scenario} b = {budget}: {value:.2f} ± {half:.2f}, printed {printed:.2f}")
        near = f"{len(found) - len(far)} of {len(found)} cells within {self.tolerance}"
        return ClaimFinding(combine(found).verdict, "; ".join((near, *far)))


@dataclass(frozen=True)
class NcrAtLeast:
    """In a scenario of a data set, the best of some policies has an NCR at least that of every other, by budget."""

    best_of: tuple[str, ...]
    over: tuple[str, ...]
    scenario: str
    budgets: tuple[int, ...] = (1, 5, 10)
    set: str = ""  # key of the data set, where an experiment has several

    def judge(self, outcome: Outcome) -> ClaimFinding:
        """Compare run by run (paired, 95 %); a difference below 0.005 is rounding."""
        return combine(self._each(outcome))

    def _each(self, outcome: Outcome) -> Iterator[tuple[str, ClaimFinding]]:
        for budget in self.budgets:
            mine = _best(outcome, self.best_of, self.scenario, budget, self.set)
            others = [_best(outcome, (id,), self.scenario, budget, self.set) for id in self.over]
            rivals = [rival for rival in others if rival is not None]
            if mine is None or not rivals:
                continue
            steps = [("", ClaimFinding(_at_least(mine[1].ncr, rival[1].ncr), "")) for rival in rivals]
            numbers = ", ".join(f"{NAMES[id]} {best.ncr.mean():.3f}" for id, best in (mine, *rivals))
            yield f"b = {budget}", ClaimFinding(combine(steps).verdict, numbers)


def printed_winners(table: int, budgets: tuple[int, ...] = (1, 5)) -> tuple[int, ...]:
    """Return the small budgets at which a printed table has Ind or Dep as a winner of the vanilla scenario."""

    def most(ids: tuple[str, ...], budget: int) -> float:
        return max(published(table, "vanilla", id, budget) or 0.0 for id in ids)

    return tuple(b for b in budgets if most(PROPOSED, b) >= most(BASELINES, b))


@dataclass(frozen=True)
class RewardFollowsSpace:
    """Over the pivots, Dep's reward grows with what Ind wins by the mixture's space (positive rank correlation)."""

    effect: MixtureSpaceEffect

    def judge(self, outcome: Outcome) -> ClaimFinding:
        """Compare Spearman's correlation with 0, by its interval (Fisher's transformation, 95 %)."""
        found = []
        for scenario, budget in self.effect.rows:
            dep, difference = self.effect.numbers(outcome, scenario, budget)
            rank, low, high = rank_correlation(dep, difference)
            verdict = ClaimVerdict.HOLDS if low > 0 else ClaimVerdict.FAILS if high < 0 else ClaimVerdict.UNSURE
            numbers = f"rank correlation {rank:.2f} ({low:.2f} to {high:.2f}) over {len(dep)} pivots"
            found.append((scenario, ClaimFinding(verdict, numbers)))
        return combine(found)


@dataclass(frozen=True)
class SpaceHurts:
    """For each of these pivots, Ind wins less in the mixture's space than without it."""

    pivots: tuple[int, ...]
    rows: tuple[tuple[str, int], ...] = (("vanilla", 1), ("exponential", 10))

    def judge(self, outcome: Outcome) -> ClaimFinding:
        """Compare the rewards run by run (paired, 95 %)."""
        return combine(self._each(outcome))

    def _each(self, outcome: Outcome) -> Iterator[tuple[str, ClaimFinding]]:
        for scenario, budget in self.rows:
            found, numbers = [], []
            for pivot in self.pivots:
                with_, without = (
                    best_parameters(outcome, "ind", set=f"mnist-{pivot}", scenario=scenario, budget=budget, space=space)
                    for space in ("mixture", "plain")
                )
                if with_ is None or without is None:
                    continue
                lost = (without.trace.reward[-1] - with_.trace.reward[-1]) / without.trace.rounds[-1]
                half = float(half_width(lost))
                found.append(("", ClaimFinding(interval_above(float(lost.mean()), half, 0.0), "")))
                numbers.append(f"pivot {pivot} {-lost.mean():+.3f} ± {half:.3f}")
            yield f"{scenario} b = {budget}", ClaimFinding(combine(found).verdict, ", ".join(numbers))


def rank_correlation(a: FloatArray, b: FloatArray) -> tuple[float, float, float]:
    """Return Spearman's rank correlation with its 95 % interval; NaN where it is undefined.

    The interval is Fisher's with the variance 1.06/(n - 3) of rank correlations (Fieller et al., 1957).
    """
    if np.isnan(a).any() or np.isnan(b).any() or np.ptp(a) == 0 or np.ptp(b) == 0 or len(a) < 4:
        return np.nan, np.nan, np.nan
    from scipy.stats import spearmanr  # imported here: it takes half a second

    rank = float(spearmanr(a, b).statistic)
    z = np.arctanh(np.clip(rank, -1.0 + 1e-9, 1.0 - 1e-9))
    half = 1.96 * np.sqrt(1.06 / (len(a) - 3))
    return rank, float(np.tanh(z - half)), float(np.tanh(z + half))


def _best(
    outcome: Outcome, ids: tuple[str, ...], scenario: str, budget: int, set: str
) -> tuple[str, BestParameters] | None:
    """Return the policy of these with the largest reward, with its best parameters."""
    where = {"set": set} if set else {}
    found = [
        (id, best)
        for id in ids
        if (best := best_parameters(outcome, id, scenario=scenario, budget=budget, space="plain", **where)) is not None
    ]
    return max(found, key=lambda one: float(one[1].ncr.mean()), default=None)


def _at_least(mine: FloatArray, other: FloatArray) -> ClaimVerdict:
    difference = mine - other
    return interval_above(float(difference.mean()), float(half_width(difference)), -ROUNDING)
