"""Figures: one look for every policy, in every figure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankloop import catalogue
from rankloop.errors import MissingExtra
from rankloop.simulator import stats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from rankloop.simulator.result import Result

# Okabe and Ito's palette without yellow, which does not show on white: safe for colour-blind readers.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
DASHES = ("-", "--", ":", "-.")


def look(id: str, taken: int = 0) -> dict[str, Any]:
    """Colour and dash of a policy: by its place in the catalogue, so the same wherever it appears."""
    ids = [entry.id for entry in catalogue.entries()]
    place = ids.index(id) if id in ids else len(ids) + taken
    return {"color": COLOURS[place % len(COLOURS)], "linestyle": DASHES[(place // len(COLOURS)) % len(DASHES)]}


def regret_figure(result: Result) -> Figure:
    """Cumulative regret of every policy with its 95 % confidence band; legend outside, best last."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise MissingExtra("a figure", "experiments") from None
    figure = Figure(figsize=(7.2, 4.0), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    seen: dict[str, int] = {}
    ordered = sorted(result.traces, key=lambda trace: -trace.final.mean())
    for trace in ordered:
        twins = seen.get(trace.id, 0)
        seen[trace.id] = twins + 1
        style = look(trace.id, len(seen))
        if twins:
            style["marker"], style["markevery"] = "osv^D"[(twins - 1) % 5], 0.1
        mean, half = trace.regret.mean(axis=1), stats.half_width(trace.regret)
        axes.plot(trace.rounds, mean, label=as_text(trace.label), linewidth=1.6, markersize=4, **style)
        axes.fill_between(trace.rounds, mean - half, mean + half, color=style["color"], alpha=0.18, linewidth=0)
    axes.set_xlabel("round")
    axes.set_ylabel("cumulative regret (expected clicks lost)")
    axes.set_xlim(0, ordered[0].rounds[-1])
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    R = ordered[0].regret.shape[1]
    axes.set_title(f"mean of {R:,} replications, 95 % bands", fontsize=9, loc="left", color="#444444")
    figure.legend(loc="outside right upper", frameon=False, fontsize=9)
    return figure


def as_text(label: str) -> str:
    """A label as it is: no mathematics between dollars, and not hidden for a leading underscore."""
    return (" " if label.startswith("_") else "") + label.replace("$", r"\$")


def save_svg(figure: Figure, path: Path) -> None:
    """The same figure as the same bytes, whenever it is drawn."""
    from matplotlib import rc_context

    with rc_context({"svg.hashsalt": "rankloop"}):
        figure.savefig(path, format="svg", metadata={"Date": None})
