"""`rankloop log skip`: exclude an event that cannot be applied, so that its ranker can serve again."""

from __future__ import annotations

import argparse
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from rankloop.cli.log_address import LOG_HELP_DEFAULT, default_log_address, log_address
from rankloop.cli.options import Commands
from rankloop.errors import InvalidInput

if TYPE_CHECKING:
    from rankloop.eventlog import LogEntry, Store

SKIPPABLE_KINDS = (
    *("decision", "impression", "feedback", "window-closed", "withdrawn"),
    *("guardrail-tripped", "guardrail-reset"),
)
"""Kinds of events that may be excluded. Without an event of items or settings, later events would change their
meaning."""


def add_to(verbs: Commands) -> None:
    """Add the verb."""
    skip = verbs.add_parser(
        "skip",
        help="Exclude an event of a quarantined ranker from every replay.",
        description="Append an audited exclusion to the log while no service is using it. Nothing is deleted.",
    )
    skip.add_argument("ranker", metavar="RANKER", help="Name of the ranker.")
    skip.add_argument("position", metavar="POSITION", type=int, help="Log position of the event.")
    skip.add_argument("--reason", metavar="TEXT", required=True, help="Reason to record in the ranker's history.")
    skip.add_argument(
        "--log",
        metavar="LOG",
        type=log_address,
        default=default_log_address(),
        help=LOG_HELP_DEFAULT,
    )
    skip.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Check the event and append its exclusion."""
    from rankloop.eventlog.address import open_existing, open_store
    from rankloop.eventlog.events import EventSkipped
    from rankloop.schema.identifiers import printable

    reason = printable("--reason", args.reason)
    open_existing(args.log).close()  # refuse a log that does not exist before a lock file is created for it
    with ExitStack() as resources:
        store = open_store(args.log, exclusive=True)
        resources.callback(store.close)
        log = _log_of(store, args.ranker)
        _check(store, log, args.position)
        (position,) = store.append([(log, EventSkipped(time.time(), args.position, reason).entry())])
    if position is None:
        raise InvalidInput("position", args.position, "an event that is not excluded yet")
    print(f"The event at position {args.position} of {args.ranker} is excluded; start the service again.")


def _log_of(store: Store, ranker: str) -> str:
    """Return the newest log of a ranker: each reset of a ranker starts a new one."""
    from rankloop.hosting.registry_log import logs_of

    log = logs_of(store, ranker)[-1]
    if log not in store.rankers():
        raise InvalidInput("ranker", ranker, f"one of {', '.join(one for one in store.rankers() if one)}")
    return log


def _check(store: Store, log: str, position: int) -> None:
    """Refuse a position that is not an event of the ranker, and an event that cannot be excluded."""
    from rankloop.eventlog.retention.pruned_history import pruned_history

    pruned = pruned_history(store, log)
    if pruned is not None and position <= pruned.position:
        accepted = f"a position after {pruned.position}: earlier entries were removed, and their effect is kept"
        raise InvalidInput("position", position, accepted)
    entry: LogEntry | None = next(store.read(log, position - 1), None)
    if entry is None or entry.position != position:
        raise InvalidInput("position", position, "the position of an event of this ranker")
    if entry.kind not in SKIPPABLE_KINDS:
        accepted = f"an event of kind {', '.join(SKIPPABLE_KINDS)}: later events depend on the other kinds"
        raise InvalidInput("position", position, f"{accepted}; restore a backup instead")
