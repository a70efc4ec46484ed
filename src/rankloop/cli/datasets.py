"""`rankloop data`: the real data sets in a folder, and how to get the missing ones."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rankloop.cli.options import Commands, add_data

if TYPE_CHECKING:
    from rankloop.datasets.finder import FoundDataSet


def add_to(commands: Commands) -> None:
    """Add the command."""
    command = commands.add_parser(
        "data",
        help="List the real data sets in a folder, and how to get the missing ones.",
        description="Search a folder for real data sets, read them and count their rows. Nothing is downloaded or "
        "changed.",
    )
    add_data(command)
    command.add_argument("--json", action="store_true", help="Print JSON instead of a table.")
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Search the folder and print one line for each data set."""
    from rankloop.datasets import finder

    root = finder.root(args.data)
    findings = finder.survey(root)
    if args.json:
        json.dump([as_json(finding, root) for finding in findings], sys.stdout, indent=1)
        print()
        return
    rows = [(finding.data.id, _state(finding), _details(finding, root)) for finding in findings]
    widths = [max(len(row[c]) for row in rows) for c in range(2)]
    for row in rows:
        print("  ".join([row[0].ljust(widths[0]), row[1].ljust(widths[1]), row[2]]))
    count = sum(bool(finding.files) for finding in findings)
    print(f"\n{count} of {len(findings)} data sets are in {root}. rankloop downloads nothing.")


def as_json(finding: FoundDataSet, root: Path) -> dict[str, object]:
    """Return a finding as plain values, with paths relative to the root."""
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


def _state(finding: FoundDataSet) -> str:
    if not finding.files:
        return "missing"
    return "found" if finding.problem is None else "damaged"


def _details(finding: FoundDataSet, root: Path) -> str:
    from rankloop.datasets import finder

    if not finding.files:
        return finder.how_to_get(finding.data)
    if finding.problem is not None:
        return finding.problem
    counts = ", ".join(f"{count:,} {unit}" for unit, count in finding.counts.items())
    return f"{counts}: {_location(finding, root)}"


def _location(finding: FoundDataSet, root: Path) -> str:
    """Return the only file of a data set, or the folder that contains all its files."""
    paths = list(finding.files.values())
    return _relative(Path(os.path.commonpath(paths)) if len(paths) > 1 else paths[0], root)


def _relative(path: Path, root: Path) -> str:
    return path.relative_to(root.absolute()).as_posix()
