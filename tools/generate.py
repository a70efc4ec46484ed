"""Write the pages that follow from the code: the README's table, docs/reference and others.

python -m tools.generate          # write
python -m tools.generate --check  # fail if anything is out of date
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

from rankloop import catalogue
from rankloop.catalogue.setting_use import EVERYTHING
from rankloop.cli.catalogue import describe
from rankloop.schema import FeedbackEvent, Guardrail, Item, Payload, Prior, RankerSettings, RankRequest, SegmentPrior
from rankloop.schema.field_descriptions import describe_fields
from rankloop.schema.service_settings import ApiKey, ServiceLimits, ServiceSettings, SnapshotSettings
from rankloop.worlds import KINDS

ROOT = Path(__file__).parent.parent


def between(page: str, mark: str, rows: list[str]) -> str:
    """A page with the lines between its marks renewed."""
    start, end = f"<!-- {mark}:start -->", f"<!-- {mark}:end -->"
    text = (ROOT / page).read_text(encoding="utf-8")
    table = "\n".join([start, *rows, end])
    return re.sub(f"{start}.*{end}", lambda _: table, text, flags=re.DOTALL)


def readme() -> str:
    """The README with its table of policies."""
    rows = ["| id | paper | reads clicks as | what it does |", "|---|---|---|---|"]
    rows += [f"| `{e.id}` | {e.paper} | {e.feedback} | {e.summary} |" for e in catalogue.entries()]
    return between("README.md", "policies", rows)


def propensity_page() -> str:
    """The page of propensities with the kind of every policy's."""
    rows = ["| policy | kind | where a tie decided | how a list comes about |", "|---|---|---|---|"]
    for entry in catalogue.entries():
        law = catalogue.build(entry.id, EVERYTHING).list_distribution()
        rows.append(f"| `{entry.id}` | {law.kind} | {law.ties or '–'} | {law.why} |")
    return between("docs/explanation/propensity.md", "propensities", rows)


def policies_page() -> str:
    """Every policy with formula, parameters and reference."""
    parts = ["# Policies", "", "Generated from the catalogue: `rankloop policies ID` prints the same.", ""]
    for entry in catalogue.entries():
        parts += [f"## {entry.id}", "", "```text", describe(entry), "```", ""]
    return "\n".join(parts)


def worlds_page() -> str:
    """The page of worlds with the fields of every kind."""
    parts = [""]
    for kind, make in KINDS.items():
        parts += [f"## {kind}", "", "```text", inspect.getdoc(make) or "", "```", ""]
    return between("docs/reference/worlds.md", "worlds", parts)


SETTINGS: tuple[tuple[str, str, type[Payload]], ...] = (
    ("A rank request", "`Ranker.rank`, `Client.rank`, `POST /v1/rankers/{name}/rank`.", RankRequest),
    ("A feedback event", "`Ranker.feedback`, `Client.feedback`, `POST /v1/rankers/{name}/feedback`.", FeedbackEvent),
    ("An item", "`Ranker.put_items`, `Client.put_items`, `PUT /v1/rankers/{name}/items`.", Item),
    ("A prior", "The field `prior` of an item.", Prior),
    ("A prior in a segment", "An entry of `segments` of a prior.", SegmentPrior),
    ("The settings of a ranker", "`RankerConfig`, `PUT /v1/rankers/{name}`, `rankloop rankers`.", RankerSettings),
    ("The settings of a service", "`rankloop serve --config`, and variables `RANKLOOP_…`.", ServiceSettings),
    ("An API key", "An entry of `keys` of a service's settings.", ApiKey),
    ("Limits", "The field `limits` of a service's settings.", ServiceLimits),
    ("Snapshots", "The field `snapshots` of a service's settings.", SnapshotSettings),
    ("A guardrail", "The field `guard` of a ranker's settings.", Guardrail),
)


def settings_page() -> str:
    """Every field of every payload, with its type, its default, what is accepted and what it means."""
    parts = [
        "# Settings",
        "",
        "Generated from `rankloop.schema`. Every payload is checked in its constructor and where it",
    ]
    parts += ["is decoded, by the same rules in process, over HTTP and in settings files.", ""]
    for title, where, kind in SETTINGS:
        parts += [f"## {title}", "", (inspect.getdoc(kind) or "").split("\n")[0] + " " + where, ""]
        parts += ["| field | type | default | accepted | meaning |", "|---|---|---|---|---|"]
        for one in describe_fields(kind):
            cells = (f"`{one.name}`", one.type, f"`{one.default}`", one.accepted, one.description)
            parts.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        parts.append("")
    return "\n".join(parts)


def main() -> int:
    """Write the pages, or with --check compare them."""
    pages = {
        "README.md": readme(),
        "docs/reference/policies.md": policies_page(),
        "docs/reference/worlds.md": worlds_page(),
        "docs/explanation/propensity.md": propensity_page(),
        "docs/reference/settings.md": settings_page(),
    }
    stale = [n for n, text in pages.items() if not (ROOT / n).exists() or (ROOT / n).read_text("utf-8") != text]
    if "--check" in sys.argv:
        for name in stale:
            print(f"{name} is out of date: run `make generate`.", file=sys.stderr)
        return 1 if stale else 0
    for name in stale:
        (ROOT / name).write_text(pages[name], encoding="utf-8")
        print(f"wrote {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
