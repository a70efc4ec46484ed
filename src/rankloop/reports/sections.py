"""What a report says, section by section, in plain words."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rankloop.analytics.diagnosis import ItemSummary
from rankloop.analytics.intervals import difference
from rankloop.reports.click_behaviour import visitors
from rankloop.reports.facts import Facts
from rankloop.reports.number_format import count, digits, number, percent, signed
from rankloop.reports.rollout import rollout
from rankloop.reports.sentences import comparison
from rankloop.reports.table import ReportTable, Section
from rankloop.reports.time_spans import ends

__all__ = ["ReportTable", "Section", "sections"]

ALARMS = ("visitors", "rollout")
"""Sections that come first where something is wrong."""


def sections(facts: Facts) -> list[Section]:
    """All that is to be said, the most important first."""
    made: Sequence[Callable[[Facts], Section | None]] = (
        comparison,
        over_time,
        items,
        exploration,
        regret,
        visitors,
        rollout,
    )
    first, *rest = [section for one in made if (section := one(facts)) is not None]
    return [first, *sorted(rest, key=lambda section: section.key not in ALARMS or section.tone != "bad")]


def over_time(facts: Facts) -> Section:
    """Click-through: has it risen?"""
    title, times = "Click-through over time", facts.overview.times
    parts = ends(times)
    if parts is None:
        return Section("time", title, "open", "Too little time has passed to see a trend.")
    first, last = parts
    found = difference((last.clicked, last.settled), (first.clicked, first.settled))
    if found is None or first.rate is None or last.rate is None:
        return Section("time", title, "open", "Too few outcomes are known to see a trend.")
    gained, low, high, _ = found
    d = digits(last.rate)
    words = f"from {percent(first.rate, d)} at first to {percent(last.rate, d)} lately"
    interval = f"The change is {signed(gained, d)} points [{signed(low, d)}, {signed(high, d)}]."
    if low > 0:
        return Section("time", title, "good", f"Click-through rose {words}.", [interval])
    if high < 0:
        return Section("time", title, "bad", f"Click-through fell {words}.", [interval])
    return Section("time", title, "plain", "No trend beyond noise.", [f"It went {words}. {interval}"])


def items(facts: Facts) -> Section:
    """Which items gained, and which nobody sees."""
    found, title = facts.diagnosis, "Items"
    section = Section("items", title, "plain", "")
    if found.gained or found.lost:
        up, down = found.shifted
        section.headline = (
            f"{count(up, 'item')} {'stands' if up == 1 else 'stand'} in many more lists of the policy than of control, "
            f"{count(down)} in many fewer."
        )
        section.tables += [_told(name, told) for name, told in (("Gained", found.gained), ("Lost", found.lost)) if told]
    elif found.most and facts.control.lists and facts.policy.lists:
        section.headline = "No item stands in clearly more lists of the policy than of control."
        section.tables.append(_told("Shown most", found.most))
    elif found.most:
        section.headline = "Without lists of both, nobody can say who gained; these are shown most."
        section.tables.append(_told("Shown most", found.most))
    else:
        section.headline = "Nothing was shown yet."
    if found.unseen:
        more = found.unseen - len(found.unseen_items)
        names = ", ".join(found.unseen_items) + (f" and {count(more)} more" if more else "")
        section.lines.append(f"Nobody has seen {count(found.unseen, 'item')}: {names}.")
    elif found.most:
        section.lines.append("Every item that may be listed has been seen.")
    return section


def _told(name: str, told: Sequence[ItemSummary]) -> ReportTable:
    """Items with the share of each group's lists that they stand in, clicks there, and beliefs."""
    believed, both = any(one.estimate is not None for one in told), any(one.control_share is not None for one in told)
    head = ["item", "policy: in lists", "clicked of shown", "click-through"]
    head += ["control: in lists", "clicked of shown", "click-through"] if both else []
    head += ["believed"] if believed else []
    rows = []
    for one in told:
        row = [one.item, percent(one.treatment_share, 1), f"{one.clicked:,} of {one.shown:,}"]
        row.append(_interval(one.click_through, one.low, one.high, shares=True))
        if both:
            row += [percent(one.control_share, 1), f"{one.control_clicked:,} of {one.control_shown:,}"]
            row.append(_interval(one.control_click_through, one.control_low, one.control_high, shares=True))
        if believed:
            row.append(_interval(one.estimate, one.estimate_low, one.estimate_high, shares=False))
        rows.append(row)
    return ReportTable(name, head, rows)


def _interval(middle: float | None, low: float | None, high: float | None, *, shares: bool) -> str:
    if middle is None:
        return "–"
    if low is None or high is None:
        return percent(middle) if shares else number(middle)
    if shares:
        d = digits(middle)
        return f"{percent(middle, d)} [{100 * low:.{d}f}, {100 * high:.{d}f}]"
    return f"{number(middle)} [{number(low)}, {number(high)}]"


def exploration(facts: Facts) -> Section:
    """How much was spent on exploring."""
    found, group = facts.diagnosis, facts.policy
    section = Section("exploration", "Exploration", "plain", "")
    if not group.lists:
        section.headline = "The policy has shown no lists."
        return section
    if group.exploration_share is None:
        section.headline = f"{found.policy} has no estimates beside its scores: how much it explores is not known."
    else:
        section.headline = f"Exploring made up {percent(group.exploration_share)} of the scores of what was shown."
        parts = ends(facts.overview.times, "lists")
        if parts is not None and parts[0].share is not None and parts[1].share is not None:
            first, last = (percent(part.share) for part in parts)
            section.lines.append(f"At first it was {first}, lately {last}.")
    section.lines += _cost(facts)
    return section


def _cost(facts: Facts) -> list[str]:
    found, lines = facts.diagnosis, []
    changed = found.explored
    if changed is not None:
        apart = difference((changed.clicked, changed.settled), (changed.others_clicked, changed.others))
        words = f"Exploring changed {count(changed.settled, 'list')} of {count(changed.settled + changed.others)}"
        if apart is not None:
            d = digits(changed.clicked / changed.settled)
            words += (
                f"; {percent(changed.clicked / changed.settled, d)} of them were clicked, "
                f"{percent(changed.others_clicked / changed.others, d)} of the others "
                f"({signed(apart[0], d)} points [{signed(apart[1], d)}, {signed(apart[2], d)}])"
            )
        lines.append(f"{words}.")
    else:
        lines.append(
            "How many lists exploring changed is counted only with explore_from or explore_daily: "
            "only then the list that it believes best is made too."
        )
    if found.worth is not None:
        lines.append(
            f"By what it believes today, all lists that it showed were worth {percent(found.worth, 1)} of the list "
            "that it believes best: the rest was spent on learning, or on lists that had to be others."
        )
    return lines


def regret(facts: Facts) -> Section | None:
    """What was lost against the best list, where somebody knows."""
    group, other = facts.policy, facts.control
    if group.regret is None or not group.regret_lists:
        return None
    a_list = group.regret / group.regret_lists
    headline = f"Against the best list, {number(a_list)} was lost with each list of the policy"
    if other.regret is not None and other.regret_lists:
        headline += f", and {number(other.regret / other.regret_lists)} with each of control"
    lines = [f"In all {number(group.regret)}, over the {count(group.regret_lists, 'list')} of which the teller knew."]
    parts = ends(facts.overview.times)
    if parts is not None and parts[0].loss is not None and parts[1].loss is not None:
        lines.append(f"At first it was {number(parts[0].loss)} with each, lately {number(parts[1].loss)}.")
    return Section("regret", "Regret", "plain", f"{headline}.", lines)
