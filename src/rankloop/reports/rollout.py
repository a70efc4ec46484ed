"""The state of the rollout: who sees the policy's lists, and what comes back."""

from __future__ import annotations

from collections.abc import Sequence

from rankloop.analytics.overview import FeedbackDelay
from rankloop.reports.facts import Facts
from rankloop.reports.number_format import count, moment, number, percent, span
from rankloop.reports.table import Section

LATE = 0.05
"""Share of the feedback that may be late before it is said why."""


def rollout(facts: Facts) -> Section:
    """Mode, traffic, guard, feedback, log."""
    overview = facts.overview
    section = Section("rollout", "Rollout and feedback", "plain", _headline(facts))
    if overview.guardrail_tripped is not None:
        section.tone = "bad"
        section.lines.append(f"Why: {overview.guardrail_tripped}.")
        section.commands.append(f"rankloop rankers release {facts.ranker}")
    section.lines += [_guard(facts), *_feedback(facts), _log(facts)]
    section.lines = [line for line in section.lines if line]
    return section


def _headline(facts: Facts) -> str:
    overview = facts.overview
    if overview.guardrail_tripped is not None:
        return "The guard has fallen back: everybody sees your own order."
    if overview.mode == "shadow":
        return "Shadow mode: your own order is shown and learned from."
    if overview.traffic >= 1.0:
        return "Live: every visitor sees the policy's lists."
    return f"Live: {percent(overview.traffic, 0)} of the visitors see the policy's lists, the others your own order."


def _guard(facts: Facts) -> str:
    guard = facts.config.get("guardrail")
    if not guard:
        return "No guard is set: nothing would fall back by itself."
    if facts.overview.guardrail_tripped is not None:
        return ""
    drop = percent(guard["drop"], 0)
    return f"The guard stands: it falls back if click-through is credibly more than {drop} below control's."


def _feedback(facts: Facts) -> list[str]:
    overview = facts.overview
    told = sum(lag.lists for lag in overview.feedback_delays)
    lists = facts.policy.lists + facts.control.lists - overview.withdrawn
    if not lists:
        return []
    lines = [
        f"Feedback came for {count(told)} of {count(lists, 'list')}"
        f"{_lag(overview.feedback_delays, overview.feedback_delay_seconds)}."
    ]
    rest = [
        (overview.open_decisions, "still wait for it"),
        (overview.closed, "were settled as their window closed"),
        (overview.withdrawn, "were withdrawn"),
    ]
    lines.append("; ".join(f"{count(n)} {what}" for n, what in rest if n))
    lines[-1] += "." if lines[-1] else ""
    if overview.late:
        words = f"{count(overview.late, 'event')} came too late to be learned from"
        if overview.late > LATE * max(told, 1) and facts.config.get("aggregate") == "earliest":
            words += " (if each click of a list is told by itself, aggregate: sum counts them all)"
        lines.append(f"{words}.")
    return lines


def _lag(feedback_delays: Sequence[FeedbackDelay], seconds: float) -> str:
    """Half of it, and nine tenths, came within so long."""
    told = sum(lag.lists for lag in feedback_delays)
    if not told:
        return ""
    bounds = []
    for share in (0.5, 0.9):
        so_far = 0
        for lag in feedback_delays:
            so_far += lag.lists
            if so_far >= share * told:
                bounds.append("later than a day" if lag.within is None else f"within {_bound(lag.within)}")
                break
    parts = f"half of it {bounds[0]}, nine tenths {bounds[1]}" if bounds[0] != bounds[1] else f"most of it {bounds[0]}"
    return f": {parts}, {_bound(seconds / told)} on average"


def _bound(seconds: float) -> str:
    return span(seconds) if seconds >= 1.0 else f"{number(1000.0 * seconds)} ms"


def _log(facts: Facts) -> str:
    overview = facts.overview
    since = "" if overview.since is None else f", the first list on {moment(overview.since)}"
    return (
        f"{count(overview.decisions, 'decision')}, {count(overview.items, 'item')}, "
        f"{count(overview.segments, 'segment')}; the log stands at position {overview.position:,}{since}."
    )
