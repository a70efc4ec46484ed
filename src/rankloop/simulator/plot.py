"""Figures: each policy has the same style in every figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Required, TypedDict, Unpack

from rankloop import catalogue
from rankloop.errors import MissingExtra
from rankloop.simulator import stats
from rankloop.simulator.trace import Trace
from rankloop.types import FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# After Paul Tol's "muted" palette, safe for colour-blind readers; its sand and pale grey, which do not show on white,
# are replaced by a darker yellow and black.
COLOURS = (
    "#000000",
    "#CC6677",
    "#117733",
    "#88CCEE",
    "#999933",
    "#AA4499",
    "#DDAA33",
    "#44AA99",
    "#882255",
    "#332288",
)
CUSTOM_COLOUR = "#777777"
"""The colour of custom policies, which are not part of the built-in catalogue."""
Dash = Literal["-", "--", ":", "-."]
DASHES: tuple[Dash, ...] = ("-", "--", ":", "-.")
MARKERS = "osv^DP"


class Style(TypedDict, total=False):
    """Matplotlib's style options of a curve."""

    color: Required[str]
    linestyle: Dash
    marker: str
    markevery: float
    markersize: float


def styles(curves: Sequence[tuple[str, str]]) -> dict[str, Style]:
    """Return the style of every curve, given as label and policy id.

    The colour follows from the policy's index in the catalogue, so it is the same in every figure. Policies of one
    figure that share a colour differ by dash, and variants of one policy by shade and marker.
    """
    known = [entry.id for entry in catalogue.entries() if not entry.own]
    ids = list(dict.fromkeys(id for _, id in curves))
    indices = [known.index(id) if id in known else len(known) + i for i, id in enumerate(ids)]
    colours = [COLOURS[p % len(COLOURS)] if id in known else CUSTOM_COLOUR for id, p in zip(ids, indices, strict=True)]
    chosen: dict[str, Style] = {}
    for id, index, colour in zip(ids, indices, colours, strict=True):
        dash = DASHES[(index // len(COLOURS)) % len(DASHES)] if colours.count(colour) > 1 else "-"
        labels = [label for label, policy in curves if policy == id]
        for i, label in enumerate(labels):
            chosen[label] = {"color": colour, "linestyle": dash}
            if len(labels) > 1:
                mark: Style = {
                    "color": shade(colour, i / (len(labels) - 1)),
                    "marker": MARKERS[i % len(MARKERS)],
                    "markevery": 0.12,
                    "markersize": 3.5,
                }
                chosen[label] |= mark
    return chosen


def shade(colour: str, share: float) -> str:
    """Return a shade of a colour, from lighter (0) to darker (1); 0.5 is the colour itself."""
    parts = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    goal, far = (255, 0.7 * (0.5 - share)) if share < 0.5 else (0, 1.1 * (share - 0.5))
    return "#" + "".join(f"{round(p + (goal - p) * far):02x}" for p in parts)


def band(axes: Axes, rounds: IntArray, curve: FloatArray, *, label: str, **style: Unpack[Style]) -> None:
    """Draw the mean curve of values [C, R] with its 95 % confidence band."""
    mean, half = curve.mean(axis=1), stats.half_width(curve)
    axes.plot(rounds, mean, label=as_text(label), linewidth=1.6, **style)
    axes.fill_between(rounds, mean - half, mean + half, color=style["color"], alpha=0.18, linewidth=0)


def regret_figure(traces: Sequence[Trace]) -> Figure:
    """Return a figure of the cumulative regret of every policy with 95 % confidence bands; the best policy last."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise MissingExtra("a figure", "experiments") from None
    figure = Figure(figsize=(7.2, 4.0), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    ordered = sorted(traces, key=lambda trace: -trace.final.mean())
    looks = styles([(trace.label, trace.id) for trace in traces])
    for trace in ordered:
        band(axes, trace.rounds, trace.regret, label=trace.label, **looks[trace.label])
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
    """Return a label that Matplotlib shows literally: no math mode, and not hidden by a leading underscore."""
    return (" " if label.startswith("_") else "") + label.replace("$", r"\$")


def save_svg(figure: Figure, path: Path) -> None:
    """Write a figure as SVG; equal figures give equal bytes."""
    from matplotlib import rc_context

    with rc_context({"svg.hashsalt": "rankloop"}):
        figure.savefig(path, format="svg", metadata={"Date": None})
