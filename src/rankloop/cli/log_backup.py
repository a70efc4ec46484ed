"""`rankloop log backup`: copy a log while a service is using it."""

from __future__ import annotations

import argparse
from pathlib import Path

from rankloop.cli.options import Commands
from rankloop.eventlog.backup import back_up


def add_to(verbs: Commands) -> None:
    """Add the verb."""
    verb = verbs.add_parser(
        "backup",
        help="copy a log into one SQLite file, also while a service is using it",
        description="Copy a log and its snapshots into one SQLite file, also while a service is using it. OUT is"
        " complete, checked and on the disk, or not written at all.",
    )
    verb.add_argument("log", metavar="LOG", help="an SQLite file, or postgresql://…")
    verb.add_argument("out", metavar="OUT", type=Path, help="the file to write")
    verb.add_argument("--force", action="store_true", help="replace OUT if it exists")
    verb.set_defaults(run=run)


def run(given: argparse.Namespace) -> None:
    """Copy, and say what the copy holds."""
    made = back_up(given.log, given.out, force=given.force)
    print(f"{made.entries:,} entries up to position {made.position:,} are in {given.out} ({made.bytes:,} bytes).")
