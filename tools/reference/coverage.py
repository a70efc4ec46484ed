"""Whether docs/reference describes everything that exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from rankloop import catalogue
from rankloop.eventlog.events import KINDS
from rankloop.worlds import KINDS as WORLDS
from tools.reference import api, cli, names
from tools.reference.endpoints import endpoints
from tools.reference.events import stored_fields
from tools.reference.metrics import metrics
from tools.reference.settings import PAYLOADS


def undocumented(reference: Path) -> list[str]:
    """Return what exists in the code and is absent from the pages in this folder, one sentence each."""

    def read(page: str) -> str:
        return (reference / page).read_text(encoding="utf-8")

    found = [*_settings(read("settings.md")), *_endpoints(read("endpoints.md")), *_events(read("events.md"))]
    found += [*_metrics(read("metrics.md")), *_commands(read("cli.md")), *_names(read("api.md"))]
    found += [
        f"policies.md lacks {one.id}" for one in catalogue.entries() if one.id not in sections(read("policies.md"))
    ]
    found += [f"worlds.md lacks {kind}" for kind in WORLDS if kind not in sections(read("worlds.md"))]
    return found


def sections(text: str) -> dict[str, str]:
    """Return the text below every heading of a page, up to the next heading, by the heading; code blocks have none."""
    found: dict[str, str] = {}
    heading, fenced = "", False
    for line in text.split("\n"):
        fenced ^= line.startswith("```")
        if not fenced and (title := re.match(r"#+ (.+)$", line)):
            heading = title[1]
        found[heading] = found.get(heading, "") + line + "\n"
    return found


def rows(section: str) -> set[str]:
    """Return the code in the first cells of the tables of a section."""
    return {
        name for cell in re.findall(r"^\| ([^|]*) \|", section, re.MULTILINE) for name in re.findall(r"`(.+?)`", cell)
    }


def _settings(page: str) -> Iterator[str]:
    known = sections(page)
    for title, _, kind in PAYLOADS:
        fields = rows(known.get(title, ""))
        yield from (
            f"settings.md lacks {kind.__name__}.{name}" for name in kind.__struct_fields__ if name not in fields
        )
    yield from (f"settings.md lacks {name}" for name in sorted(names.package_variables()) if f"`{name}`" not in page)


def _endpoints(page: str) -> Iterator[str]:
    known = sections(page)
    for one in endpoints()[0]:
        parameters = {given["name"] for given in one.operation.get("parameters", ())}
        if one.title not in known:
            yield f"endpoints.md lacks {one.title}"
        else:
            missing = sorted(parameters - rows(known[one.title]))
            yield from (f"endpoints.md lacks {name} of {one.title}" for name in missing)


def _events(page: str) -> Iterator[str]:
    known = sections(page)
    for kind, event in KINDS.items():
        if kind not in known:
            yield f"events.md lacks {kind}"
            continue
        for one in stored_fields(event):
            if one.name not in rows(known[kind]):
                yield f"events.md lacks {kind}.{one.name}"


def _metrics(page: str) -> Iterator[str]:
    known = rows(page)
    yield from (f"metrics.md lacks {name}" for metric in metrics() for name in metric.exposed if name not in known)


def _commands(page: str) -> Iterator[str]:
    known = sections(page)
    for prog, _, of in cli.commands():
        if prog not in known:
            yield f"cli.md lacks {prog}"
            continue
        missing = sorted(cli.options(of) - {"-h", "--help"} - rows(known[prog]))
        yield from (f"cli.md lacks {option} of {prog}" for option in missing)


def _names(page: str) -> Iterator[str]:
    known = sections(page)
    for module in map(import_module, api.PUBLIC):
        for name in api.public_names(module):
            if name not in known and f"`{name}`" not in page:
                yield f"api.md lacks {module.__name__}.{name}"
