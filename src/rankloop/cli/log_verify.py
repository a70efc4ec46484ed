"""`rankloop log verify`: decide every list of a log again, and compare its snapshots with a replay."""

from __future__ import annotations

import argparse
from contextlib import closing
from typing import TYPE_CHECKING

from rankloop.cli.log_address import LOG_HELP, log_address
from rankloop.cli.options import Commands, add_policies, load_policies
from rankloop.errors import RankloopError

if TYPE_CHECKING:
    from rankloop.eventlog import Store
    from rankloop.serving.verification import VerificationFinding, VerifiedLists


class LogDiffers(RankloopError):
    """A repeated decision differs from its list in the log, or a snapshot from a replay."""


class NothingToVerify(RankloopError):
    """The log has no decisions."""


def add_to(verbs: Commands) -> None:
    """Add the verb."""
    verify = verbs.add_parser(
        "verify",
        help="Repeat every decision of a log and compare its snapshots with a replay.",
        description="Repeat every decision of a log from the state in which it was made, and compare the lists; "
        "compare the snapshots with a replay of the whole log.",
    )
    verify.add_argument("log", metavar="LOG", type=log_address, help=LOG_HELP)
    verify.add_argument("--ranker", metavar="NAME", help="Name of the ranker to verify (default: all of the log).")
    add_policies(verify, "Load a policy of your own that made decisions in the log.")
    verify.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Verify every ranker and print the results; raise if something differs or nothing was verified."""
    from rankloop.eventlog.address import open_existing

    load_policies(args)
    failed, lists = [], 0
    with closing(open_existing(args.log)) as store:
        for log in store.rankers():
            if not log or (args.ranker is not None and log.partition("#")[0] != args.ranker):
                continue
            passed, verified = _verify(store, log)
            lists += verified
            if not passed:
                failed.append(log)
    if failed:
        raise LogDiffers(f"verification failed for {', '.join(failed)}.")
    if not lists:
        raise NothingToVerify(
            "the log has no decisions of a policy, so nothing was verified. The file of a running service does not "
            "contain its write-ahead log: copy it with `rankloop log backup`."
        )


def _verify(store: Store, log: str) -> tuple[bool, int]:
    """Verify one ranker's log and print the result; return whether it passed and the number of lists verified."""
    from rankloop.catalogue import UnknownPolicy
    from rankloop.eventlog.events import CannotReplay
    from rankloop.serving.config import LoggedConfig
    from rankloop.serving.verification import compare_snapshot, decide_again, last_settings

    try:
        settings = last_settings(store, log)
        if settings is None:
            print(f"{log}: the log does not contain the ranker's settings, so no decision can be repeated.")
            return True, 0
        finding = compare_snapshot(store, log, LoggedConfig.of(settings))
        repeated = decide_again(store, log)
    except CannotReplay as error:
        print(f"{log}: {error}")
        return False, 0
    except UnknownPolicy as error:
        print(f"{log}: its policy {error.value!r} is not loaded; load it with --policy MODULE:NAME.")
        return False, 0
    print("\n".join(report_lines(log, finding, repeated)))
    passed = not (finding.differences or repeated.different)
    return passed, repeated.equal + repeated.close + repeated.different


def report_lines(log: str, finding: VerificationFinding, repeated: VerifiedLists) -> list[str]:
    """Return the result of a verification: one or two lines, and one for each difference."""
    from rankloop.math import numerics
    from rankloop.serving.verification import TOLERANCE

    start = f"{log}: {repeated.equal + repeated.close} of {repeated.decided} lists decided again"
    lines = [f"{start}, bit for bit; the log ends at position {finding.position}."]
    if repeated.numerics:
        lines = [
            f"{start}: {repeated.equal} bit for bit, {repeated.close} within {TOLERANCE:g} of their scores; the log "
            f"ends at position {finding.position}.",
            *(f"  made with other numerics: {one}" for one in sorted(repeated.numerics)),
            f"  the numerics here:        {numerics.version()}",
        ]
    if repeated.control:
        lines.append(f"  {repeated.control} more lists showed the control ranking.")
    if repeated.unknown:
        lines.append(
            f"  {repeated.unknown} lists do not record the state in which they were made: an older version wrote them."
        )
    if repeated.pruned:
        lines.append(f"  {repeated.pruned} lists were made before entries that `rankloop log prune` removed.")
    if repeated.outdated:
        lines.append(f"  {repeated.outdated} lists depend on an event that was excluded after they were made.")
    if repeated.erased:
        lines.append(f"  {repeated.erased} lists are of erased visitors; their groups were taken from the log.")
    lines += [f"  differs: {one}" for one in repeated.differences]
    lines += [f"  {one}" for one in finding.unusable]
    if finding.usable and not finding.differences:
        within = f" within {TOLERANCE:g}, since other numerics made it" if finding.mixed_numerics else ""
        lines.append(
            f"  the snapshot at {finding.snapshot} and the rest of the log equal a replay of the whole log{within}."
        )
    elif finding.differences:
        lines.append(f"  the snapshot at {finding.snapshot} differs from a replay of the whole log in")
        lines += [f"    {one}" for one in finding.differences]
    return lines
