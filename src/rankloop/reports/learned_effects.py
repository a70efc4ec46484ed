"""The report sections on what the policy has learned: the worth of its slots, and its trust in the caller's scores."""

from __future__ import annotations

from rankloop.analytics.learned_effects import MISLEADING_TRUST, SlotWorth
from rankloop.reports.number_format import percent
from rankloop.reports.report_data import ReportData
from rankloop.reports.table import ReportTable, Section


def slot_worths(data: ReportData) -> Section | None:
    """Return the section on the learned position biases, or None if the policy learns none."""
    slots = data.diagnosis.slot_worths
    if len(slots) < 2:
        return None
    section = Section("slot_worths", "What are your slots worth?", "plain", _slots_headline(slots))
    section.lines.append(
        f"{data.diagnosis.policy} learns this from clicks on the same items in different slots{_segment(data)}: the "
        "position bias of a slot, relative to slot 0."
    )
    rows = [[str(one.slot), f"{one.effect:.2f}", _interval(one)] for one in slots]
    section.tables.append(ReportTable("Worth of a slot, relative to slot 0", ["slot", "worth", "95 % interval"], rows))
    return section


def _slots_headline(slots: list[SlotWorth]) -> str:
    known = [one for one in slots[1:] if one.low is not None]
    if not known:
        return "Too early to tell: items have not been clicked in enough slots to compare them."
    last = known[-1]
    text = f"A place in slot {last.slot} is worth {percent(last.effect, 0)} of one in slot 0"
    return f"{text} (95 % interval {percent(last.low, 0)} to {percent(last.high, 0)})."


def _interval(one: SlotWorth) -> str:
    if one.slot == 0:
        return "by definition"
    return "unknown" if one.low is None or one.high is None else f"{one.low:.2f} to {one.high:.2f}"


def score_trust(data: ReportData) -> Section | None:
    """Return the section on the trust in the caller's scores, or None if the policy does not weigh them."""
    trust = data.diagnosis.score_trust
    if trust is None:
        return None
    title, amount = "How far are your scores trusted?", f"{trust.mean:.2f}".replace("-", "−")
    low, high = (f"{bound:.2f}".replace("-", "−") for bound in (trust.low, trust.high))
    of = f"by now at {amount} (95 % interval {low} to {high}{_segment(data)})"
    scale = "1 means as given, 0 not at all; below 0, items with higher scores are taken to be worse."
    if trust.misleading:
        why = "they point the wrong way" if trust.high < 0.0 else "they hardly tell good items from bad ones"
        headline = f"Your scores mislead: they are trusted {of}, so {why}."
        advice = (
            f"The whole interval is below {MISLEADING_TRUST:g}. The policy weighs them accordingly, but better scores "
            "would make better lists: correct them, or stop sending them."
        )
        return Section("score_trust", title, "bad", headline, [scale, advice])
    if trust.low > 0.5:
        return Section("score_trust", title, "good", f"Your scores are trusted, {of}.", [scale])
    return Section("score_trust", title, "plain", f"Your scores are trusted in part, {of}.", [scale])


def _segment(data: ReportData) -> str:
    """Return which segment the numbers are of, where there are several."""
    if data.overview.segments < 2:
        return ""
    return f", in segment {data.diagnosis.segment!r}" if data.diagnosis.segment else ", in requests without a segment"
