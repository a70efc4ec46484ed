"""The sections of a report, as sentences and tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rankloop.analytics.diagnosis import ItemSummary
from rankloop.analytics.intervals import difference
from rankloop.reports.ab_test import ab_test
from rankloop.reports.click_model import click_model
from rankloop.reports.kinds import kinds
from rankloop.reports.learned_effects import score_trust, slot_worths
from rankloop.reports.number_format import count, digits, number, percent, signed
from rankloop.reports.report_data import ReportData
from rankloop.reports.rollout import rollout
from rankloop.reports.table import ReportTable, Section
from rankloop.reports.time_buckets import change, first_and_last_third

__all__ = ["ReportTable", "Section", "sections"]

PROMOTED_IF_BAD = ("score_trust", "click_model", "rollout")
"""Sections that move to the top if something is wrong."""


def sections(data: ReportData) -> list[Section]:
    """Return all sections, the most important first."""
    builders: Sequence[Callable[[ReportData], Section | None]] = (
        ab_test,
        kinds,
        over_time,
        items,
        exploration,
        regret,
        slot_worths,
        score_trust,
        click_model,
        rollout,
    )
    first, *rest = [section for build in builders if (section := build(data)) is not None]
    return [first, *sorted(rest, key=lambda section: section.key not in PROMOTED_IF_BAD or section.tone != "bad")]


def over_time(data: ReportData) -> Section:
    """Return the section on the trend of the value per list."""
    of = data.written
    title, thirds = f"{of.title} over time", first_and_last_third(data.overview.times)
    if thirds is None:
        return Section("time", title, "open", "The time range is too short to see a trend.")
    first, last = thirds
    found, before, after = change(last, first, of), first.value_per_list, last.value_per_list
    if found is None or before is None or after is None:
        return Section("time", title, "open", "Not enough feedback to see a trend.")
    _, low, high, _ = found
    rates = f"from {of.level(before, after)} (first third of the lists) to {of.level(after, after)} (last third)"
    gap, lowest, highest = (of.change(value, after) for value in found[:3])
    interval = f"Change: {gap}{of.difference_unit} (95 % confidence interval {lowest} to {highest})."
    lines = [interval, *_click_through_beside(data)]
    if low > 0:
        return Section("time", title, "good", f"The {of.name} rose {rates}.", lines)
    if high < 0:
        return Section("time", title, "bad", f"The {of.name} fell {rates}.", lines)
    return Section("time", title, "plain", "No significant trend.", [f"The {of.name} went {rates}.", *lines])


def _click_through_beside(data: ReportData) -> list[str]:
    """Return the click-through rates where the objective is another one."""
    groups = [(name, group) for name, group in data.overview.groups.items() if group.click_through is not None]
    if data.written.is_rate or not groups:
        return []
    rates = ", ".join(f"{percent(group.click_through)} in {name}" for name, group in groups)
    return [f"Click-through rate, which the objective does not count: {rates}."]


def items(data: ReportData) -> Section:
    """Return the section on items that gained, lost or were never shown."""
    diagnosis = data.diagnosis
    section = Section("items", "Items", "plain", "")
    if diagnosis.gained or diagnosis.lost:
        gained, lost = diagnosis.moved_counts
        section.headline = (
            f"Compared with control, the policy shows {count(gained, 'item')} much more often and "
            f"{count(lost, 'item')} much less often."
        )
        moved = (("Gained", diagnosis.gained), ("Lost", diagnosis.lost))
        section.tables += [_item_table(name, rows) for name, rows in moved if rows]
    elif diagnosis.most_shown:
        both = data.control.lists and data.treatment.lists
        section.headline = (
            "The policy shows no item significantly more or less often than control."
            if both
            else "Gains and losses are unknown without a control group. The most shown items are listed."
        )
        section.tables.append(_item_table("Most shown", diagnosis.most_shown))
    else:
        section.headline = "No item has been shown yet."
    if diagnosis.never_shown:
        more = diagnosis.never_shown - len(diagnosis.never_shown_items)
        names = ", ".join(diagnosis.never_shown_items) + (f" and {count(more)} more" if more else "")
        section.lines.append(f"Never shown: {count(diagnosis.never_shown, 'item')} ({names}).")
    elif diagnosis.most_shown:
        section.lines.append("Every enabled item has been shown.")
    return section


def _item_table(name: str, items: Sequence[ItemSummary]) -> ReportTable:
    """Return a table of items: share of the lists, clicks and click-through rate (CTR) by group, and estimates."""
    estimated = any(one.estimate is not None for one in items)
    both = any(one.control_share is not None for one in items)
    head = ["item", "treatment lists", "clicked / shown", "CTR"]
    head += ["control lists", "clicked / shown", "CTR"] if both else []
    head += ["estimate"] if estimated else []
    rows = []
    for one in items:
        row = [one.item, percent(one.treatment_share, 1), f"{one.clicked:,} / {one.shown:,}"]
        row.append(_interval(one.click_through, one.low, one.high, rate=True))
        if both:
            row += [percent(one.control_share, 1), f"{one.control_clicked:,} / {one.control_shown:,}"]
            row.append(_interval(one.control_click_through, one.control_low, one.control_high, rate=True))
        if estimated:
            row.append(_interval(one.estimate, one.estimate_low, one.estimate_high, rate=False))
        rows.append(row)
    return ReportTable(name, head, rows)


def _interval(estimate: float | None, low: float | None, high: float | None, *, rate: bool) -> str:
    if estimate is None:
        return "–"
    if low is None or high is None:
        return percent(estimate) if rate else number(estimate)
    if rate:
        d = digits(high)
        return f"{percent(estimate, d)} [{100 * low:.{d}f}, {100 * high:.{d}f}]"
    return f"{number(estimate)} [{number(low)}, {number(high)}]"


def exploration(data: ReportData) -> Section:
    """Return the section on the amount and the cost of exploration."""
    diagnosis, group = data.diagnosis, data.treatment
    section = Section("exploration", "Exploration", "plain", "")
    if not group.lists:
        section.headline = "The treatment group has no lists yet."
        return section
    if group.exploration_share is None:
        section.headline = f"{diagnosis.policy} reports no estimates, so its exploration share is unknown."
    else:
        section.headline = f"Exploration made up {percent(group.exploration_share)} of the scores of the shown items."
        thirds = first_and_last_third(data.overview.times, "lists")
        if thirds is not None and thirds[0].exploration_share is not None and thirds[1].exploration_share is not None:
            first, last = (percent(third.exploration_share) for third in thirds)
            section.lines.append(f"It went from {first} (first third of the lists) to {last} (last third).")
    section.lines += _exploration_cost(data)
    return section


def _exploration_cost(data: ReportData) -> list[str]:
    outcome, value_share, lines = data.diagnosis.exploration, data.diagnosis.value_share, []
    if outcome is not None:
        changed, unchanged = (outcome.changed_clicked, outcome.changed), (outcome.unchanged_clicked, outcome.unchanged)
        gap = difference(changed, unchanged)
        text = f"Exploration changed {outcome.changed:,} of {count(outcome.changed + outcome.unchanged, 'list')}"
        if gap is not None:
            rates = outcome.changed_clicked / outcome.changed, outcome.unchanged_clicked / outcome.unchanged
            d = digits(rates[0])
            text += (
                f". Their click-through rate is {percent(rates[0], d)}, that of the others {percent(rates[1], d)} "
                f"(difference {signed(gap[0], d)} percentage points [{signed(gap[1], d)}, {signed(gap[2], d)}])"
            )
        lines.append(f"{text}.")
    else:
        lines.append("To count the lists that exploration changed, set explore_from or explore_daily.")
    if value_share is not None:
        lines.append(
            f"By current estimates, the lists shown had {percent(value_share, 1)} of the value of the best list. "
            "Exploration and restrictions such as pinned or excluded items cost the rest."
        )
    return lines


def regret(data: ReportData) -> Section | None:
    """Return the section on regret, or None if no feedback reported it."""
    group, control = data.treatment, data.control
    if group.regret is None or not group.regret_lists:
        return None
    headline = f"Regret per list: {number(group.regret / group.regret_lists)} in treatment"
    if control.regret is not None and control.regret_lists:
        headline += f", {number(control.regret / control.regret_lists)} in control"
    lines = [f"Total: {number(group.regret)} over {count(group.regret_lists, 'list')} whose feedback reported regret."]
    thirds = first_and_last_third(data.overview.times)
    if thirds is not None and thirds[0].mean_regret is not None and thirds[1].mean_regret is not None:
        first, last = (number(third.mean_regret or 0.0) for third in thirds)
        lines.append(f"It went from {first} per list (first third) to {last} (last third).")
    return Section("regret", "Regret", "plain", f"{headline}.", lines)
