"""Options that several commands share."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from rankloop.catalogue import PolicyEntry

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""The group to which a command or a verb is added."""


def add_jobs(command: argparse.ArgumentParser) -> None:
    """Add --jobs and --quiet."""
    command.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        metavar="N",
        help="Number of worker processes (default: one for each core).",
    )
    add_quiet(command)


def add_quiet(command: argparse.ArgumentParser) -> None:
    """Add --quiet."""
    command.add_argument("--quiet", action="store_true", help="Print no progress.")


def add_policies(command: argparse.ArgumentParser, purpose: str = "Load a policy of your own.") -> None:
    """Add --policy for policies from outside the package."""
    command.add_argument(
        "--policy",
        action="append",
        default=[],
        metavar="MODULE:NAME",
        help=f"{purpose} MODULE:NAME is a function that takes a Setting and returns a policy. Repeatable.",
    )


def load_policies(args: argparse.Namespace) -> tuple[PolicyEntry, ...]:
    """Load the policies of --policy; return their entries in the same order."""
    if not args.policy:
        return ()
    from rankloop import catalogue

    return tuple(catalogue.load(source) for source in args.policy)


def add_data(command: argparse.ArgumentParser) -> None:
    """Add --data."""
    command.add_argument("--data", metavar="DIR", help="Folder of the data sets (default: $RANKLOOP_DATA).")


def use_data(args: argparse.Namespace) -> None:
    """Let worlds find the data sets in the folder of --data."""
    if args.data is not None:
        from rankloop.datasets import finder

        os.environ[finder.VARIABLE] = str(finder.root(args.data))


def show_progress(args: argparse.Namespace, task: str, done: int, total: int) -> None:
    """Overwrite one line of a terminal with the progress of a task."""
    if not args.quiet and sys.stderr.isatty():
        share = done / total if total else 1.0
        line = f"\r{task}: {share:.0%} of {total:,} replication-rounds"
        print(line, end="\n" if share == 1.0 else "", file=sys.stderr, flush=True)
