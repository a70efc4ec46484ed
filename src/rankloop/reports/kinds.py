"""The report section on kinds of feedback, such as clicks and purchases."""

from __future__ import annotations

from rankloop.reports.number_format import count, number, percent, signed
from rankloop.reports.report_data import ReportData
from rankloop.reports.table import ReportTable, Section
from rankloop.schema.answers import KindGroup, KindSummary

HEAD = ("kind", "events", "value", "per list, treatment", "per list, control", "lift")


def kinds(data: ReportData) -> Section | None:
    """Return the section on the kinds of feedback; None if the ranker takes clicks only."""
    found = data.overview.kinds
    if not found:
        return None
    total = ", ".join(f"{number(_value(one))} of {one.kind}" for one in found)
    section = Section("kinds", "What did each kind of feedback report?", "plain", f"Total values: {total}.")
    section.tables.append(ReportTable("Values by kind", HEAD, [_row(one) for one in found]))
    section.lines.append(
        "A value per list is over all lists that were shown, with a 95 % interval; feedback of open lists is included."
    )
    late = [f"{count(one.late, 'event')} of {one.kind} (value {number(one.late_value)})" for one in found if one.late]
    if late:
        section.lines.append(f"Too late to count: {', '.join(late)}.")
    constraints = (data.config.get("guardrail") or {}).get("constraints") or {}
    if constraints:
        limits = ", ".join(f"{percent(drop, 0)} of {kind}" for kind, drop in constraints.items())
        section.lines.append(f"The guardrail also trips if a list is credibly worth less by more than {limits}.")
    return section


def _value(one: KindSummary) -> float:
    return one.treatment.value + one.control.value


def _row(one: KindSummary) -> list[str]:
    lift = "–" if one.lift is None or one.lift.share is None else f"{signed(one.lift.share, 1)} %"
    events = f"{one.treatment.events + one.control.events:,}"
    return [one.kind, events, number(_value(one)), _per_list(one.treatment), _per_list(one.control), lift]


def _per_list(group: KindGroup) -> str:
    if group.value_per_list is None:
        return "–"
    if group.low is None or group.high is None:
        return number(group.value_per_list)
    return f"{number(group.value_per_list)} ({number(group.low)} to {number(group.high)})"
