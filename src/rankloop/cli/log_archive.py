"""`rankloop log archive`: write the entries of a log to Parquet files, one or more for each day."""

from __future__ import annotations

import argparse
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rankloop.cli.log_address import LOG_HELP, log_address
from rankloop.cli.options import Commands
from rankloop.errors import InvalidInput

if TYPE_CHECKING:
    from rankloop.eventlog.retention.archive_parts import ArchivePart


def add_to(verbs: Commands) -> None:
    """Add the verb."""
    verb = verbs.add_parser(
        "archive",
        help="Write all entries of a log to Parquet files by day, also while a service is using it.",
        description="Write the entries of a log that DIR does not have yet to Parquet files by day, also while a "
        "service is using the log: all entries as they are stored, and the decisions with their outcomes as "
        "`rankloop log export` writes them. `rankloop log import DIR LOG` makes the same log of them.",
    )
    verb.add_argument("log", metavar="LOG", type=log_address, help=LOG_HELP)
    verb.add_argument("folder", metavar="DIR", type=Path, help="Folder of the archive; each log needs one of its own.")
    verb.add_argument(
        "--before",
        metavar="DATE",
        help="Day in UTC, as 2026-05-31, before which entries are archived (default: today; a later day includes the "
        "entries of today).",
    )
    verb.set_defaults(run=run, on_interrupt="complete parts are kept; run the same command again")


def run(args: argparse.Namespace) -> None:
    """Write the parts and print each of them."""
    from rankloop.eventlog.address import open_existing
    from rankloop.eventlog.retention.archive import archive

    today = datetime.fromtimestamp(time.time(), UTC).strftime("%Y-%m-%d")
    before = midnight("--before", today if args.before is None else args.before)
    with closing(open_existing(args.log)) as store:
        done = archive(store, args.folder, before)
    for part in done.parts:
        print(part_line(part))
    entries = sum(part.about.entries for part in done.parts)
    what = f"{entries:,} entries in {len(done.parts)} parts" if done.parts else "nothing new"
    print(f"{args.folder}: {what}; the archive covers the log up to position {done.covered:,}.")


def part_line(part: ArchivePart) -> str:
    """Return what a part has."""
    about, size = part.about, part.path.stat().st_size
    return f"{about.day}: {about.entries:,} entries, positions {about.first:,} to {about.last:,} ({size:,} bytes)"


def midnight(field: str, day: str) -> float:
    """Return the start of a day in UTC, in seconds since 1970.

    >>> midnight("--before", "1970-01-02")
    86400.0
    """
    try:
        return datetime.strptime(day, "%Y-%m-%d").replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise InvalidInput(field, day, "a day as 2026-05-31") from None
