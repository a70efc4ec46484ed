"""The report section on the click model: do visitors click as the policy assumes?"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping

from rankloop.reports.number_format import percent
from rankloop.reports.report_data import ReportData
from rankloop.reports.table import ReportTable, Section

CHECK_TITLES = {
    "multiple-clicks": "Several clicks per list",
    "clicks-after-click": "Clicks after a click",
    "position-bias": "Position bias",
}
CLICK_MODELS = {
    "cascade": "visitors scan from the top and stop at their first click",
    "last-click": "visitors scan from the top and may continue after a click",
    "semi-bandit": "visitors examine every slot of a list",
    "position-based": "visitors examine each slot with a known probability",
    "choice": "visitors examine the whole list and choose one item or none",
}
MISMATCH = "mismatch"


def click_model(data: ReportData) -> Section:
    """Return the section on the checks of the click model and the position bias."""
    diagnosis = data.diagnosis
    states = {check.state for check in diagnosis.checks}
    section = Section("click_model", "Does the click model fit?", "plain", "")
    if "violated" in states:
        section.tone, section.headline = "bad", f"Visitors do not click as {diagnosis.policy} assumes."
    elif "insufficient-data" in states:
        section.tone, section.headline = "open", "Not enough data yet."
    elif "ok" in states:
        section.tone, section.headline = "good", "The clicks are consistent with the click model."
    else:
        section.headline = "The click model cannot be tested for this policy."
    model = CLICK_MODELS.get(diagnosis.click_model, f"clicks follow the model {diagnosis.click_model}")
    section.lines.append(f"{diagnosis.policy} assumes that {model}.")
    for check in diagnosis.checks:
        section.lines.append(f"{CHECK_TITLES.get(check.name, check.name)}: {check.finding}")
        if check.advice is not None and check.advice not in section.lines:
            section.lines.append(check.advice)
        if check.settings is not None:
            command = challenger_command(data.ranker, check.settings)
            section.commands += [] if command in section.commands else [command]
    if diagnosis.slots:
        section.tables.append(_slot_table(data))
    section.lines += _clicks_per_list(data)
    return section


def challenger_command(ranker: str, settings: Mapping[str, object]) -> str:
    """Return the command that rebuilds a ranker with other settings as a challenger."""
    words = ["rankloop", "rankers", "challenger", ranker]
    for name, value in settings.items():
        words += ["--policy", str(value)] if name == "policy" else ["--set", f"{name}={json.dumps(value)}"]
    return shlex.join(words)


def _slot_table(data: ReportData) -> ReportTable:
    slots = data.diagnosis.slots
    head = ["slot", "shown", "clicked", f"relative to slot {slots[0].reference}", "assumed", ""]
    rows = []
    for one in slots:
        effect = "unknown"
        if one.slot == one.reference:
            effect = "1"
        elif one.effect is not None and one.low is not None and one.high is not None:
            effect = f"{one.effect:.2f} [{one.low:.2f}, {one.high:.2f}]"
        assumed = "–" if one.assumed is None else f"{one.assumed:.2f}".removesuffix(".00")
        note = MISMATCH if one.mismatch else ""
        rows.append([str(one.slot), f"{one.shown:,}", f"{one.clicked:,}", effect, assumed, note])
    return ReportTable("Click rates of the same items by slot, with 95 % intervals", head, rows)


def _clicks_per_list(data: ReportData) -> list[str]:
    """Return the distribution of the number of clicks per list."""
    counts = [sum(groups) for groups in zip(*data.diagnosis.lists_by_clicks.values(), strict=True)]
    total = sum(counts)
    if not total:
        return []
    names = ("no click", "one click", "two clicks", "more")
    parts = [f"{percent(n / total, 1)} {name}" for n, name in zip(counts, names, strict=True)]
    return [f"Clicks per list: {', '.join(parts)}."]
