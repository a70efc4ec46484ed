"""The site's list of pages, from the folders of docs/ and an order for those pages that should come first."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

KINDS = {"Tutorials": "tutorial", "How-to guides": "how-to", "Reference": "reference", "Explanation": "explanation"}
"""Kinds of pages, with their folders."""
FIRST = (
    "quickstart", "compare-policies",
    "embed", "run-a-ranker", "report-several-rewards", "serve", "rollout", "handle-drift", "dashboard", "report",
    "run-several-processes", "backup", "erase-a-visitor", "simulate-visitors", "add-a-policy",
    "glossary", "cli", "endpoints", "settings", "api", "parts", "policies", "worlds", "events", "metrics",
    "architecture", "which-policy", "propensity", "reliability", "performance", "results",
)  # fmt: skip
"""Pages in the order in which readers meet them; others of the same folder follow by name."""


def navigation(docs: Path, generated: Iterable[Path] = ()) -> list[str]:
    """Return the lines of `nav` in zensical.toml: every page once, by kind; decision records have their own group.

    Args:
        docs: the folder of all pages.
        generated: pages that need not be written yet.
    """
    lines = ["nav = [", '  "index.md",']
    for title, folder in KINDS.items():
        written = {*(docs / folder).glob("*.md"), *(page for page in generated if page.parent == docs / folder)}
        pages = sorted(written, key=_order)
        if not pages:
            continue
        records = sorted((docs / folder / "decisions").glob("*.md"), key=lambda page: (page.stem != "index", page.name))
        lines += [f'  {{ "{title}" = [', *_entries(docs, pages, "    ")]
        if records:
            lines += ['    { "Decision records" = [', *_entries(docs, records, "      "), "    ] },"]
        lines.append("  ] },")
    return [*lines, "]"]


def _order(page: Path) -> tuple[int, str]:
    return (FIRST.index(page.stem) if page.stem in FIRST else len(FIRST), page.name)


def _entries(docs: Path, pages: Iterable[Path], indent: str) -> list[str]:
    return [f'{indent}"{page.relative_to(docs).as_posix()}",' for page in pages]
