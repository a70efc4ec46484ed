"""A report as one self-contained HTML page, without scripts and external resources."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape as html_escape

from rankloop.reports import charts
from rankloop.reports.ab_test_verdict import ABTestVerdict, verdict
from rankloop.reports.click_model import MISMATCH
from rankloop.reports.number_format import count, duration, moment, percent, signed
from rankloop.reports.report_data import ReportData
from rankloop.reports.sections import sections
from rankloop.reports.style import CSS
from rankloop.reports.table import ReportTable, Section
from rankloop.reports.time_buckets import merge_buckets
from rankloop.version import __version__

CHART_POINTS = 48
BADGES = {
    "better": "Better",
    "worse": "Worse",
    "equivalent": "Equivalent",
    "inconclusive": "Too early to tell",
    "no-outcomes": "Too early to tell",
    "no-control": "No control group",
    "shadow": "Shadow mode",
}


def escape(text: str) -> str:
    """Return text as HTML; a number and its % sign stay on one line."""
    return html_escape(text).replace(" %", "\u00a0%")


def page(data: ReportData) -> str:
    """Return the whole page, which is also well-formed XML."""
    result = verdict(data)
    first, *rest = sections(data)
    body = "\n".join(
        [_header(data), _hero(data, first, result), _tiles(data, result), *(_section(data, s) for s in rest)]
    )
    title = escape(f"{data.ranker}: report")
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"/>\n<title>{title}</title>\n'
        f"<style>{CSS}</style>\n</head>\n<body>\n<main>\n{body}\n{_footer(data)}\n</main>\n</body>\n</html>\n"
    )


def _header(data: ReportData) -> str:
    since, until = data.diagnosis.since, data.diagnosis.until
    span = "" if since is None or until is None else f" in {duration(until - since)}"
    lists = count(data.treatment.lists + data.control.lists, "list")
    sub = f"Policy {data.diagnosis.policy}. {lists}{span}. As of {moment(data.time)}."
    return (
        f'<header><div class="brand">rankloop report</div><h1>{escape(data.ranker)}</h1>'
        f'<p class="sub">{escape(sub)}</p></header>'
    )


def _hero(data: ReportData, section: Section, result: ABTestVerdict) -> str:
    content = f'<div><span class="badge">{escape(BADGES[result.state])}</span>{_content(section)}</div>'
    chart = f"<div>{charts.lift(result, data.written)}</div>" if result.compared else ""
    return f'<section class="hero {section.tone}{"" if result.compared else " alone"}">{content}{chart}</section>'


def _tiles(data: ReportData, result: ABTestVerdict) -> str:
    of = data.written
    tiles = [_value_tile(data, "treatment")] + ([_value_tile(data, "control")] if data.control.settled else [])
    if result.lift is not None and result.compared:
        low, high = (of.change(bound, result.control) for bound in (result.low, result.high))
        interval = f"{low} to {high}{of.difference_unit}{of.per_list}"
        tiles.append(_tile("", "lift over control", f"{signed(result.lift, 1)} %", interval))
    group = data.treatment
    if not of.is_rate and group.click_through is not None:
        beside = "" if data.control.click_through is None else f"control {percent(data.control.click_through)}"
        tiles.append(_tile("", "click-through rate", percent(group.click_through), beside))
    if group.exploration_share is not None:
        tiles.append(_tile("", "exploration share", percent(group.exploration_share), "of the scores"))
    if group.regret is not None and group.regret_lists:
        tiles.append(_tile("", "regret", f"{group.regret / group.regret_lists:.3g}", "per list"))
    return f'<div class="tiles">{"".join(tiles)}</div>'


def _value_tile(data: ReportData, name: str) -> str:
    group, of = data.overview.groups[name], data.written
    label, value = f"{of.name}, {name}", group.value_per_list
    if value is None:
        return _tile(name, label, "–", "no feedback yet")
    lists = count(group.settled, "list")
    if group.value_low is None or group.value_high is None:
        return _tile(name, label, of.level(value), lists)
    return _tile(name, label, of.level(value), f"{of.interval(group.value_low, group.value_high, value)}, {lists}")


def _tile(class_: str, label: str, value: str, detail: str) -> str:
    return (
        f'<div class="tile {class_}"><div class="label">{escape(label)}</div><b>{escape(value)}</b>'
        f'<div class="detail">{escape(detail)}</div></div>'
    )


def _section(data: ReportData, section: Section) -> str:
    return f'<section class="{section.tone}">{_content(section, _chart(data, section.key))}</section>'


def _content(section: Section, chart: str = "") -> str:
    parts = [f"<h2>{escape(section.title)}</h2>", f'<p class="headline">{escape(section.headline)}</p>']
    parts += [f"<figure>{chart}</figure>"] if chart else []
    parts += [f"<p>{escape(line)}</p>" for line in section.lines]
    parts += [f"<pre>{escape(command)}</pre>" for command in section.commands]
    parts += [_table(table) for table in section.tables]
    return "".join(parts)


def _chart(data: ReportData, key: str) -> str:
    diagnosis = data.diagnosis
    if key in ("time", "exploration"):
        buckets = merge_buckets(data.overview.times, CHART_POINTS)
        if key == "time":
            return charts.values(buckets, data.written) if len(buckets) > 1 else ""
        known = [one for one in buckets if one.treatment.exploration_share is not None]
        return charts.exploration(buckets) if len(known) > 1 else ""
    if key == "slot_worths":
        return charts.slot_worths(diagnosis.slot_worths)
    if key == "items" and (diagnosis.gained or diagnosis.lost):
        return charts.list_shares(diagnosis.gained, diagnosis.lost)
    return charts.slot_effects(diagnosis.slots) if key == "click_model" and diagnosis.slots else ""


def _table(table: ReportTable) -> str:
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in table.head)
    rows = "".join(f"<tr>{_cells(row)}</tr>" for row in table.rows)
    caption = f"<caption>{escape(table.name)}</caption>"
    return f'<div class="scroll"><table>{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _cells(row: Sequence[str]) -> str:
    return "".join(
        f'<td class="{MISMATCH}">{escape(cell)}</td>' if cell == MISMATCH else f"<td>{escape(cell)}</td>"
        for cell in row
    )


def _footer(data: ReportData) -> str:
    objective = "" if data.written.is_rate else f" The value of a list is its {data.written.unit}."
    text = (
        "All intervals are 95 % confidence intervals. The click-through rate is the share of lists with a click among "
        f"the lists with a known outcome.{objective} Created by rankloop {__version__}."
    )
    return f"<footer><p>{escape(text)}</p></footer>"
