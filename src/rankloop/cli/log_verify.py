"""`rankloop log verify`: decide every list of a log again, and compare its snapshots with a replay."""

from __future__ import annotations

import argparse
from contextlib import closing

from rankloop.catalogue import UnknownPolicy
from rankloop.cli.options import Commands, add_policies, use_policies
from rankloop.errors import RankloopError
from rankloop.eventlog.address import open_existing
from rankloop.eventlog.events import CannotReplay
from rankloop.math import numerics
from rankloop.serving.config import LoggedConfig
from rankloop.serving.verification import (
    TOLERANCE,
    VerificationFinding,
    VerifiedLists,
    compare_snapshot,
    decide_again,
    last_settings,
)

LOG = "an SQLite file, or postgresql://…"


class LogDiffers(RankloopError):
    """A list comes out differently, or a snapshot is not what a replay gives."""


class NothingToVerify(RankloopError):
    """The log has no decisions."""


def add_to(verbs: Commands) -> None:
    """Add the verb."""
    told = "decide every list of a log again, and compare its snapshots with a replay"
    verify = verbs.add_parser("verify", help=told)
    verify.add_argument("log", metavar="LOG", help=LOG)
    verify.add_argument("--ranker", metavar="NAME", help="only this one (default: all of the log)")
    add_policies(verify, "load a policy of your own that made decisions of the log")
    verify.set_defaults(run=run)


def run(given: argparse.Namespace) -> None:
    """Verify, print, and fail where something differs or there was nothing."""
    use_policies(given)
    wrong, lists = [], 0
    with closing(open_existing(given.log)) as store:
        for log in store.rankers():
            if not log or (given.ranker is not None and log.partition("#")[0] != given.ranker):
                continue
            try:
                settings = last_settings(store, log)
                if settings is None:
                    print(f"{log}: the log does not say its settings, so no list can be decided again.")
                    continue
                finding = compare_snapshot(store, log, LoggedConfig.of(settings))
                found = decide_again(store, log)
            except CannotReplay as error:
                print(f"{log}: {error}")
                wrong.append(log)
                continue
            except UnknownPolicy as error:
                print(f"{log}: its policy {error.value!r} is not loaded; give --policy module:name for it.")
                wrong.append(log)
                continue
            print("\n".join(says(log, finding, found)))
            lists += found.equal + found.close + found.different
            if finding.differences or found.different:
                wrong.append(log)
    if wrong:
        raise LogDiffers(f"verification failed for {', '.join(wrong)}.")
    if not lists:
        raise NothingToVerify(
            "the log has no decisions of a policy, so nothing was verified. The file of a running service lacks what "
            "is in its write-ahead log: copy it with `rankloop log backup`."
        )


def says(log: str, finding: VerificationFinding, found: VerifiedLists) -> list[str]:
    """What was found, in a line or two, and one for each difference."""
    start = f"{log}: {found.equal + found.close} of {found.decided} lists decided again"
    told = [f"{start}, bit for bit; the log ends at position {finding.position}."]
    if found.numerics:
        told = [
            f"{start}: {found.equal} bit for bit, {found.close} within {TOLERANCE:g} of their scores; the log ends at "
            f"position {finding.position}.",
            *(f"  made with other numerics: {one}" for one in sorted(found.numerics)),
            f"  the numerics here:        {numerics.version()}",
        ]
    if found.control:
        told.append(f"  {found.control} more lists showed the control ranking.")
    if found.unknown:
        told.append(f"  {found.unknown} lists do not say from which state they were made: an older version wrote them.")
    if found.outdated:
        told.append(f"  {found.outdated} lists were made before an event was excluded that they depend on.")
    told += [f"  differs: {one}" for one in found.differences]
    if finding.snapshot is not None and not finding.usable:
        told.append(f"  the snapshot at {finding.snapshot} is of other settings or another version and is not used.")
    elif finding.snapshot is not None and not finding.differences:
        told.append(f"  the snapshot at {finding.snapshot} and the rest of the log equal a replay of all of it.")
    elif finding.differences:
        told.append(f"  the snapshot at {finding.snapshot} differs from a replay of the whole log in")
        told += [f"    {one}" for one in finding.differences]
    return told
