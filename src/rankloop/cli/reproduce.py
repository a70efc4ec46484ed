"""`rankloop reproduce`: the experiments of the five papers."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from rankloop.cli.options import Commands, add_data, add_jobs, add_policies, load_policies, show_progress, use_data
from rankloop.errors import RankloopError

if TYPE_CHECKING:
    from rankloop.experiments.experiment import Experiment
    from rankloop.simulator.policy_spec import PolicySpec


def add_to(commands: Commands) -> None:
    """Add the command."""
    command = commands.add_parser(
        "reproduce",
        help="Rerun the experiments of the five papers.",
        description="Run experiments of the five papers and check their claims. Without an id, list every experiment. "
        "An interrupted run continues where it stopped.",
    )
    command.add_argument(
        "id", nargs="*", help="Id of an experiment, or a pattern such as 'choice/*'; '*' selects all of them."
    )
    command.add_argument(
        "--quick", action="store_true", help="Run a smaller version; all experiments together take minutes."
    )
    add_data(command)
    command.add_argument(
        "--out", default="results", metavar="DIR", help="Folder for the results (default: %(default)s)."
    )
    add_jobs(command)
    command.add_argument(
        "--engine",
        default="local",
        choices=("local", "dask"),
        help="Executor of the simulation chunks: local processes or a Dask cluster (default: %(default)s).",
    )
    add_policies(command, "Add a policy of your own to every panel.")
    command.add_argument(
        "--page",
        metavar="FILE",
        help="Markdown file to write with all results, such as docs/explanation/reproduction.md.",
    )
    command.set_defaults(run=run, on_interrupt="finished chunks are saved; run the command again to continue")


def run(args: argparse.Namespace) -> None:
    """List the experiments, run the selected ones, and write the page of results."""
    from rankloop import validate
    from rankloop.datasets.errors import MissingData
    from rankloop.experiments import library, page
    from rankloop.simulator.spec import policy_specs

    validate.integer("--jobs", args.jobs)
    use_data(args)
    if not args.id and not args.page:
        print_experiments(args.quick)
    results = Path(args.out)
    experiments = library.chosen(tuple(args.id))
    extra = [spec for entry in load_policies(args) for spec in policy_specs([entry.id])]
    if experiments:
        validate.writable_folder("--out", results)
    omitted, failures = [], []
    for experiment in experiments:
        try:
            _run_one(experiment, results, extra, args)
        except MissingData as missing:
            omitted.append(experiment.id)
            if experiment.id in args.id:
                failures.append(f"{experiment.id} did not run: {missing}")
            else:
                print(f"{experiment.id}: left out, since {missing}")
    if args.page:
        page.write(results, Path(args.page))
        print(f"Written to {args.page}.")
    if failures:
        raise RankloopError(" ".join(failures))
    if experiments and len(omitted) == len(experiments):
        raise RankloopError("nothing ran: the data of every selected experiment is missing.")


def print_experiments(quick: bool) -> None:
    """Print every experiment with its data and cost."""
    from rankloop.experiments import library

    rows = [(e.id, ", ".join(e.data) or "-", f"{e.cost(quick) / 1e6:,.1f}", e.title) for e in library.ALL]
    head = ("id", "data", "M rounds", "what it shows")
    widths = [max(len(row[c]) for row in (head, *rows)) for c in range(3)]
    for row in (head, *rows):
        print(f"{row[0].ljust(widths[0])}  {row[1].ljust(widths[1])}  {row[2].rjust(widths[2])}  {row[3]}")
    print("\nM rounds: millions of replication-rounds; one process plays 1,000 to 200,000 of them per second.")


def _run_one(experiment: Experiment, results: Path, extra: list[PolicySpec], args: argparse.Namespace) -> None:
    from rankloop.datasets import prepared
    from rankloop.experiments import report, runner

    folder = report.result_folder(results, experiment, quick=args.quick)
    if extra and not experiment.panels(args.quick):
        print(f"{experiment.id}: simulates nothing, so --policy has no effect.")
    inputs = {id: prepared.fingerprint(id) for id in experiment.data}

    def progress(id: str, done: int, total: int) -> None:
        show_progress(args, id, done, total)

    outcome = runner.run(
        experiment,
        results,
        quick=args.quick,
        jobs=args.jobs,
        engine=args.engine,
        extra=extra,
        inputs=inputs,
        progress=progress,
    )
    report.write(experiment, outcome, folder)
    print(f"{experiment.id}: {experiment.title} ({outcome.size})")
    for claim in report.claim_verdicts(experiment, outcome):
        print(f"  {claim['verdict']}: {claim['claim']} ({claim['numbers']})")
    print(f"  {report.time_breakdown(outcome)}\n  written to {folder}")
