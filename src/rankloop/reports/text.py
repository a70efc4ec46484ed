"""A report on a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from rankloop.reports.facts import Facts
from rankloop.reports.number_format import moment, percent
from rankloop.reports.sections import sections
from rankloop.reports.table import ReportTable, Section
from rankloop.reports.time_spans import spans

BLOCKS = "▁▂▃▄▅▆▇█"
COLUMNS = 40
"""Of a sparkline."""


def text(facts: Facts, width: int = 100) -> str:
    """The whole report."""
    head = f"{facts.ranker} · {facts.diagnosis.policy} · {moment(facts.made)}"
    parts = [f"{head}\n{'=' * len(head)}"]
    for section in sections(facts):
        charts = _lines(facts) if section.key == "time" else _exploring(facts) if section.key == "exploration" else []
        parts.append(_section(section, charts, width))
    return "\n\n".join(parts) + "\n"


def _section(section: Section, charts: Sequence[str], width: int) -> str:
    lines = [section.title, "-" * len(section.title), *_wrapped(section.headline, width, "")]
    lines += [f"  {line}" for line in charts]
    for line in section.lines:
        lines += _wrapped(line, width, "  ")
    lines += [f"  $ {command}" for command in section.commands]
    for table in section.tables:
        lines += ["", *_table(table)]
    return "\n".join(lines)


def _wrapped(words: str, width: int, indent: str) -> list[str]:
    """Lines that are not too long; a number stays with its sign."""
    held = words.replace(" %", "\u00a0%")
    lines = textwrap.wrap(held, width, initial_indent=indent, subsequent_indent=indent)
    return [line.replace("\u00a0", " ") for line in lines]


def _table(table: ReportTable) -> list[str]:
    rows = [table.head, *table.rows]
    widths = [max(len(row[c]) for row in rows) for c in range(len(table.head))]
    made = []
    for row in rows:
        cells = [
            cell.ljust(w) if c == 0 else cell.rjust(w) for c, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        made.append(("  " + "  ".join(cells)).rstrip())
    return [f"  {table.name}:", *made]


def sparkline(values: Sequence[float | None], low: float, high: float) -> str:
    """A bar for each value, a space where there is none."""
    step = (high - low) or 1.0
    bars = [" " if v is None else BLOCKS[min(7, max(0, int(8 * (v - low) / step)))] for v in values]
    return "".join(bars)


def _lines(facts: Facts) -> list[str]:
    """Click-through of both groups, on one scale."""
    found = spans(facts.overview.times, COLUMNS)
    groups = {"policy": [one.policy.rate for one in found], "control": [one.control.rate for one in found]}
    known = [rate for rates in groups.values() for rate in rates if rate is not None]
    if len(found) < 2 or not known:
        return []
    low, high = min(known), max(known)
    made = []
    for name, rates in groups.items():
        own = [rate for rate in rates if rate is not None]
        if own:
            between = f"{percent(own[0])} → {percent(own[-1])}"
            made.append(f"{name:8}{sparkline(rates, low, high)}  {between}")
    return [*made, f"{'':8}bars from {percent(low)} to {percent(high)}"]


def _exploring(facts: Facts) -> list[str]:
    found = spans(facts.overview.times, COLUMNS)
    shares = [one.policy.share for one in found]
    own = [share for share in shares if share is not None]
    if len(found) < 2 or not own:
        return []
    return [f"{'share':8}{sparkline(shares, 0.0, max(own))}  {percent(own[0])} → {percent(own[-1])}"]
