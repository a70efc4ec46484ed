"""Options that several commands share."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TypeAlias

from rankloop import catalogue
from rankloop.datasets import finder

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""Where a command or a verb is added."""


def add_jobs(command: argparse.ArgumentParser) -> None:
    """How many processes, and whether to say how far they are."""
    command.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="processes (default: all cores)"
    )
    command.add_argument("--quiet", action="store_true", help="no progress")


def add_policies(command: argparse.ArgumentParser, does: str = "load a policy of your own") -> None:
    """Policies from outside the package."""
    command.add_argument(
        "--policy",
        action="append",
        default=[],
        metavar="MODULE:NAME",
        help=f"{does}: module and name of a function from a Setting to a policy; the option may be repeated",
    )


def use_policies(given: argparse.Namespace) -> tuple[catalogue.PolicyEntry, ...]:
    """Load the policies that were named; their entries in the same order."""
    return tuple(catalogue.load(source) for source in given.policy)


def add_data(command: argparse.ArgumentParser) -> None:
    """Where data sets lie."""
    command.add_argument("--data", metavar="DIR", help="where data sets lie (default: RANKLOOP_DATA)")


def use_data(given: argparse.Namespace) -> None:
    """Let worlds find the data sets of the folder given."""
    if given.data is not None:
        os.environ[finder.VARIABLE] = str(finder.root(given.data))


def show_progress(given: argparse.Namespace, what: str, done: int, total: int) -> None:
    """One line on a terminal that is written over until all is done."""
    if not given.quiet and sys.stderr.isatty():
        share = done / total if total else 1.0
        line = f"\r{what}: {share:.0%} of {total:,} replication-rounds"
        print(line, end="\n" if share == 1.0 else "", file=sys.stderr, flush=True)
