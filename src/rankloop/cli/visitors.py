"""`rankloop visitors`: simulated visitors of a running service."""

from __future__ import annotations

import argparse
import json
import os
import secrets
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rankloop.cli.options import Commands, add_data, add_policies, add_quiet, load_policies, use_data
from rankloop.cli.service_client import CONNECTION, DEFAULT_URL, KEY_VARIABLE, add_url, service_url
from rankloop.errors import InvalidInput, RankloopError

if TYPE_CHECKING:
    from rankloop.client import Client, NotAllowed
    from rankloop.visitors import Audience, Run, VisitPlan
    from rankloop.visitors.statistics import Summary

PROGRESS_SECONDS = 5.0
"""Time between two lines of progress."""
DRAIN_SECONDS = 1.0
"""Time for requests under way to complete after an interrupt."""


def add_to(commands: Commands) -> None:
    """Add the command."""
    command = commands.add_parser(
        "visitors",
        help="Send simulated visitors to a running service.",
        description="Simulate visitors of a running service: request lists, click as visitors of the world do, and "
        f"report feedback at once, late or never. {CONNECTION}",
    )
    _add_audience_options(command)
    _add_traffic_options(command)
    command.set_defaults(run=run, on_interrupt="no list was shown")


def _add_audience_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--ranker", required=True, metavar="NAME", help="Name of the ranker to visit.")
    add_url(command)
    command.add_argument(
        "--world",
        default="cafe",
        metavar="SPEC",
        help="World of the visitors: cafe, or a YAML file with a world as in `rankloop simulate` (default: cafe).",
    )
    command.add_argument(
        "--seed", type=int, metavar="N", help="Random seed of the world's parameters (default: the file's seed, or 0)."
    )
    command.add_argument(
        "--run", dest="run_name", metavar="NAME", help="Name of the run; the same name repeats the same visitors."
    )
    command.add_argument("--create", metavar="POLICY", help="Policy of a new ranker, if the ranker does not exist.")
    command.add_argument(
        "--slots", type=int, metavar="K", help="Number of slots of a new ranker (default: the world's)."
    )
    add_policies(command, "Load a policy of your own for --create; the service must load it too.")
    add_data(command)


def _add_traffic_options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--rounds",
        type=int,
        metavar="N",
        help="Number of visits; 0 means until interrupted (default: 1000, or unlimited with --seconds).",
    )
    command.add_argument("--seconds", type=float, metavar="S", help="Seconds after which no visit starts.")
    command.add_argument(
        "--rate",
        type=float,
        default=0.0,
        metavar="R",
        help="Number of visits per second; 0 means as fast as possible (default: 0).",
    )
    command.add_argument(
        "--callers", type=int, default=16, metavar="N", help="Maximum number of concurrent visits (default: 16)."
    )
    command.add_argument(
        "--late",
        type=float,
        default=0.0,
        metavar="FRACTION",
        help="Fraction of visitors who report feedback after a delay (default: 0).",
    )
    command.add_argument(
        "--lost",
        type=float,
        default=0.0,
        metavar="FRACTION",
        help="Fraction of visitors who never report feedback (default: 0).",
    )
    command.add_argument(
        "--delay", type=float, default=5.0, metavar="S", help="Mean delay of late feedback in seconds (default: 5)."
    )
    command.add_argument(
        "--retry-seconds",
        type=float,
        default=30.0,
        metavar="S",
        help="Seconds to retry while the service is unavailable (default: 30).",
    )
    command.add_argument(
        "--control",
        choices=("none", "fixed"),
        default="none",
        help="Order to send for the control group: none, or a fixed one drawn from the seed (default: none).",
    )
    command.add_argument(
        "--people",
        type=int,
        default=10_000,
        metavar="N",
        help="Number of distinct returning visitors (default: 10000).",
    )
    command.add_argument("--json", action="store_true", help="Print the summary as JSON.")
    add_quiet(command)


def run(args: argparse.Namespace) -> None:
    """Check the options, prepare the ranker, simulate the visits, and print a summary."""
    if args.rounds is None:
        args.rounds = 1000 if args.seconds is None else 0
    _check(args)
    use_data(args)
    load_policies(args)
    from rankloop.client import Client, NotAllowed
    from rankloop.visitors import Audience, Run, VisitorBehaviour, load_world

    world, seed = load_world(args.world)
    args.seed = seed if args.seed is None else args.seed
    args.run_name = args.run_name or secrets.token_hex(6)
    behaviour = VisitorBehaviour(args.late, args.lost, args.delay, args.people)
    audience = Audience(world, seed=args.seed, run=args.run_name, behaviour=behaviour)
    url, key = _checked_url(args), os.environ.get(KEY_VARIABLE)
    try:
        with Client(url, key) as service:
            plan = _plan(args, service, audience)
        visits = Run(plan, audience, url, key)
        try:
            _play(visits, args)
        finally:
            _summarise(visits, args)
        if visits.error is not None:
            raise visits.error
    except NotAllowed as error:
        raise _key_error(error, key) from None


def _checked_url(args: argparse.Namespace) -> str:
    url = service_url(args)
    if not url.startswith(("http://", "https://")):
        raise InvalidInput("--url", url, f"an address such as {DEFAULT_URL}")
    return url


def _plan(args: argparse.Namespace, service: Client, audience: Audience) -> VisitPlan:
    """Make the ranker fit the world; return the plan of the visits."""
    from rankloop.visitors import VisitPlan, fit
    from rankloop.visitors.retry import Retry

    notices: list[str] = []

    def retrying(error: Exception) -> None:
        if not notices:
            notices.append(f"{error} Retrying for {args.retry_seconds:g} seconds.")
            _print_progress(args, notices[0])

    retry = Retry(args.retry_seconds, on_failure=retrying)
    options = {"create": args.create, "slots": args.slots, "rounds": args.rounds}
    fitted = fit(service, args.ranker, audience, retry=retry, **options)
    created = "created, " if fitted.created else ""
    _print_progress(args, f"{args.ranker}: {created}{fitted.put} items put; run {args.run_name}")
    return VisitPlan(
        ranker=args.ranker,
        rate=args.rate,
        callers=args.callers,
        rounds=args.rounds,
        seconds=args.seconds,
        retry_seconds=args.retry_seconds,
        candidates=fitted.candidates,
        values=fitted.values,
        order=audience.fixed_order() if args.control == "fixed" else None,
    )


def _check(args: argparse.Namespace) -> None:
    from rankloop import validate

    for option in ("rounds", "seed", "slots", "callers", "people"):
        value, low = getattr(args, option), 0 if option in ("rounds", "seed") else 1
        if value is not None:
            validate.integer(f"--{option}", value, low=low, high=256 if option == "callers" else 10**9)
    for option in ("rate", "seconds", "delay", "retry-seconds"):
        value = getattr(args, option.replace("-", "_"))
        if value is not None:
            validate.number(f"--{option}", value, low=0.0, open_low=option in ("seconds", "delay"))
    for option in ("late", "lost"):
        validate.number(f"--{option}", getattr(args, option), low=0.0, high=1.0)
    if args.late + args.lost > 1.0:
        raise InvalidInput("--late", args.late, f"at most {1.0 - args.lost:g}, since --lost is {args.lost:g}")
    if args.run_name is not None and not (args.run_name.isprintable() and 1 <= len(args.run_name) <= 100):
        raise InvalidInput("--run", args.run_name, "a printable text of 1 to 100 characters")


def _key_error(error: NotAllowed, key: str | None) -> RankloopError:
    """Return the error with the name of the variable from which the command reads the API key."""
    if error.status != 401:
        return RankloopError(str(error))
    problem = f"{KEY_VARIABLE} is not set" if key is None else f"it does not accept the key in {KEY_VARIABLE}"
    return RankloopError(f"the service requires an API key; {problem}.")


def _play(visits: Run, args: argparse.Namespace) -> None:
    """Run the visits until all are done or the command is interrupted."""
    visits.start()
    try:
        while not visits.wait(PROGRESS_SECONDS):
            _print_progress(args, visits.statistics.line())
    finally:
        visits.stop()
        visits.wait(DRAIN_SECONDS)


def _summarise(visits: Run, args: argparse.Namespace) -> None:
    summary, error = visits.statistics.summary(), visits.error
    args.on_interrupt = f"{summary['lists']:,} lists were shown and {summary['feedback_sent']:,} feedback events sent"
    if args.json:
        run = {"ranker": args.ranker, "run": args.run_name, "seed": args.seed}
        print(json.dumps(run | {"ended_by": None if error is None else str(error)} | summary, indent=1))
    else:
        _print_summary(args, summary)


def _print_progress(args: argparse.Namespace, line: str) -> None:
    if not args.quiet:
        print(line, file=sys.stderr, flush=True)


def _print_summary(args: argparse.Namespace, summary: Summary) -> None:
    unsent = f"{summary['feedback_missing']:,} not sent before the end"
    missing = f"{summary['lost']:,} lost, {summary['refused']:,} refused, {unsent}"
    rows = [
        ("lists", f"{summary['lists']:,} in {summary['seconds']:.1f} s, {summary['lists_per_second']:,.0f} per second"),
        (
            "feedback",
            f"{summary['feedback_sent']:,}, {summary['feedback_sent_late']:,} of them late; {_receipts(summary)}",
        ),
        ("missing", missing),
        ("clicked", _number(summary["click_through"], ".1%")),
        ("regret", f"{_number(summary['mean_regret'], '.4f')} on average"),
        ("rank latency", _latencies(summary["rank_ms"])),
        ("feedback latency", _latencies(summary["feedback_ms"])),
        *([("behind schedule", _latencies(summary["behind_ms"]))] if args.rate else []),
        ("errors", ", ".join(f"{count:,} x {kind}" for kind, count in summary["errors"].items()) or "none"),
    ]
    if summary["repeated"]:
        rows.insert(
            3, ("repeated", f"{summary['repeated']:,} already reported by an earlier run of this name; withdrawn")
        )
    for name, value in rows:
        print(f"{name.ljust(16)}  {value}")


def _receipts(summary: Summary) -> str:
    return ", ".join(f"{count:,} {status}" for status, count in summary["receipts"].items()) or "no receipts"


def _number(value: float | None, style: str) -> str:
    return "-" if value is None else format(value, style)


def _latencies(milliseconds: Mapping[str, float | None]) -> str:
    return ", ".join(f"{name} {_number(value, '.1f')}" for name, value in milliseconds.items()) + " ms"
