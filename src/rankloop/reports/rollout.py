"""The report section on the rollout: mode, traffic share, guardrail and feedback."""

from __future__ import annotations

from collections.abc import Sequence

from rankloop.analytics.overview import FeedbackDelay
from rankloop.reports.number_format import count, duration, moment, number, percent
from rankloop.reports.report_data import ReportData
from rankloop.reports.table import Section

MAX_LATE_SHARE = 0.05
"""Share of late feedback above which the report suggests `aggregate: sum`."""


def rollout(data: ReportData) -> Section:
    """Return the section on mode, traffic share, guardrail, feedback and log."""
    overview = data.overview
    section = Section("rollout", "Rollout and feedback", "plain", _headline(data))
    if overview.guardrail_tripped is not None:
        section.tone = "bad"
        section.lines.append(f"Reason: {overview.guardrail_tripped}.")
        section.commands.append(f"rankloop rankers reset-guardrail {data.ranker}")
    section.lines += [_guardrail(data), *_feedback(data), _log(data)]
    section.lines = [line for line in section.lines if line]
    return section


def _headline(data: ReportData) -> str:
    overview = data.overview
    if overview.guardrail_tripped is not None:
        return "The guardrail tripped: all visitors see the control ranking."
    if overview.mode == "shadow":
        return "Shadow mode: all visitors see the control ranking, and the policy learns from it."
    if overview.traffic >= 1.0:
        return "Live: all visitors see the policy's lists."
    return f"Live: {percent(overview.traffic, 0)} of visitors see the policy's lists, the others the control ranking."


def _guardrail(data: ReportData) -> str:
    guardrail = data.config.get("guardrail")
    if not guardrail:
        return "No guardrail is configured."
    if data.overview.guardrail_tripped is not None:
        return ""
    drop, name = percent(guardrail["drop"], 0), data.written.name
    return f"The guardrail is active: it trips if the {name} is significantly more than {drop} below control."


def _feedback(data: ReportData) -> list[str]:
    overview = data.overview
    received = sum(delay.lists for delay in overview.feedback_delays)
    lists = data.treatment.lists + data.control.lists - (overview.withdrawn - overview.unshown)
    if not lists:
        return []
    delays = _delays(overview.feedback_delays, overview.feedback_delay_seconds)
    lines = [f"Feedback received for {count(received)} of {count(lists, 'list')}{delays}."]
    others = [
        (overview.open_decisions, "open"),
        (overview.closed, "settled when the window closed"),
        (overview.withdrawn - overview.unshown, "withdrawn"),
        (overview.unshown, "never shown"),
    ]
    parts = [f"{count(n)} {state}" for n, state in others if n]
    lines += [f"Other decisions: {', '.join(parts)}."] if parts else []
    if overview.late:
        late = f"{count(overview.late, 'feedback event')} arrived too late to be learned"
        first_counts = data.config.get("aggregate") == "earliest" and not data.config.get("reward")
        if overview.late > MAX_LATE_SHARE * max(received, 1) and first_counts:
            late += " (if you send one event per click, set aggregate: sum)"
        lines.append(f"{late}.")
    return lines


def _delays(delays: Sequence[FeedbackDelay], seconds: float) -> str:
    """Return the median, the 90th percentile (both as upper bounds of their bins) and the mean delay."""
    total = sum(delay.lists for delay in delays)
    if not total:
        return ""
    bounds = []
    for share in (0.5, 0.9):
        received = 0
        for delay in delays:
            received += delay.lists
            if received >= share * total:
                bounds.append("more than a day" if delay.within is None else f"at most {_seconds(delay.within)}")
                break
    return f" (delay: median {bounds[0]}, 90th percentile {bounds[1]}, mean {_seconds(seconds / total)})"


def _seconds(seconds: float) -> str:
    return duration(seconds) if seconds >= 1.0 else f"{number(1000.0 * seconds)} ms"


def _log(data: ReportData) -> str:
    overview = data.overview
    since = "" if overview.since is None else f"; first decision on {moment(overview.since)}"
    return (
        f"{count(overview.decisions, 'decision')}, {count(overview.items, 'item')}, "
        f"{count(overview.segments, 'segment')}; log position {overview.position:,}{since}."
    )
