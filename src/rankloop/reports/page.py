"""A report as one page: no script, nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape as escaped

from rankloop.reports import charts
from rankloop.reports.facts import Facts
from rankloop.reports.number_format import count, digits, moment, percent, signed, span
from rankloop.reports.sections import sections
from rankloop.reports.style import CSS
from rankloop.reports.table import ReportTable, Section
from rankloop.reports.time_spans import spans
from rankloop.reports.verdict import ControlVerdict, verdict
from rankloop.version import __version__

POINTS = 48
"""Of a line over time."""
BADGES = {
    "better": "Better", "worse": "Worse", "same": "As good", "early": "Too early to tell",
    "none": "No control group", "shadow": "Shadow mode", "unsettled": "Too early to tell",
}  # fmt: skip


def escape(words: str) -> str:
    """Text for the page; a number stays with its sign."""
    return escaped(words).replace(" %", "\u00a0%")


def page(facts: Facts) -> str:
    """The whole page, as text that is also well-formed XML."""
    found = verdict(facts)
    first, *rest = sections(facts)
    body = "\n".join([_header(facts), _hero(first, found), _tiles(facts, found), *(_section(facts, s) for s in rest)])
    title = escape(f"{facts.ranker}: report")
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"/>\n<title>{title}</title>\n'
        f"<style>{CSS}</style>\n</head>\n<body>\n<main>\n{body}\n{_footer(facts)}\n</main>\n</body>\n</html>\n"
    )


def _header(facts: Facts) -> str:
    seen = facts.diagnosis
    lasted = "" if seen.since is None or seen.until is None else f", over {span(seen.until - seen.since)}"
    lists = count(facts.policy.lists + facts.control.lists, "list")
    sub = f"Policy {seen.policy}. {lists}{lasted}. As of {moment(facts.made)}."
    return (
        f'<header><div class="brand">rankloop report</div><h1>{escape(facts.ranker)}</h1>'
        f'<p class="sub">{escape(sub)}</p></header>'
    )


def _hero(section: Section, found: ControlVerdict) -> str:
    compared = found.state in ("better", "worse", "same", "early")
    words = f'<div><span class="badge">{escape(BADGES[found.state])}</span>{_words(section)}</div>'
    chart = f"<div>{charts.lift(found)}</div>" if compared else ""
    return f'<section class="hero {section.tone}{"" if compared else " alone"}">{words}{chart}</section>'


def _tiles(facts: Facts, found: ControlVerdict) -> str:
    tiles = [_rate(facts, "treatment")] + ([_rate(facts, "control")] if facts.control.settled else [])
    if found.share is not None and found.state in ("better", "worse", "same", "early"):
        d = digits(found.control)
        interval = f"[{signed(found.low, d)}, {signed(found.high, d)}] points"
        tiles.append(_tile("", "difference", f"{signed(found.share, 1)} %", interval))
    if facts.policy.exploration_share is not None:
        tiles.append(_tile("", "exploring", percent(facts.policy.exploration_share), "of the scores"))
    if facts.policy.regret is not None and facts.policy.regret_lists:
        tiles.append(_tile("", "regret", f"{facts.policy.regret / facts.policy.regret_lists:.3g}", "a list"))
    return f'<div class="tiles">{"".join(tiles)}</div>'


def _rate(facts: Facts, name: str) -> str:
    group = facts.overview.groups[name]
    what = f"{name}, {count(group.settled, 'list')}"
    if group.click_through is None or group.low is None or group.high is None:
        return _tile(name, what, "–", "no outcome yet")
    d = digits(group.click_through)
    more = f"clicked [{100 * group.low:.{d}f}, {100 * group.high:.{d}f}]"
    return _tile(name, what, percent(group.click_through, d), more)


def _tile(class_: str, what: str, value: str, more: str) -> str:
    return (
        f'<div class="tile {class_}"><div class="what">{escape(what)}</div><b>{escape(value)}</b>'
        f'<div class="more">{escape(more)}</div></div>'
    )


def _section(facts: Facts, section: Section) -> str:
    return f'<section class="{section.tone}">{_words(section, _chart(facts, section.key))}</section>'


def _words(section: Section, chart: str = "") -> str:
    parts = [f"<h2>{escape(section.title)}</h2>", f'<p class="headline">{escape(section.headline)}</p>']
    parts += [f"<figure>{chart}</figure>"] if chart else []
    parts += [f"<p>{escape(line)}</p>" for line in section.lines]
    parts += [f"<pre>{escape(command)}</pre>" for command in section.commands]
    parts += [_table(table) for table in section.tables]
    return "".join(parts)


def _chart(facts: Facts, key: str) -> str:
    found = facts.diagnosis
    if key in ("time", "exploration"):
        over = spans(facts.overview.times, POINTS)
        if key == "time":
            return charts.over_time(over) if len(over) > 1 else ""
        known = [one for one in over if one.policy.share is not None]
        return charts.exploring(over) if len(known) > 1 else ""
    if key == "items" and (found.gained or found.lost):
        return charts.shares(found.gained, found.lost)
    return charts.slot_effects(found.slots) if key == "visitors" and found.slots else ""


def _table(table: ReportTable) -> str:
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in table.head)
    rows = "".join(f"<tr>{_cells(row)}</tr>" for row in table.rows)
    caption = f"<caption>{escape(table.name)}</caption>"
    return f'<div class="scroll"><table>{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _cells(row: Sequence[str]) -> str:
    return "".join(
        f'<td class="off">{escape(cell)}</td>' if cell == "off" else f"<td>{escape(cell)}</td>" for cell in row
    )


def _footer(facts: Facts) -> str:
    words = (
        "Intervals are of 95 %. Click-through is the share of lists with a click, among those whose outcome is known. "
        f"Written by rankloop {__version__}."
    )
    return f"<footer><p>{escape(words)}</p></footer>"
