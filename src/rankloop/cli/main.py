"""`rankloop`: one parser, one module for each command."""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
import threading
from collections.abc import Sequence
from typing import NoReturn

from rankloop.cli import catalogue, datasets, demo, log, matrix, rankers, report, reproduce, serve, simulate, visitors
from rankloop.cli.log_address import without_passwords
from rankloop.errors import RankloopError
from rankloop.version import __version__

COMMANDS = (simulate, matrix, reproduce, datasets, catalogue, serve, demo, rankers, visitors, report, log)


class OneLineParser(argparse.ArgumentParser):
    """A parser that reports a wrong argument in one line, and whose help texts are all sentences."""

    def format_help(self) -> str:
        """Return the help, with argparse's own text in the form of the others."""
        return super().format_help().replace("show this help message and exit", "Show this help and exit.")

    def error(self, message: str) -> NoReturn:
        """Exit with the message, without the usage, which --help prints."""
        self.exit(2, f"rankloop: {without_passwords(message)}; see {self.prog} --help.\n")


def parser() -> argparse.ArgumentParser:
    """Return the parser with all commands."""
    main_parser: argparse.ArgumentParser = OneLineParser(
        prog="rankloop",
        description="Online learning to rank: simulate ranking policies, serve them over HTTP, learn from every click.",
    )
    main_parser.set_defaults(on_interrupt="nothing was written")
    main_parser.add_argument(
        "--version", action="version", version=f"rankloop {__version__}", help="Show the version and exit."
    )
    commands = main_parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in COMMANDS:
        module.add_to(commands)
    return main_parser


def _interrupt(number: int, frame: object) -> NoReturn:
    """End on SIGTERM as on Ctrl-C, so that workers and temporary files are cleaned up."""
    raise KeyboardInterrupt


def _numerical_errors() -> tuple[type[Exception], ...]:
    import numpy as np  # only after an error: --help does without NumPy

    return ArithmeticError, MemoryError, np.linalg.LinAlgError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    Codes: 0 success, 1 the output could not be written, 2 invalid input, 130 interrupted.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without ± should not lose a whole run
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _interrupt)
    args = parser().parse_args(arguments)
    try:
        args.run(args)
        sys.stdout.flush()
    except RankloopError as error:
        print(f"rankloop: {without_passwords(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        # A progress line may be open on a terminal.
        print(f"{chr(10) if sys.stderr.isatty() else ''}rankloop: interrupted, {args.on_interrupt}.", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of the output has closed it, as `head` does; the interpreter's last flush must not fail either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        print(f"rankloop: {error.filename or 'the output'} could not be written ({error.strerror}).", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except _numerical_errors() as error:
        print(f"rankloop: a number in the input is too large or too small to compute with ({error}).", file=sys.stderr)
        return 2
    return 0
