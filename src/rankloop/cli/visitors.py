"""`rankloop visitors`: simulated visitors of a running service."""

from __future__ import annotations

import argparse
import json
import os
import secrets
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rankloop import validate
from rankloop.cli.options import Commands, add_data, add_policies, use_data, use_policies
from rankloop.cli.service_client import DEFAULT, KEY, URL
from rankloop.errors import InvalidInput, RankloopError

if TYPE_CHECKING:
    from rankloop.client import Client, NotAllowed
    from rankloop.visitors import Audience, Run, VisitPlan
    from rankloop.visitors.statistics import Summary

EVERY = 5.0
"""Seconds between lines of progress."""
LAST = 1.0
"""Seconds that what is on its way has to arrive in, when a run is interrupted."""


def add_to(commands: Commands) -> None:
    """Add the command."""
    command = commands.add_parser(
        "visitors",
        help="play simulated visitors against a running service",
        description=f"Visits the service at --url with the API key in ${KEY}: asks for lists, clicks as the world's "
        "visitors do, and tells at once, late, or never.",
    )
    _add_what(command)
    _add_how(command)
    command.set_defaults(run=run, kept="no list was shown")


def _add_what(command: argparse.ArgumentParser) -> None:
    command.add_argument("--ranker", required=True, metavar="NAME", help="whom to visit")
    command.add_argument("--url", help=f"where the service is (default: ${URL}, or {DEFAULT})")
    command.add_argument(
        "--world",
        default="cafe",
        metavar="SPEC",
        help="cafe, or a YAML file with a world as in rankloop simulate (cafe)",
    )
    command.add_argument("--seed", type=int, help="of the world's parameters (default: the file's, or 0)")
    command.add_argument("--run", dest="named", metavar="NAME", help="the same visitors again (default: new ones)")
    command.add_argument("--create", metavar="POLICY", help="create the ranker, where there is none, with this policy")
    command.add_argument("--slots", type=int, metavar="K", help="of the ranker that is created (default: the world's)")
    add_policies(command, "load a policy of your own for --create; the service must have loaded it too")
    add_data(command)


def _add_how(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--rounds",
        type=int,
        metavar="N",
        help="visits; 0: until stopped (1000, with --seconds as many as there is time)",
    )
    command.add_argument("--seconds", type=float, metavar="S", help="begin no visit after so long")
    command.add_argument(
        "--rate", type=float, default=0.0, metavar="R", help="visits per second; 0: as fast as possible (0)"
    )
    command.add_argument("--callers", type=int, default=16, metavar="N", help="visits at once, at most (16)")
    command.add_argument("--late", type=float, default=0.0, metavar="SHARE", help="of visitors who tell later (0)")
    command.add_argument("--lost", type=float, default=0.0, metavar="SHARE", help="of visitors who never tell (0)")
    command.add_argument(
        "--delay", type=float, default=5.0, metavar="S", help="after which late ones tell, on average (5)"
    )
    command.add_argument("--patience", type=float, default=30.0, metavar="S", help="with a service that is away (30)")
    command.add_argument(
        "--control",
        choices=("none", "fixed"),
        default="none",
        help="send an order of the visitors' own, drawn from the seed, for a control group (none)",
    )
    command.add_argument("--people", type=int, default=10_000, metavar="N", help="who come again and again (10000)")
    command.add_argument("--json", action="store_true", help="print the summary as JSON")
    command.add_argument("--quiet", action="store_true", help="no progress")


def run(given: argparse.Namespace) -> None:
    """Check everything, make the ranker fit, play, sum up."""
    if given.rounds is None:
        given.rounds = 1000 if given.seconds is None else 0
    _check(given)
    use_data(given)
    use_policies(given)
    from rankloop.client import Client, NotAllowed
    from rankloop.visitors import Audience, Run, VisitorBehaviour, load_world

    world, seed = load_world(given.world)
    given.seed = seed if given.seed is None else given.seed
    given.named = given.named or secrets.token_hex(6)
    behaviour = VisitorBehaviour(given.late, given.lost, given.delay, given.people)
    audience = Audience(world, seed=given.seed, run=given.named, behaviour=behaviour)
    url, key = _url(given), os.environ.get(KEY)
    try:
        with Client(url, key) as service:
            plan = _plan(given, service, audience)
        under_way = Run(plan, audience, url, key)
        try:
            _play(under_way, given)
        finally:
            _sum_up(under_way, given)
        if under_way.error is not None:
            raise under_way.error
    except NotAllowed as error:
        raise _about_the_key(error, key) from None


def _url(given: argparse.Namespace) -> str:
    url: str = given.url or os.environ.get(URL) or DEFAULT
    if not url.startswith(("http://", "https://")):
        raise InvalidInput("--url", url, f"an address such as {DEFAULT}")
    return url


def _plan(given: argparse.Namespace, service: Client, audience: Audience) -> VisitPlan:
    """How visitors come, once the ranker is one that they can visit."""
    from rankloop.visitors import VisitPlan, fit
    from rankloop.visitors.retry import Retry

    said: list[str] = []

    def waits(error: Exception) -> None:
        if not said:
            said.append(f"{error} Asking again for {given.patience:g} seconds.")
            _tell(given, said[0])

    patience = Retry(given.patience, on_failure=waits)
    options = {"create": given.create, "slots": given.slots, "rounds": given.rounds}
    fitted = fit(service, given.ranker, audience, retry=patience, **options)
    _tell(given, f"{given.ranker}: {'created, ' if fitted.created else ''}{fitted.put} items put; run {given.named}")
    return VisitPlan(
        ranker=given.ranker,
        rate=given.rate,
        callers=given.callers,
        rounds=given.rounds,
        seconds=given.seconds,
        retry_seconds=given.patience,
        candidates=fitted.candidates,
        order=audience.fixed_order() if given.control == "fixed" else None,
    )


def _check(given: argparse.Namespace) -> None:
    for option in ("rounds", "seed", "slots", "callers", "people"):
        value, low = getattr(given, option), 0 if option in ("rounds", "seed") else 1
        if value is not None:
            validate.integer(f"--{option}", value, low=low, high=256 if option == "callers" else 10**9)
    for option in ("rate", "seconds", "delay", "patience"):
        if getattr(given, option) is not None:
            validate.number(f"--{option}", getattr(given, option), low=0.0, open_low=option in ("seconds", "delay"))
    for option in ("late", "lost"):
        validate.number(f"--{option}", getattr(given, option), low=0.0, high=1.0)
    if given.late + given.lost > 1.0:
        raise InvalidInput("--late", given.late, f"at most {1.0 - given.lost:g}, since --lost is {given.lost:g}")
    if given.named is not None and not (given.named.isprintable() and 1 <= len(given.named) <= 100):
        raise InvalidInput("--run", given.named, "a printable text of 1 to 100 characters")


def _about_the_key(error: NotAllowed, key: str | None) -> RankloopError:
    """Where the command takes its key from, for those who have not the right one."""
    if error.status != 401:
        return RankloopError(str(error))
    return RankloopError(
        f"the service needs an API key; {'none is' if key is None else 'it does not know the one'} in {KEY}."
    )


def _play(under_way: Run, given: argparse.Namespace) -> None:
    """Play until all is done, or until somebody does not want to wait."""
    under_way.start()
    try:
        while not under_way.wait(EVERY):
            _tell(given, under_way.statistics.line())
    finally:
        under_way.stop()
        under_way.wait(LAST)


def _sum_up(under_way: Run, given: argparse.Namespace) -> None:
    told, error = under_way.statistics.summary(), under_way.error
    given.kept = f"{told['lists']:,} lists were shown and {told['feedback_sent']:,} feedback events sent"
    if given.json:
        named = {"ranker": given.ranker, "run": given.named, "seed": given.seed}
        print(json.dumps(named | {"ended_by": None if error is None else str(error)} | told, indent=1))
    else:
        _print_summary(given, told)


def _tell(given: argparse.Namespace, line: str) -> None:
    if not given.quiet:
        print(line, file=sys.stderr, flush=True)


def _print_summary(given: argparse.Namespace, told: Summary) -> None:
    rows = [
        ("lists", f"{told['lists']:,} in {told['seconds']:.1f} s, {told['lists_per_second']:,.0f} per second"),
        ("sent", f"{told['feedback_sent']:,}, {told['feedback_sent_late']:,} of them late; {_receipts(told)}"),
        ("not sent", f"{told['lost']:,} lost, {told['refused']:,} refused, {told['feedback_missing']:,} unfinished"),
        ("clicked", _share(told["click_through"], ".1%")),
        ("regret", f"{_share(told['mean_regret'], '.4f')} on average"),
        ("rank", _times(told["rank_ms"])),
        ("feedback", _times(told["feedback_ms"])),
        *([("behind", _times(told["behind_ms"]))] if given.rate else []),
        ("errors", ", ".join(f"{count:,} x {kind}" for kind, count in told["errors"].items()) or "none"),
    ]
    if told["repeated"]:
        rows.insert(3, ("repeated", f"{told['repeated']:,} sent by an earlier run of this name; withdrawn"))
    for name, value in rows:
        print(f"{name.ljust(8)}  {value}")


def _receipts(told: Summary) -> str:
    return ", ".join(f"{count:,} {status}" for status, count in told["receipts"].items()) or "nothing"


def _share(value: float | None, style: str) -> str:
    return "-" if value is None else format(value, style)


def _times(told: Mapping[str, float | None]) -> str:
    return ", ".join(f"{name} {_share(ms, '.1f')}" for name, ms in told.items()) + " ms"
