"""`rankloop log restore`: write a backup into a log."""

from __future__ import annotations

import argparse
from pathlib import Path

from rankloop.cli.log_address import LOG_HELP, log_address, without_passwords
from rankloop.cli.options import Commands


def add_to(verbs: Commands) -> None:
    """Add the verb."""
    verb = verbs.add_parser(
        "restore",
        help="Write a backup into a SQLite file or a PostgreSQL database.",
        description="Write a file of `rankloop log backup` into a log, in SQLite or PostgreSQL, while no service is "
        "using it, and compare both afterwards. The log contains the whole backup or is as it was.",
    )
    verb.add_argument("backup", metavar="BACKUP", type=Path, help="File that `rankloop log backup` wrote.")
    verb.add_argument("log", metavar="LOG", type=log_address, help=LOG_HELP)
    verb.add_argument("--force", action="store_true", help="Replace what LOG contains.")
    verb.set_defaults(run=run, on_interrupt="the log is as it was")


def run(args: argparse.Namespace) -> None:
    """Restore the log and print its size."""
    from rankloop.eventlog.retention.restore import restore

    done = restore(args.backup, args.log, force=args.force)
    snapshots = f"{done.snapshots} snapshot{'' if done.snapshots == 1 else 's'}"
    where = without_passwords(args.log)
    print(f"{done.entries:,} entries up to position {done.position:,} and {snapshots} are in {where}, verified.")
