"""`rankloop log prune`: remove entries of a log that are archived."""

from __future__ import annotations

import argparse
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from rankloop.cli.log_address import LOG_HELP, log_address
from rankloop.cli.log_archive import midnight
from rankloop.cli.options import Commands, add_policies, load_policies

if TYPE_CHECKING:
    from rankloop.serving.retention.pruning import Pruning


def add_to(verbs: Commands) -> None:
    """Add the verb."""
    verb = verbs.add_parser(
        "prune",
        help="Remove archived decisions and feedback from a log.",
        description="Remove settled decisions and their feedback from a log while no service is using it, after an "
        "archive has them and the state that they led to is stored. Nothing that was learned changes, and a restart "
        "goes on from the same state; but what was removed cannot be decided again, and a challenger can only be "
        "rebuilt from what is left.",
    )
    verb.add_argument("log", metavar="LOG", type=log_address, help=LOG_HELP)
    verb.add_argument(
        "--before", metavar="DATE", required=True, help="Day in UTC, as 2026-05-31, before which entries are removed."
    )
    verb.add_argument(
        "--archive", metavar="DIR", required=True, type=Path, help="Folder that `rankloop log archive` wrote."
    )
    add_policies(verb, "Load a policy of your own that made decisions in the log.")
    verb.set_defaults(run=run, on_interrupt="the log is pruned or as it was; run the same command again")


def run(args: argparse.Namespace) -> None:
    """Prune the log and print what was removed."""
    from rankloop.eventlog.address import open_existing, open_store
    from rankloop.hosting.registry_log import registered_rankers
    from rankloop.serving.retention.pruning import prune

    load_policies(args)
    before = midnight("--before", args.before)
    open_existing(args.log).close()  # refuse a log that does not exist before a lock file is created for it
    with closing(open_store(args.log, exclusive=True)) as store:
        rankers, _ = registered_rankers(store)
        challengers = {entry.log: entry.challenger for entry in rankers.values() if entry.challenger is not None}
        done = prune(store, args.archive, before, challengers)
    print("\n".join(report_lines(done)))


def report_lines(done: Pruning) -> list[str]:
    """Return what was removed, one line for each log."""
    lines = [
        f"{one.log}: {one.entries:,} entries up to position {one.position:,} removed, {one.decisions:,} of them "
        f"decisions; {len(one.open):,} decisions were open and stay."
        for one in done.pruned
    ]
    lines += [f"{log}: nothing removed: {reason}" for log, reason in done.kept.items()]
    return lines or ["nothing to remove."]
