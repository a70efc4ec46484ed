"""`rankloop data`: which real data sets are there, and how to get the others."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from rankloop.cli.options import Commands
from rankloop.datasets import finder


def add_to(commands: Commands) -> None:
    """Add the command."""
    command = commands.add_parser(
        "data",
        help="list the real data sets that are there, and how to get the others",
        description="Look below a folder for real data sets, read them and count; nothing is fetched or changed.",
    )
    command.add_argument("--data", metavar="DIR", help=f"where the data lie (default: ${finder.VARIABLE})")
    command.add_argument("--json", action="store_true", help="print JSON instead of a table")
    command.set_defaults(run=run)


def run(given: argparse.Namespace) -> None:
    """Look, count, print."""
    root = finder.root(given.data)
    findings = finder.survey(root)
    if given.json:
        json.dump([as_json(finding, root) for finding in findings], sys.stdout, indent=1)
        print()
        return
    rows = [(finding.data.id, _state(finding), _says(finding, root)) for finding in findings]
    widths = [max(len(row[c]) for row in rows) for c in range(2)]
    for row in rows:
        print("  ".join([row[0].ljust(widths[0]), row[1].ljust(widths[1]), row[2]]))
    there = sum(bool(finding.files) for finding in findings)
    print(f"\n{there} of {len(findings)} data sets are in {root}. Nothing is fetched for you.")


def as_json(finding: finder.FoundDataSet, root: Path) -> dict[str, object]:
    """A finding as plain values; paths relative to the root."""
    data = finding.data
    return {
        "id": data.id,
        "title": data.title,
        "state": _state(finding),
        "counts": finding.counts,
        "files": {role: _relative(path, root) for role, path in finding.files.items()},
        "problem": finding.problem,
        "get": data.what,
        "where": data.where,
        "licence": data.licence,
    }


def _state(finding: finder.FoundDataSet) -> str:
    if not finding.files:
        return "missing"
    return "found" if finding.problem is None else "damaged"


def _says(finding: finder.FoundDataSet, root: Path) -> str:
    if not finding.files:
        return finder.how_to_get(finding.data)
    if finding.problem is not None:
        return finding.problem
    counts = ", ".join(f"{count:,} {what}" for what, count in finding.counts.items())
    return f"{counts}: {_place(finding, root)}"


def _place(finding: finder.FoundDataSet, root: Path) -> str:
    """The file, or the folder that all files are in."""
    paths = list(finding.files.values())
    return _relative(Path(os.path.commonpath(paths)) if len(paths) > 1 else paths[0], root)


def _relative(path: Path, root: Path) -> str:
    return path.relative_to(root.absolute()).as_posix()
