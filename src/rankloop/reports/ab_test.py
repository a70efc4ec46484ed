"""The report section on the A/B test: is the policy better than control, by how much, with which certainty?"""

from __future__ import annotations

import math

from rankloop.reports.ab_test_verdict import EQUIVALENCE_MARGIN, ABTestVerdict, verdict
from rankloop.reports.number_format import count, duration, number, percent, probability, rounded, signed
from rankloop.reports.report_data import ReportData
from rankloop.reports.table import Section

MAX_REQUIRED_RATIO = 20.0
"""Multiple of the lists so far up to which the report says how many lists would detect the present difference."""
MIN_RATE_SECONDS = 600.0
"""Duration from which on the number of lists per time predicts the end of the test."""


def ab_test(data: ReportData) -> Section:
    """Return the section on treatment compared with control."""
    result = verdict(data)
    section = Section("comparison", "Is it better than control?", _tone(result.state), _headline(data, result))
    if not result.compared:
        section.lines += _how_to_compare(data, result.state)
        return section
    of = data.written
    gap, low, high = (of.change(value, result.control) for value in (result.difference, result.low, result.high))
    section.lines.append(
        f"{of.difference_name}: {gap}{of.difference_unit} (95 % confidence interval {low} to {high}). "
        f"Probability that treatment is better: {probability(result.better)}."
    )
    treatment, control = (f"{group.clicked:,} of {group.settled:,}" for group in (data.treatment, data.control))
    section.lines.append(f"Lists with a click: {treatment} in treatment, {control} in control.")
    if result.hourly:
        section.lines.append(
            "The traffic share changed over time, so the groups are compared hour by hour, in hours with outcomes of "
            f"both: {count(result.lists, 'list')}."
        )
    section.lines += _certainty(result) if result.state in ("better", "worse") else _required(data, result)
    section.lines += _totals(data)
    return section


def _tone(state: str) -> str:
    return {"better": "good", "worse": "bad", "equivalent": "plain"}.get(state, "open")


def _headline(data: ReportData, result: ABTestVerdict) -> str:
    of = data.written
    if result.hourly:
        gap = of.change(result.difference, result.control)
        rates = f"{gap}{of.difference_unit}{of.per_list} compared with control in the same hours"
    else:
        treatment, control = (of.level(value, result.control) for value in (result.treatment, result.control))
        rates = f"{of.name} {treatment}, control {control}"
    lift = "" if result.lift is None else f" (lift {signed(result.lift, 1)} %)"
    match result.state:
        case "better":
            return f"Better than control: {rates}{lift}."
        case "worse":
            return f"Worse than control: {rates}{lift}."
        case "equivalent":
            return f"Equivalent to control: any lift is below {percent(EQUIVALENCE_MARGIN, 0)} ({rates})."
        case "inconclusive":
            return f"Too early to tell: {rates}. The difference is not significant."
        case "shadow":
            return "No comparison: in shadow mode all visitors see the control ranking."
        case "no-outcomes":
            return "Too early to tell: there is no feedback for both groups yet."
    value = data.treatment.value_per_list
    worth = "" if value is None else f" The {of.name} is {of.level(value)}."
    return f"No control group, so no comparison.{worth}"


def _how_to_compare(data: ReportData, state: str) -> list[str]:
    if state == "no-outcomes":
        lists = f"{count(data.treatment.lists, 'list')} in treatment, {count(data.control.lists)} in control"
        return [f"{lists}; {count(data.overview.open_decisions, 'open decision')}."]
    if state == "shadow":
        return [
            "To start an A/B test, set mode: live and traffic: 0.1. 10 % of visitors then see the policy's lists, the "
            "others the control ranking. Nothing learned is lost."
        ]
    if data.overview.traffic < 1.0:
        return ["The traffic share is set, but no visitor of the control group has requested a list yet."]
    return [
        "To start an A/B test, set traffic: 0.9 and send the control ranking (order) with every rank request. 10 % of "
        "visitors then form the control group; requests with the same visitor always stay in the same group. Nothing "
        "learned is lost."
    ]


def _certainty(result: ABTestVerdict) -> list[str]:
    if result.sequential:
        return ["The result is also significant in a sequential test, so it holds however often you check it."]
    return [
        "The result holds for a single check at a time fixed in advance. It is not yet significant in a sequential "
        "test: if you check repeatedly, wait for more data."
    ]


def _required(data: ReportData, result: ABTestVerdict) -> list[str]:
    if result.state == "inconclusive" and result.required <= MAX_REQUIRED_RATIO * result.lists:
        return [
            f"If the present difference is real, about {rounded(result.required)} lists would detect it "
            f"({count(result.lists)} so far){_time_left(data, result, result.required)}."
        ]
    if math.isfinite(result.required_margin):
        return [
            f"A lift of {percent(EQUIVALENCE_MARGIN, 0)} would take about {rounded(result.required_margin)} lists to "
            f"detect ({count(result.lists)} so far){_time_left(data, result, result.required_margin)}."
        ]
    return []


def _time_left(data: ReportData, result: ABTestVerdict, lists: float) -> str:
    """Return how long the remaining lists take at the present rate, or nothing."""
    since, until = data.diagnosis.since, data.diagnosis.until
    remaining = lists - result.lists
    if since is None or until is None or until - since < MIN_RATE_SECONDS or remaining <= 0:
        return ""
    return f", in about {duration(remaining * (until - since) / result.lists)} at the present rate"


def _totals(data: ReportData) -> list[str]:
    """Return the summed value of both groups, where a list is not worth just its click."""
    if data.written.is_rate:
        return []
    groups = (data.treatment, data.control)
    treatment, control = (f"{number(group.value)} over {count(group.settled, 'list')}" for group in groups)
    return [f"Total {data.written.unit}: {treatment} in treatment, {control} in control."]
