"""`rankloop matrix`."""

from __future__ import annotations

import argparse
from pathlib import Path

from rankloop.cli.options import Commands, add_jobs, add_policies, load_policies, show_progress


def add_to(commands: Commands) -> None:
    """Add the command."""
    command = commands.add_parser(
        "matrix",
        help="Compare every policy in every world.",
        description="Print the final regret of every policy in every world in which it can run, as a fraction of the "
        "random policy's regret.",
    )
    command.add_argument(
        "--quick", action="store_true", help="Run fewer rounds and replications: minutes instead of an hour."
    )
    command.add_argument(
        "--out", default="results/matrix", metavar="DIR", help="Folder for the results (default: %(default)s)."
    )
    add_jobs(command)
    add_policies(command, "Add a policy of your own as a row.")
    command.set_defaults(run=run, on_interrupt="finished cells are saved; run the command again to continue")


def run(args: argparse.Namespace) -> None:
    """Run the cells that are missing, then write and print the whole table."""
    from rankloop import validate
    from rankloop.experiments import matrix, matrix_report
    from rankloop.experiments.outcome import SEED

    validate.integer("--jobs", args.jobs)
    load_policies(args)
    folder = Path(args.out)
    validate.writable_folder("--out", folder)

    def report(done: int, total: int) -> None:
        show_progress(args, "matrix", done, total)

    size = matrix.QUICK if args.quick else matrix.FULL
    result = matrix.run(size, folder, jobs=args.jobs, progress=report)
    matrix_report.write(result, folder)
    print(matrix_report.table(result))
    print(f"\n{size.rounds:,} rounds, {size.replications} replications, seed {SEED}; ± half a 95 % interval.")
    print(f"Written to {folder}. An interrupted run continues where it stopped.")
