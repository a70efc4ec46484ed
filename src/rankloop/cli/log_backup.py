"""`rankloop log backup`: copy a log while a service is using it."""

from __future__ import annotations

import argparse
from pathlib import Path

from rankloop.cli.log_address import LOG_HELP, log_address
from rankloop.cli.options import Commands


def add_to(verbs: Commands) -> None:
    """Add the verb."""
    verb = verbs.add_parser(
        "backup",
        help="Copy a log to one SQLite file, also while a service is using it.",
        description="Copy a log and its snapshots to one SQLite file, also while a service is using the log. OUT is"
        " written completely, verified and synced to disk, or not at all.",
    )
    verb.add_argument("log", metavar="LOG", type=log_address, help=LOG_HELP)
    verb.add_argument("out", metavar="OUT", type=Path, help="File to write.")
    verb.add_argument("--force", action="store_true", help="Replace OUT if it exists.")
    verb.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Copy the log and print the size of the copy."""
    from rankloop.eventlog.backup import back_up

    backup = back_up(args.log, args.out, force=args.force)
    print(f"{backup.entries:,} entries up to position {backup.position:,} are in {args.out} ({backup.bytes:,} bytes).")
