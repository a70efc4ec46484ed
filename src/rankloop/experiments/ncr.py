"""Normalised cumulative reward (NCR) of the best parameters of grid searches, compared with the printed tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Unpack

import numpy as np

from rankloop.experiments.figures import canvas, label_axes, legend, values
from rankloop.experiments.outcome import Outcome, Panel
from rankloop.experiments.published import COLUMNS, published
from rankloop.experiments.tables import ResultTable
from rankloop.simulator.plot import CUSTOM_COLOUR, Style, styles
from rankloop.simulator.result import Result
from rankloop.simulator.trace import Trace
from rankloop.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAMES = {
    "eps-ind": "Eps",
    "c-ucb1": "C-UCB1",
    "gl-cdcm": "GL-CDCM",
    "ind": "Ind",
    "dep": "Dep",
    "random": "Rand",
}
STYLES = styles([(id, id) for id in NAMES])


@dataclass(frozen=True)
class BestParameters:
    """The parameters of a policy with the largest final reward in one scenario with one budget."""

    panel: Panel
    trace: Trace
    random: Trace

    @property
    def ncr(self) -> FloatArray:
        """Return (CR - CR_rand)/(CR_max - CR_rand + 1) of each replication, [R], from expected rewards."""
        random = self.random.final.mean()
        return np.asarray((random - self.trace.final) / (random + 1.0))

    @property
    def params(self) -> str:
        """Return the parameters as text."""
        chosen = [f"{name} = {value:g}" for name, value in self.trace.params.items() if isinstance(value, int | float)]
        topics = [f"topics = {self.panel.key['topics']}"] if self.panel.key.get("topics") else []
        return ", ".join((*topics, *chosen))


def custom_ids(outcome: Outcome) -> list[str]:
    """Return the ids of custom policies."""
    return list(dict.fromkeys(t.id for panel, result in outcome.parts for t in result if t.label in panel.own))


def best_parameters(outcome: Outcome, id: str, **key: str | int | float) -> BestParameters | None:
    """Return the best parameters of a policy over the panels with this key; None where it was not run."""
    found: list[tuple[Panel, Result, Trace]] = [
        (panel, result, trace) for panel, result in outcome.where(**key) for trace in result if trace.id == id
    ]
    if not found:
        return None
    panel, result, trace = max(found, key=lambda one: float(one[2].reward[-1].mean()))
    return BestParameters(panel, trace, result.random)


@dataclass(frozen=True)
class NcrTable:
    """A table of the paper: budgets as rows, policies in two scenarios as columns, with the printed numbers."""

    number: int

    def cells(self, outcome: Outcome) -> Iterator[tuple[str, str, int, BestParameters, float | None]]:
        """Yield scenario, policy, budget, best parameters and printed number of every cell that was run."""
        budgets = sorted({int(panel.key["budget"]) for panel, _ in outcome.parts})
        own = [(scenario, id) for scenario in ("vanilla", "exponential") for id in custom_ids(outcome)]
        for scenario, id in (*COLUMNS, *own):
            for budget in budgets:
                best = best_parameters(outcome, id, scenario=scenario, budget=budget, space="plain")
                if best is not None:
                    yield scenario, id, budget, best, published(self.number, scenario, id, budget)

    def draw(self, outcome: Outcome) -> Figure:
        """Return the figure: results as lines, printed numbers as hollow marks."""
        figure, axes = canvas(1, 2, width=3.6, height=3.3)
        for one, scenario in zip(axes, ("vanilla", "exponential"), strict=True):
            mine = [cell for cell in self.cells(outcome) if cell[0] == scenario]
            for id in dict.fromkeys(cell[1] for cell in mine):
                cells = [cell for cell in mine if cell[1] == id]
                at = np.arange(len(cells))
                style = STYLES.get(id, {"color": CUSTOM_COLOUR})
                label = NAMES.get(id, id)
                one.plot(at, [c[3].ncr.mean() for c in cells], label=label, linewidth=1.5, marker=".", **style)
                printed = [np.nan if c[4] is None else c[4] for c in cells]
                if any(c[4] is not None for c in cells):
                    ring = f"{label}, printed"
                    one.plot(at, printed, "o", label=ring, mfc="none", color=style["color"], markersize=6)
                one.set_xticks(at, [str(c[2]) for c in cells])
            one.set_title(scenario, fontsize=9, loc="left")
            one.set_xlabel("budget b", fontsize=9)
            shown = [v for c in mine for v in (float(c[3].ncr.mean()), c[4]) if v is not None]
            one.set_ylim(max(-0.25, min(shown) - 0.05), 1.03)
        axes[0].set_ylabel("normalised cumulative reward", fontsize=9)
        legend(figure, axes)
        return figure

    def tables(self, outcome: Outcome) -> Mapping[str, ResultTable]:
        """Return the table with printed numbers in brackets, and the best parameters."""
        cells = list(self.cells(outcome))
        columns = list(dict.fromkeys(cell[:2] for cell in cells))
        budgets = sorted({cell[2] for cell in cells})
        texts = {cell[:3]: _with_printed(float(cell[3].ncr.mean()), cell[4]) for cell in cells}
        head = ("b", *(f"{NAMES.get(id, id)}, {scenario}" for scenario, id in columns))
        rows = tuple((str(b), *(texts.get((*c, b), "-") for c in columns)) for b in budgets)
        chosen = tuple(
            (scenario, str(budget), NAMES.get(id, id), best.params, f"{best.ncr.mean():.3f}", f"{np.ptp(best.ncr):.3f}")
            for scenario, id, budget, best, _ in cells
        )
        winners = ResultTable(("scenario", "b", "policy", "parameters", "NCR", "range over runs"), chosen)
        return {"table": ResultTable(head, rows), "winners": winners}


def _with_printed(value: float, printed: float | None) -> str:
    return f"{value:.2f}" if printed is None else f"{value:.2f} ({printed:.2f})"


@dataclass(frozen=True)
class RewardRates:
    """CR(t)/t of the best parameters: a column for each data set, the vanilla scenario above the exponential one."""

    sets: tuple[tuple[str, str], ...]  # key and name
    rows: tuple[tuple[str, int], ...] = (("vanilla", 1), ("exponential", 10))

    def draw(self, outcome: Outcome) -> Figure:
        """Return the figure."""
        figure, axes = canvas(len(self.rows), len(self.sets), width=2.9, height=2.6)
        for i, one in enumerate(axes):
            (scenario, budget), (key, name) = self.rows[i // len(self.sets)], self.sets[i % len(self.sets)]
            for id in (*NAMES, *custom_ids(outcome)):
                best = best_parameters(outcome, id, set=key, scenario=scenario, budget=budget, space="plain")
                if best is not None:
                    _rate(one, best.trace, label=NAMES.get(id, id), **STYLES.get(id, {"color": CUSTOM_COLOUR}))
            label_axes(one, f"{name}, {scenario}, b = {budget}", "rate", first=i % len(self.sets) == 0)
        legend(figure, axes)
        return figure

    def tables(self, outcome: Outcome) -> Mapping[str, ResultTable]:
        """Return the final reward per round of the best parameters."""
        rows = []
        for scenario, budget in self.rows:
            for key, name in self.sets:
                for id in (*NAMES, *custom_ids(outcome)):
                    best = best_parameters(outcome, id, set=key, scenario=scenario, budget=budget, space="plain")
                    if best is not None:
                        rate = best.trace.reward[-1].mean() / best.trace.rounds[-1]
                        rows.append((name, scenario, str(budget), NAMES.get(id, id), f"{rate:.3f}", best.params))
        columns = ("data", "scenario", "b", "policy", "reward per round", "parameters")
        return {"table": ResultTable(columns, tuple(rows))}


def _rate(axes: Axes, trace: Trace, *, label: str, **style: Unpack[Style]) -> None:
    """Draw the mean of CR(t)/t; there are too few runs for a confidence band."""
    axes.plot(trace.rounds, values(trace, "rate").mean(axis=1), label=label, linewidth=1.6, **style)


@dataclass(frozen=True)
class MixtureSpaceEffect:
    """For each pivot: reward of Dep, and reward of Ind in the mixture's space minus Ind without it (figure 3)."""

    pivots: tuple[int, ...]
    rows: tuple[tuple[str, int], ...] = (("vanilla", 1), ("exponential", 10))

    def numbers(self, outcome: Outcome, scenario: str, budget: int) -> tuple[FloatArray, FloatArray]:
        """Return Dep's reward per round and the difference of Ind, each [pivots]."""

        def rate(id: str, pivot: int, space: str) -> float:
            best = best_parameters(outcome, id, set=f"mnist-{pivot}", scenario=scenario, budget=budget, space=space)
            return np.nan if best is None else float(best.trace.reward[-1].mean() / best.trace.rounds[-1])

        dep = [rate("dep", p, "plain") for p in self.pivots]
        difference = [rate("ind", p, "mixture") - rate("ind", p, "plain") for p in self.pivots]
        return np.array(dep), np.array(difference)

    def draw(self, outcome: Outcome) -> Figure:
        """Return the figure."""
        figure, axes = canvas(1, 2, width=3.6, height=3.0)
        for one, (scenario, budget) in zip(axes, self.rows, strict=True):
            dep, difference = self.numbers(outcome, scenario, budget)
            one.plot(self.pivots, dep, "o-", label="Dep", color=STYLES["dep"]["color"])
            one.plot(
                self.pivots,
                difference,
                "s--",
                label="Ind in the mixture's space\nminus Ind",
                color=STYLES["ind"]["color"],
            )
            one.axhline(0.0, color="#888888", linewidth=0.8)
            one.set_title(f"{scenario}, b = {budget}", fontsize=9, loc="left")
            one.set_xlabel("pivot class", fontsize=9)
            one.set_xticks(self.pivots)
        axes[0].set_ylabel("reward per round", fontsize=9)
        legend(figure, axes)
        return figure

    def tables(self, outcome: Outcome) -> Mapping[str, ResultTable]:
        """Return the numbers of the figure."""
        rows = []
        for scenario, budget in self.rows:
            for pivot, dep, difference in zip(self.pivots, *self.numbers(outcome, scenario, budget), strict=True):
                rows.append((scenario, str(budget), str(pivot), f"{dep:.3f}", f"{difference:+.3f}"))
        return {"table": ResultTable(("scenario", "b", "pivot", "Dep", "difference of Ind"), tuple(rows))}
