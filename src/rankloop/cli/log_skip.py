"""`rankloop log skip`: exclude an event that cannot be applied, so that its ranker can serve again."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from rankloop.cli.options import Commands
from rankloop.errors import InvalidInput, MissingExtra
from rankloop.eventlog import LogEntry, Store
from rankloop.eventlog.address import is_database, open_existing, open_store
from rankloop.eventlog.events import EventSkipped
from rankloop.schema.identifiers import printable

KINDS = ("decision", "feedback", "window-closed", "withdrawn", "guardrail-tripped", "guardrail-reset")
"""Events that may be excluded; without those of items and settings, the events that follow would mean another thing."""


def add_to(verbs: Commands) -> None:
    """Add the verb."""
    skip = verbs.add_parser(
        "skip",
        help="exclude an event of a quarantined ranker from every replay",
        description="Append an audited exclusion to the log, while no service uses it. Nothing is deleted.",
    )
    skip.add_argument("ranker", metavar="RANKER", help="name of the ranker")
    skip.add_argument("position", metavar="POSITION", type=int, help="position of the event in the log")
    skip.add_argument("--because", metavar="TEXT", required=True, help="the reason, which the ranker's history shows")
    skip.add_argument(
        "--log", metavar="LOG", default="rankloop.db", help="SQLite file, or postgresql://… (default: %(default)s)"
    )
    skip.set_defaults(run=run)


def run(given: argparse.Namespace) -> None:
    """Check, append, print."""
    because = printable("--because", given.because)
    open_existing(given.log).close()  # before a claim is made on a log that is not there
    with ExitStack() as held:
        if not is_database(given.log):
            held.callback(_claim(given.log))
        store = open_store(given.log, exclusive=True)
        held.callback(store.close)
        log = _log_of(store, given.ranker)
        _check(store, log, given.position)
        (kept,) = store.append([(log, EventSkipped(time.time(), given.position, because).entry())])
    if kept is None:
        raise InvalidInput("position", given.position, "an event that was not excluded before")
    print(f"The event at position {given.position} of {given.ranker} is excluded; start the service to go on.")


def _claim(log: str) -> Callable[[], object]:
    """Refuse a log that a service uses; how to let go of it."""
    try:
        from rankloop.hosting.process_lock import hold
    except ModuleNotFoundError:
        raise MissingExtra("the skip command", "serve") from None
    claim = hold(str(Path(log)))
    return (lambda: None) if claim is None else claim.close


def _log_of(store: Store, ranker: str) -> str:
    """The newest log of a ranker: one that learned anew has another."""
    from rankloop.hosting.change_history import logs_of

    log = logs_of(store, ranker)[-1]
    if log not in store.rankers():
        raise InvalidInput("ranker", ranker, f"one of {', '.join(one for one in store.rankers() if one)}")
    return log


def _check(store: Store, log: str, position: int) -> None:
    """Refuse what is not an event of the ranker, or cannot be left out."""
    found: LogEntry | None = next(store.read(log, position - 1), None)
    if found is None or found.position != position:
        raise InvalidInput("position", position, "the position of an event of this ranker")
    if found.kind not in KINDS:
        accepted = f"an event of kind {', '.join(KINDS)}: the others are needed to understand those that follow"
        raise InvalidInput("position", position, f"{accepted}; restore a backup instead")
