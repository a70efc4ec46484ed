"""`rankloop reproduce`: the experiments of the five papers."""

from __future__ import annotations

import argparse
from pathlib import Path

from rankloop import validate
from rankloop.cli.options import Commands, add_data, add_jobs, add_policies, show_progress, use_data, use_policies
from rankloop.datasets import prepared
from rankloop.datasets.errors import MissingData
from rankloop.errors import RankloopError
from rankloop.experiments import library, page, report, runner
from rankloop.experiments.experiment import Experiment
from rankloop.simulator.policy_spec import PolicySpec
from rankloop.simulator.spec import policy_specs


def add_to(commands: Commands) -> None:
    """Add the command."""
    command = commands.add_parser(
        "reproduce",
        help="run the experiments of the five papers again",
        description="Without an id, list every experiment. A run that was interrupted goes on where it stopped.",
    )
    command.add_argument("id", nargs="*", help="an id, or a pattern such as 'choice/*'; '*' for all")
    command.add_argument("--quick", action="store_true", help="a smaller version: all of them in minutes")
    add_data(command)
    command.add_argument("--out", default="results", metavar="DIR", help="default: results")
    add_jobs(command)
    command.add_argument("--engine", default="local", choices=("local", "dask"), help="where chunks are played")
    add_policies(command, "add a policy of your own to every panel")
    command.add_argument(
        "--page", metavar="FILE", help="write the page of all results, such as docs/explanation/reproduction.md"
    )
    command.set_defaults(run=run, kept="what was played is kept; run it again to go on")


def run(given: argparse.Namespace) -> None:
    """List, run, write the page: whatever was asked for."""
    validate.integer("--jobs", given.jobs)
    use_data(given)
    if not given.id and not given.page:
        listing(given.quick)
    results = Path(given.out)
    experiments = library.chosen(tuple(given.id))
    extra = [spec for entry in use_policies(given) for spec in policy_specs([entry.id])]
    if experiments:
        validate.writable_folder("--out", results)
    left_out, asked_for = [], []
    for experiment in experiments:
        try:
            _one(experiment, results, extra, given)
        except MissingData as missing:
            left_out.append(experiment.id)
            if experiment.id in given.id:
                asked_for.append(f"{experiment.id} did not run: {missing}")
            else:
                print(f"{experiment.id}: left out, since {missing}")
    if given.page:
        page.write(results, Path(given.page))
        print(f"Written to {given.page}.")
    if asked_for:
        raise RankloopError(" ".join(asked_for))
    if experiments and len(left_out) == len(experiments):
        raise RankloopError("nothing ran: no experiment chosen has its data.")


def listing(quick: bool) -> None:
    """Every experiment with its paper, data and cost."""
    rows = [(e.id, ", ".join(e.data) or "-", f"{e.cost(quick) / 1e6:,.1f}", e.title) for e in library.ALL]
    head = ("id", "data", "M rounds", "what it shows")
    widths = [max(len(row[c]) for row in (head, *rows)) for c in range(3)]
    for row in (head, *rows):
        print(f"{row[0].ljust(widths[0])}  {row[1].ljust(widths[1])}  {row[2].rjust(widths[2])}  {row[3]}")
    print("\nM rounds: millions of replication-rounds to play; a process plays 1,000 to 200,000 in a second.")


def _one(experiment: Experiment, results: Path, extra: list[PolicySpec], given: argparse.Namespace) -> None:
    folder = report.result_folder(results, experiment, quick=given.quick)
    if extra and not experiment.panels(given.quick):
        print(f"{experiment.id}: nothing is simulated in it, so --policy adds nothing.")
    inputs = {id: prepared.fingerprint(id) for id in experiment.data}

    def progress(id: str, done: int, total: int) -> None:
        show_progress(given, id, done, total)

    outcome = runner.run(
        experiment,
        results,
        quick=given.quick,
        jobs=given.jobs,
        engine=given.engine,
        extra=extra,
        inputs=inputs,
        progress=progress,
    )
    report.write(outcome, folder)
    print(f"{experiment.id}: {experiment.title} ({outcome.size})")
    for claim in report.claim_verdicts(outcome):
        print(f"  {claim['verdict']}: {claim['claim']} ({claim['numbers']})")
    print(f"  {report.time_breakdown(outcome)}\n  written to {folder}")
