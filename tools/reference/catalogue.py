"""docs/reference/policies.md and worlds.md, and the table of propensities, from the catalogue."""

from __future__ import annotations

import inspect
from pathlib import Path

from rankloop import catalogue
from rankloop.catalogue.setting_use import EVERYTHING
from rankloop.cli.catalogue import describe, with_advice
from rankloop.worlds import KINDS
from tools.reference.markdown import page, table

EXAMPLES = Path(__file__).parents[2] / "examples"


def policies_page() -> str:
    """Return the page of policies: one table of all, then formula, parameters and reference of each."""
    intro = [
        "`rankloop policies ID` prints the same; [Which policy fits?](../explanation/which-policy.md) compares them."
    ]
    rows = ((f"[`{e.id}`](#{e.id})", e.paper, e.feedback, with_advice(e)) for e in catalogue.entries())
    overview = table(("id", "paper", "reads clicks as", "what it does"), rows)
    each = [(f"## {entry.id}", "", "```text", describe(entry), "```") for entry in catalogue.entries()]
    return page("Policies", "`rankloop.catalogue`", intro, overview, *each)


def worlds() -> list[str]:
    """Return the fields of every kind of world, for docs/reference/worlds.md."""
    lines = [""]
    for kind, make in KINDS.items():
        lines += [f"## {kind}", "", "```text", inspect.getdoc(make) or "", "```", ""]
    return lines


def drift_example() -> list[str]:
    """Return the example of a non-stationary world, for docs/reference/worlds.md."""
    return ["", "```yaml", (EXAMPLES / "drift.yaml").read_text(encoding="utf-8").rstrip("\n"), "```", ""]


def propensities() -> list[str]:
    """Return the table of propensities, for docs/explanation/propensity.md."""
    rows = []
    for entry in catalogue.entries():
        law = catalogue.build(entry.id, EVERYTHING).list_distribution()
        rows.append((f"`{entry.id}`", law.kind, law.ties or "–", law.why))
    return table(("policy", "kind", "where a tie decided", "how a list comes about"), rows)
