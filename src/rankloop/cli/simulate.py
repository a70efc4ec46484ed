"""`rankloop simulate SPEC.yaml`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from rankloop import validate
from rankloop.cli.options import Commands, add_data, add_jobs, add_policies, use_data, use_policies
from rankloop.errors import InvalidInput, MissingExtra
from rankloop.simulator.api import run as run_spec
from rankloop.simulator.api import with_baseline
from rankloop.simulator.spec import load_spec

if TYPE_CHECKING:
    from tqdm import tqdm


def add_to(commands: Commands) -> None:
    """Add the command."""
    command = commands.add_parser(
        "simulate",
        help="run policies against simulated visitors",
        description="Run every policy of a spec on the same world and the same visitors.",
    )
    command.add_argument("spec", metavar="SPEC.yaml", help="world, policies, rounds, replications, seed")
    command.add_argument("--out", metavar="DIR", help="write result.json, trace.parquet, regret.png, regret.svg")
    command.add_argument("--json", action="store_true", help="print the result as JSON instead of a table")
    add_jobs(command)
    add_data(command)
    add_policies(command, "load a policy of your own, which the spec can then name by its id")
    command.set_defaults(run=run)


def run(given: argparse.Namespace) -> None:
    """Check everything, run, then write."""
    validate.integer("--jobs", given.jobs)
    use_data(given)
    use_policies(given)
    spec = load_spec(given.spec)
    if given.out is not None:
        if not given.out.strip():
            raise InvalidInput("--out", given.out, "the name of a folder")
        validate.writable_folder("--out", Path(given.out))
    total = spec.rounds * spec.replications * len(with_baseline(spec))
    with _progress(total, quiet=given.quiet) as bar:

        def played(rounds: int) -> None:
            bar.update(rounds)

        result = run_spec(spec, jobs=given.jobs, report=played)
    if given.out is not None:
        try:
            result.save(given.out)
        except OSError as error:
            raise InvalidInput("--out", given.out, f"a folder that can be written ({error.strerror})") from None
    if given.json:
        json.dump(result.as_json(), sys.stdout, indent=1, allow_nan=False)
        print()
    else:
        print(result)
        if given.out is not None:
            print(f"Written to {given.out}.")


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
