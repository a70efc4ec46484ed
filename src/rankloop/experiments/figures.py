"""Figures of results: curves side by side or overlaid, final regret by parameter, distributions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from rankloop.errors import MissingExtra
from rankloop.experiments.outcome import Outcome, Panel
from rankloop.experiments.tables import ResultTable, finals
from rankloop.simulator.plot import Style, as_text, band, styles
from rankloop.simulator.result import Result
from rankloop.simulator.stats import half_width
from rankloop.simulator.trace import Trace
from rankloop.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAMES = {
    "regret": "regret (expected reward lost)",
    "reward": "cumulative reward",
    "rate": "reward per round",
    "relative": "regret, share of the best reward",
}


def canvas(rows: int, columns: int, *, width: float = 3.3, height: float = 2.9) -> tuple[Figure, list[Axes]]:
    """Return a figure of rows x columns axes in a common style."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise MissingExtra("a figure", "experiments") from None
    figure = Figure(figsize=(width * columns + 1.9, height * rows), dpi=120, layout="constrained")
    made = figure.subplots(rows, columns, squeeze=False)
    axes = list(np.ravel(made))
    for one in axes:
        one.grid(alpha=0.25)
        one.spines[["top", "right"]].set_visible(False)
        one.tick_params(labelsize=8)
    return figure, axes


def legend(figure: Figure, axes: Sequence[Axes]) -> None:
    """Add one legend for all axes, outside of them, with each name once."""
    entries: dict[str, Artist] = {}
    for one in axes:
        for handle, name in zip(*one.get_legend_handles_labels(), strict=True):
            entries.setdefault(name, handle)
    figure.legend(entries.values(), entries.keys(), loc="outside right upper", frameon=False, fontsize=8)


def values(trace: Trace, metric: str) -> FloatArray:
    """Return the curve [C, R] of a metric."""
    t = trace.rounds[:, None]
    if metric == "rate":
        return np.asarray(trace.reward / t)
    if metric == "relative":
        return np.asarray(trace.regret / (trace.regret + trace.reward).mean(axis=1, keepdims=True))
    return np.asarray(getattr(trace, metric))


def draw_curve(
    axes: Axes, trace: Trace, metric: str, style: Style, *, label: str | None = None, until: int | None = None
) -> None:
    """Draw the mean curve of a metric with its confidence band, up to a round; `label` replaces the trace's label."""
    shown = trace.rounds <= (until or trace.rounds[-1])
    band(axes, trace.rounds[shown], values(trace, metric)[shown], label=label or trace.label, **style)


def styles_of(result: Result) -> dict[str, Style]:
    """Return the style of each label."""
    return styles([(trace.label, trace.id) for trace in result])


def label_axes(axes: Axes, title: str, metric: str, *, first: bool) -> None:
    """Set the title and the names of both axes."""
    axes.set_title(title, fontsize=9, loc="left")
    axes.set_xlabel("round", fontsize=9)
    if first:
        axes.set_ylabel(NAMES[metric], fontsize=9)
    axes.set_xlim(left=0)
    if metric in ("regret", "reward"):
        axes.set_ylim(bottom=0)


@dataclass(frozen=True)
class Curves:
    """One axes for each panel, one curve for each policy."""

    metric: str = "regret"
    columns: int = 3
    until: int | None = None  # only the first rounds
    only: tuple[str, ...] = ()  # only these labels
    hide: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # panel title → labels left out of it

    def draw(self, outcome: Outcome) -> Figure:
        """Return the figure."""
        columns = min(self.columns, len(outcome.parts))
        figure, axes = canvas(-(-len(outcome.parts) // columns), columns)
        for i, (one, (panel, result)) in enumerate(zip(axes, outcome.parts, strict=False)):
            chosen = styles_of(result)
            for trace in result:
                if self._shows(panel, trace):
                    draw_curve(one, trace, self.metric, chosen[trace.label], until=self.until)
            label_axes(one, panel.title, self.metric, first=i % columns == 0)
        for spare in axes[len(outcome.parts) :]:
            spare.set_visible(False)
        legend(figure, axes)
        return figure

    def _shows(self, panel: Panel, trace: Trace) -> bool:
        """Return whether a curve is drawn; custom policies always are."""
        chosen = not self.only or trace.label in self.only
        return trace.label in panel.own or (chosen and trace.label not in self.hide.get(panel.title, ()))

    def tables(self, outcome: Outcome) -> Mapping[str, ResultTable]:
        """Return the final numbers of every policy."""
        return {"table": finals(outcome)}


@dataclass(frozen=True)
class OverlaidCurves:
    """One axes with a curve for each panel, for instance one policy with several numbers of features."""

    metric: str = "regret"

    def draw(self, outcome: Outcome) -> Figure:
        """Return the figure; panels differ by shade and marker, policies by colour."""
        figure, axes = canvas(1, 1, width=4.6, height=3.2)
        curves = [
            (f"{panel.title}, {trace.label}" if len(result.traces) > 1 else panel.title, trace)
            for panel, result in outcome.parts
            for trace in result
        ]
        chosen = styles([(name, trace.id) for name, trace in curves])
        for name, trace in curves:
            draw_curve(axes[0], trace, self.metric, chosen[name], label=name)
        label_axes(axes[0], "", self.metric, first=True)
        legend(figure, axes)
        return figure

    def tables(self, outcome: Outcome) -> Mapping[str, ResultTable]:
        """Return the final numbers of every policy."""
        return {"table": finals(outcome)}


@dataclass(frozen=True)
class FinalRegret:
    """Final regret as a function of a number in the panels' keys."""

    key: str
    name: str  # of the horizontal axis

    def draw(self, outcome: Outcome) -> Figure:
        """Return the figure."""
        figure, axes = canvas(1, 1, width=4.6, height=3.2)
        x = [float(panel.key[self.key]) for panel, _ in outcome.parts]
        chosen = styles_of(outcome.parts[0][1])
        for label, style in chosen.items():
            ends = [result[label].final for _, result in outcome.parts]
            mean = np.array([final.mean() for final in ends])
            half = np.array([float(half_width(final)) for final in ends])
            axes[0].errorbar(x, mean, half, label=as_text(label), capsize=2, linewidth=1.5, **style)
        axes[0].set_xlabel(self.name, fontsize=9)
        rounds = outcome.parts[0][0].rounds
        axes[0].set_ylabel(f"regret after {rounds:,} rounds (expected reward lost)", fontsize=9)
        axes[0].set_ylim(bottom=0)
        legend(figure, axes)
        return figure

    def tables(self, outcome: Outcome) -> Mapping[str, ResultTable]:
        """Return the final numbers of every policy."""
        return {"table": finals(outcome)}


@dataclass(frozen=True)
class CurvesAndFinals:
    """Mean regret over time on the left, the distribution of final regret over replications on the right."""

    def draw(self, outcome: Outcome) -> Figure:
        """Return the figure."""
        ((panel, result),) = outcome.parts
        figure, (left, right) = canvas(1, 2, width=3.7, height=3.4)
        chosen = styles_of(result)
        ordered = sorted(result, key=lambda t: float(t.final.mean()))
        for trace in ordered:
            draw_curve(left, trace, "regret", chosen[trace.label])
        label_axes(left, panel.title, "regret", first=True)
        boxes = right.boxplot([t.final for t in ordered], orientation="horizontal", patch_artist=True, widths=0.6)
        for box, median, trace in zip(boxes["boxes"], boxes["medians"], ordered, strict=True):
            box.set(facecolor=chosen[trace.label]["color"], alpha=0.6)
            median.set(color="black")
        right.set_yticks(range(1, len(ordered) + 1), [as_text(t.label) for t in ordered], fontsize=8)
        right.set_xlabel(f"regret after {ordered[0].rounds[-1]:,} rounds", fontsize=9)
        right.set_xlim(left=0)
        legend(figure, [left])
        return figure

    def tables(self, outcome: Outcome) -> Mapping[str, ResultTable]:
        """Return the final numbers of every policy."""
        return {"table": finals(outcome)}
