"""A report as text for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from rankloop.reports.number_format import moment, percent
from rankloop.reports.report_data import ReportData
from rankloop.reports.sections import sections
from rankloop.reports.table import ReportTable, Section
from rankloop.reports.time_buckets import merge_buckets

BLOCKS = "▁▂▃▄▅▆▇█"
SPARKLINE_COLUMNS = 40
LABEL_COLUMNS = 10


def text(data: ReportData, width: int = 100) -> str:
    """Return the whole report, wrapped to `width` columns."""
    head = f"{data.ranker} · {data.diagnosis.policy} · {moment(data.time)}"
    parts = [f"{head}\n{'=' * len(head)}"]
    charts = {"time": _values, "exploration": _exploration}
    for section in sections(data):
        chart = charts[section.key](data) if section.key in charts else []
        parts.append(_section(section, chart, width))
    return "\n\n".join(parts) + "\n"


def _section(section: Section, chart: Sequence[str], width: int) -> str:
    lines = [section.title, "-" * len(section.title), *_wrapped(section.headline, width, "")]
    lines += [f"  {line}" for line in chart]
    for line in section.lines:
        lines += _wrapped(line, width, "  ")
    lines += [f"  $ {command}" for command in section.commands]
    for table in section.tables:
        lines += ["", *_table(table)]
    return "\n".join(lines)


def _wrapped(sentence: str, width: int, indent: str) -> list[str]:
    """Return wrapped lines that never separate a number from its % sign."""
    bound = sentence.replace(" %", "\u00a0%")
    lines = textwrap.wrap(bound, width, initial_indent=indent, subsequent_indent=indent)
    return [line.replace("\u00a0", " ") for line in lines]


def _table(table: ReportTable) -> list[str]:
    rows = [table.head, *table.rows]
    widths = [max(len(row[c]) for row in rows) for c in range(len(table.head))]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(w) if c == 0 else cell.rjust(w) for c, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(("  " + "  ".join(cells)).rstrip())
    return [f"  {table.name}:", *lines]


def sparkline(values: Sequence[float | None], low: float, high: float) -> str:
    """Return a bar for each value between low and high, and a space for None."""
    step = (high - low) or 1.0
    bars = [" " if v is None else BLOCKS[min(7, max(0, int(8 * (v - low) / step)))] for v in values]
    return "".join(bars)


def _values(data: ReportData) -> list[str]:
    """Return sparklines of the values per list of both groups, on one scale."""
    buckets = merge_buckets(data.overview.times, SPARKLINE_COLUMNS)
    groups = {
        "treatment": [one.treatment.value_per_list for one in buckets],
        "control": [one.control.value_per_list for one in buckets],
    }
    known = [rate for rates in groups.values() for rate in rates if rate is not None]
    if len(buckets) < 2 or not known:
        return []
    low, high, written = min(known), max(known), data.written
    lines = []
    for name, rates in groups.items():
        defined = [rate for rate in rates if rate is not None]
        if defined:
            ends = f"{written.level(defined[0])} → {written.level(defined[-1])}"
            lines.append(f"{name:{LABEL_COLUMNS}}{sparkline(rates, low, high)}  {ends}")
    return [*lines, f"{'':{LABEL_COLUMNS}}scale: {written.level(low)} to {written.level(high)}"]


def _exploration(data: ReportData) -> list[str]:
    """Return a sparkline of the exploration share."""
    buckets = merge_buckets(data.overview.times, SPARKLINE_COLUMNS)
    shares = [one.treatment.exploration_share for one in buckets]
    known = [share for share in shares if share is not None]
    if len(buckets) < 2 or not known:
        return []
    line = sparkline(shares, 0.0, max(known))
    return [f"{'share':{LABEL_COLUMNS}}{line}  {percent(known[0])} → {percent(known[-1])}"]
