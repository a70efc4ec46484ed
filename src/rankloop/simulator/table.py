"""Render a result as a table for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rankloop.simulator import stats
from rankloop.simulator.trace import Trace

HEAD = ("policy", "final regret", "of random's", "rounds/s", "")


def render(traces: Sequence[Trace], baseline: Trace) -> str:
    """Return the table, best policy first; ≈ marks a policy not significantly worse than the best (paired, 95 %)."""
    finals = np.stack([trace.final for trace in traces])
    near = stats.not_worse_than_best(finals)
    errors = stats.sem(finals)
    random = baseline.final.mean()
    rows = []
    for rank, i in enumerate(np.argsort(finals.mean(axis=1), kind="stable")):
        trace = traces[i]
        error = "" if np.isnan(errors[i]) else f" ± {errors[i]:.2f}"
        share = f"{trace.final.mean() / random:.1%}" if random > 0 else "-"
        mark = "best" if rank == 0 else "≈" if near[i] else ""
        rows.append((trace.label, f"{finals[i].mean():.2f}{error}", share, f"{trace.rounds_per_second:,.0f}", mark))
    widths = [max(len(row[c]) for row in (HEAD, *rows)) for c in range(len(HEAD))]
    lines = [_line(HEAD, widths), "  ".join("-" * w for w in widths).rstrip()]
    lines += [_line(row, widths) for row in rows]
    R = traces[0].regret.shape[1]
    lines.append(
        f"{traces[0].rounds[-1]:,} rounds, {R:,} replications; ± one standard error; "
        "≈ not credibly worse than the best (paired, 95 %)."
    )
    return "\n".join(lines)


def _line(row: tuple[str, ...], widths: list[int]) -> str:
    first, *rest = (
        cell.ljust(w) if c in (0, 4) else cell.rjust(w) for c, (cell, w) in enumerate(zip(row, widths, strict=True))
    )
    return "  ".join((first, *rest)).rstrip()
