"""Is it better than control, by how much, how sure?"""

from __future__ import annotations

import math

from rankloop.reports.facts import Facts
from rankloop.reports.number_format import about, count, digits, number, percent, probability, signed, span
from rankloop.reports.table import Section
from rankloop.reports.verdict import CLOSE, ControlVerdict, verdict

FAR = 20.0
"""Times the lists so far: a difference that takes more is as good as none."""


def comparison(facts: Facts) -> Section:
    """The first question of all."""
    found = verdict(facts)
    section = Section("comparison", "Is it better?", _tone(found.state), _headline(facts, found))
    if found.state in ("none", "shadow", "unsettled"):
        section.lines += _how_to_compare(facts, found.state)
        return section
    d = digits(found.control)
    section.lines.append(
        f"The difference is {signed(found.difference, d)} points of click-through "
        f"[{signed(found.low, d)}, {signed(found.high, d)}] (95 %); "
        f"the policy is better with a probability of {probability(found.better)}."
    )
    policy, control = (f"{group.clicked:,} of {group.settled:,}" for group in (facts.policy, facts.control))
    section.lines.append(f"{policy} lists of the policy were clicked, {control} of control.")
    if found.hours:
        section.lines.append(
            "The share of the traffic was not the same all the time, so only hours in which both were shown are "
            f"compared, each with itself: {count(found.lists, 'list')}."
        )
    section.lines += _sure(found) if found.state in ("better", "worse") else _needed(facts, found)
    section.lines += _value(facts)
    return section


def _tone(state: str) -> str:
    return {"better": "good", "worse": "bad", "same": "plain"}.get(state, "open")


def _headline(facts: Facts, found: ControlVerdict) -> str:
    d = digits(found.control)
    if found.hours:
        rates = f"{signed(found.difference, d)} points beside control in the same hours"
    else:
        rates = f"{percent(found.policy, d)} of its lists are clicked, {percent(found.control, d)} of control's"
    share = "" if found.share is None else f" ({signed(found.share, 1)} %)"
    match found.state:
        case "better":
            return f"Better than control: {rates}{share}."
        case "worse":
            return f"Worse than control: {rates}{share}."
        case "same":
            return f"As good as control: if there is a difference, it is below {percent(CLOSE, 0)} ({rates})."
        case "early":
            return f"Too early to tell: {rates}, and that may be chance."
        case "shadow":
            return "Nobody has seen its lists yet: it runs in shadow mode, and the lists shown are your own."
        case "unsettled":
            return "Too early to tell: the outcome of lists of both groups is not known yet."
    rate = facts.policy.click_through
    clicked = "" if rate is None else f" {percent(rate)} of its lists are clicked;"
    return f"There is no control group:{clicked} whether that is better than your own order, nobody can say."


def _how_to_compare(facts: Facts, state: str) -> list[str]:
    if state == "unsettled":
        lists = f"{count(facts.policy.lists, 'list')} of the policy, {count(facts.control.lists)} of control"
        return [f"{lists}; {count(facts.overview.open_decisions)} wait for their feedback."]
    if state == "shadow":
        return [
            "Put the same settings with mode: live and traffic: 0.1: a tenth of the visitors then sees its lists, the "
            "others your own order, and nothing learned is lost."
        ]
    if facts.overview.traffic < 1.0:
        return ["The share of the visitors is set (traffic), but the control group has had no lists."]
    return [
        "To get one, put the same settings with traffic: 0.9 (nothing learned is lost), and say with every list which "
        "order you would have shown yourself (order). A tenth of the visitors then sees that; who asks with a visitor "
        "is always in the same group."
    ]


def _sure(found: ControlVerdict) -> list[str]:
    if found.at_any_time:
        return ["This holds however often one looks."]
    return ["This holds for one look at a time that was fixed before; who looks often should wait until it is clearer."]


def _needed(facts: Facts, found: ControlVerdict) -> list[str]:
    lines = []
    if found.state == "early" and found.needed <= FAR * found.lists:
        lines.append(
            f"If the difference is what it looks like now, about {about(found.needed)} lists would show it "
            f"({count(found.lists)} so far){_when(facts, found, found.needed)}."
        )
    elif math.isfinite(found.needed_close):
        lines.append(
            f"A difference of {percent(CLOSE, 0)} of control's click-through would take about "
            f"{about(found.needed_close)} lists to see ({count(found.lists)} so far)"
            f"{_when(facts, found, found.needed_close)}."
        )
    return lines


def _when(facts: Facts, found: ControlVerdict, lists: float) -> str:
    """How long that takes at the pace of all lists so far."""
    since, until = facts.diagnosis.since, facts.diagnosis.until
    left = lists - found.lists
    if since is None or until is None or until - since < 600.0 or left <= 0:
        return ""
    return f", in about {span(left * (until - since) / found.lists)} at the pace so far"


def _value(facts: Facts) -> list[str]:
    """Where a list is worth more than a click: what it was worth, without an interval."""
    objective = facts.config.get("objective", "any-click")
    if objective not in ("clicks", "amount") or not (facts.policy.settled and facts.control.settled):
        return []
    worth = [number(group.value / group.settled) for group in (facts.policy, facts.control)]
    what = "clicks" if objective == "clicks" else "worth"
    chance = "how far that is chance is not kept"
    return [f"A list of the policy had {worth[0]} {what} on average, one of control {worth[1]} ({chance})."]
