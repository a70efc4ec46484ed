"""Tables of results, as Markdown and CSV."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass

import numpy as np

from rankloop.experiments.outcome import Outcome
from rankloop.simulator.stats import half_width

NUMBER, PERCENT = re.compile(r"-?\d+(\.\d+)?"), re.compile(r"-?\d+(\.\d+)? %")


@dataclass(frozen=True)
class ResultTable:
    """Columns and rows of text."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        """Return a Markdown table; columns of numbers are aligned to the right."""
        cells = [[cell.replace("|", r"\|") for cell in row] for row in self.rows]
        right = [all(row[c][:1] in "-0123456789." for row in cells) for c in range(len(self.columns))]
        lines = ["| " + " | ".join(self.columns) + " |", "|" + "".join("---:|" if r else "---|" for r in right)]
        lines += ["| " + " | ".join(row) + " |" for row in cells]
        return "\n".join(lines)

    def csv(self) -> str:
        """Return comma-separated values with a header."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows([_plain(cell) for cell in row] for row in self.rows)
        return out.getvalue()


def _plain(cell: str) -> str:
    """Return a number without thousands separators, and a percentage as a fraction."""
    bare = cell.replace(",", "")
    if PERCENT.fullmatch(bare):
        return f"{float(bare.removesuffix(' %')) / 100:.4g}"
    return bare if NUMBER.fullmatch(bare) else cell


def finals(outcome: Outcome) -> ResultTable:
    """Return the final regret of every policy in every panel with half its 95 % interval, and the reward."""
    rows = []
    for panel, result in outcome.parts:
        random = result.random.final.mean()
        for trace in sorted(result, key=lambda t: float(t.final.mean())):
            share = f"{trace.final.mean() / random:.1%}".replace("%", " %") if random > 0 else "-"
            rows.append(
                (
                    panel.title,
                    trace.label,
                    number(trace.final.mean()),
                    number(float(half_width(trace.final))),
                    share,
                    number(trace.reward[-1].mean()),
                )
            )
    return ResultTable(("panel", "policy", "regret", "± (95 %)", "of random's", "reward"), tuple(rows))


def number(value: float) -> str:
    """Return a number with four significant digits and no exponent; a dash for NaN."""
    if np.isnan(value):
        return "-"
    digits = 0 if value == 0 else max(0, 3 - int(np.floor(np.log10(abs(value)))))
    return f"{value:,.{min(digits, 4)}f}"
