"""Do visitors click as the policy assumes?"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping

from rankloop.reports.facts import Facts
from rankloop.reports.number_format import percent
from rankloop.reports.table import ReportTable, Section

TITLES = {"several-clicks": "Several clicks", "after-a-click": "After a click", "slots": "Slots"}
READS = {
    "cascade": "visitors read from the top and stop at their first click",
    "last-click": "visitors read from the top and may go on after a click",
    "semi-bandit": "every place of a list is looked at",
    "position-based": "each place is looked at with a probability that is known",
    "choice": "visitors look at the whole list and choose one item or none",
}


def visitors(facts: Facts) -> Section:
    """Whether positions or the click model look wrong."""
    found = facts.diagnosis
    states = {check.state for check in found.checks}
    section = Section("visitors", "Do visitors click as it assumes?", "plain", "")
    if "wrong" in states:
        section.tone, section.headline = "bad", f"Visitors do not click as {found.policy} assumes."
    elif "unsure" in states:
        section.tone, section.headline = "open", "Too little data to say."
    elif "fine" in states:
        section.tone, section.headline = "good", "Nothing looks wrong."
    else:
        section.headline = "Nothing that could be judged from counts."
    section.lines.append(f"{found.policy} assumes that {READS.get(found.reads, found.reads)}.")
    for check in found.checks:
        section.lines.append(f"{TITLES.get(check.name, check.name)}: {check.words}")
        if check.advice is not None and check.advice not in section.lines:
            section.lines.append(check.advice)
        if check.settings is not None:
            command = replace(facts.ranker, check.settings)
            section.commands += [] if command in section.commands else [command]
    if found.slots:
        section.tables.append(_places(facts))
    section.lines += _clicks(facts)
    return section


def replace(ranker: str, settings: Mapping[str, object]) -> str:
    """The command that rebuilds a ranker with other settings, beside the one that runs."""
    words = ["rankloop", "rankers", "replace", ranker]
    for name, value in settings.items():
        words += ["--policy", str(value)] if name == "policy" else ["--set", f"{name}={json.dumps(value)}"]
    return shlex.join(words)


def _places(facts: Facts) -> ReportTable:
    places = facts.diagnosis.slots
    head = ["slot", "shown", "clicked", f"compared with slot {places[0].reference}", "assumed", ""]
    rows = []
    for one in places:
        effect = "not known"
        if one.slot == one.reference:
            effect = "1"
        elif one.effect is not None and one.low is not None and one.high is not None:
            effect = f"{one.effect:.2f} [{one.low:.2f}, {one.high:.2f}]"
        assumed = "–" if one.assumed is None else f"{one.assumed:.2f}".removesuffix(".00")
        rows.append([str(one.slot), f"{one.shown:,}", f"{one.clicked:,}", effect, assumed, "off" if one.off else ""])
    return ReportTable("The same items in other places", head, rows)


def _clicks(facts: Facts) -> list[str]:
    """Lists by number of clicks."""
    counts = [sum(of) for of in zip(*facts.diagnosis.clicks.values(), strict=True)]
    whole = sum(counts)
    if not whole:
        return []
    parts = [f"{percent(n / whole, 1)} {name}" for n, name in zip(counts, ("none", "one", "two", "more"), strict=True)]
    return [f"Clicks on a list: {', '.join(parts)}."]
