"""`rankloop matrix`."""

from __future__ import annotations

import argparse
from pathlib import Path

from rankloop import validate
from rankloop.cli.options import Commands, add_jobs, add_policies, show_progress, use_policies
from rankloop.experiments import matrix, matrix_report
from rankloop.experiments.experiment import SEED


def add_to(commands: Commands) -> None:
    """Add the command."""
    command = commands.add_parser(
        "matrix",
        help="every policy in every world: which one fits?",
        description="Final regret of every policy in every world where it can run, as a share of the random policy's.",
    )
    command.add_argument("--quick", action="store_true", help="fewer rounds and replications: minutes, not an hour")
    command.add_argument("--out", default="results/matrix", metavar="DIR", help="default: results/matrix")
    add_jobs(command)
    add_policies(command, "add a policy of your own as a row")
    command.set_defaults(run=run, kept="finished cells are kept; run it again to go on")


def run(given: argparse.Namespace) -> None:
    """Run what is missing, then write everything."""
    validate.integer("--jobs", given.jobs)
    use_policies(given)
    folder = Path(given.out)
    validate.writable_folder("--out", folder)

    def progress(done: int, total: int) -> None:
        show_progress(given, "matrix", done, total)

    size = matrix.QUICK if given.quick else matrix.FULL
    result = matrix.run(size, folder, jobs=given.jobs, progress=progress)
    matrix_report.write(result, folder)
    print(matrix_report.table(result))
    print(f"\n{size.rounds:,} rounds, {size.replications} replications, seed {SEED}; ± half a 95 % interval.")
    print(f"Written to {folder}. An interrupted run goes on where it stopped.")
