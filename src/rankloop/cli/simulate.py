"""`rankloop simulate SPEC.yaml`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from rankloop.cli.options import Commands, add_data, add_jobs, add_policies, load_policies, use_data
from rankloop.errors import InvalidInput, MissingExtra

if TYPE_CHECKING:
    from tqdm import tqdm


def add_to(commands: Commands) -> None:
    """Add the command."""
    command = commands.add_parser(
        "simulate",
        help="Run policies against simulated visitors.",
        description="Run every policy of a spec in the same world, with the same simulated visitors.",
    )
    command.add_argument(
        "spec", metavar="SPEC.yaml", help="File with the world, policies, rounds, replications and seed."
    )
    command.add_argument(
        "--out", metavar="DIR", help="Folder for result.json, trace.parquet, regret.png and regret.svg."
    )
    command.add_argument("--json", action="store_true", help="Print the result as JSON instead of a table.")
    add_jobs(command)
    add_data(command)
    add_policies(command, "Load a policy of your own; the spec names it by its id.")
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Check the input, simulate, write the files and print the result."""
    from rankloop import validate
    from rankloop.simulator.api import run as run_spec
    from rankloop.simulator.api import with_baseline
    from rankloop.simulator.spec import load_spec

    validate.integer("--jobs", args.jobs)
    use_data(args)
    load_policies(args)
    spec = load_spec(args.spec)
    if args.out is not None:
        if not args.out.strip():
            raise InvalidInput("--out", args.out, "the name of a folder")
        validate.writable_folder("--out", Path(args.out))
    total = spec.rounds * spec.replications * len(with_baseline(spec))
    with _progress(total, quiet=args.quiet) as bar:

        def played(rounds: int) -> None:
            bar.update(rounds)

        result = run_spec(spec, jobs=args.jobs, report=played)
    if args.out is not None:
        try:
            result.save(args.out)
        except OSError as error:
            raise InvalidInput("--out", args.out, f"a folder that can be written ({error.strerror})") from None
    if args.json:
        json.dump(result.as_json(), sys.stdout, indent=1, allow_nan=False)
        print()
    else:
        print(result)
        if args.out is not None:
            print(f"Written to {args.out}.")


def _progress(total: int, *, quiet: bool) -> tqdm[NoReturn]:
    try:
        from tqdm import tqdm
    except ModuleNotFoundError:
        raise MissingExtra("the simulate command", "experiments") from None
    return tqdm(
        total=total,
        unit="round",
        unit_scale=True,
        disable=quiet or not sys.stderr.isatty(),
        dynamic_ncols=True,
        leave=False,
        file=sys.stderr,
    )
