"""Print what the starts of rankloop cost: CPU seconds in a fresh process, the median of several.

    python -m tools.start_time [RUNS]

An import of the package is measured beyond `import numpy, numba`, which every program that ranks in process needs; a
command from the start of the interpreter to its end.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys

IMPORTS = {
    "import rankloop": "import rankloop",
    "rankloop.Ranker, rankloop.build": "import rankloop; rankloop.Ranker; rankloop.build",
    "import rankloop.client": "import rankloop.client",
}
COMMANDS = (("--help",), ("simulate", "--help"), ("serve", "--help"), ("rankers", "--help"), ("log", "--help"))
MEASURED = "import time, numpy, numba; start = time.process_time(); {}; print(time.process_time() - start)"


def import_seconds(statement: str, runs: int) -> float:
    """Return the CPU seconds of a statement after `import numpy, numba`."""
    program = [sys.executable, "-c", MEASURED.format(statement)]
    return statistics.median(float(subprocess.check_output(program, text=True)) for _ in range(runs))


def command_seconds(arguments: tuple[str, ...], runs: int) -> float:
    """Return the CPU seconds of a whole command, the interpreter's own start included."""
    return statistics.median(_children_seconds(["-m", "rankloop", *arguments]) for _ in range(runs))


def _children_seconds(arguments: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main(runs: int = 7) -> None:
    """Print one line for each start."""
    for name, statement in IMPORTS.items():
        print(f"{name:<32} {import_seconds(statement, runs):.3f} s beyond numpy and numba")
    for arguments in COMMANDS:
        print(f"{'rankloop ' + ' '.join(arguments):<32} {command_seconds(arguments, runs):.3f} s in all")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:2]))
