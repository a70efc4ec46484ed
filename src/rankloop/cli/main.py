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

import numpy as np

from rankloop.cli import catalogue, datasets, demo, log, matrix, rankers, report, reproduce, serve, simulate, visitors
from rankloop.errors import RankloopError
from rankloop.version import __version__

COMMANDS = (simulate, matrix, reproduce, datasets, catalogue, serve, demo, rankers, visitors, report, log)


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        """Without the usage, which --help shows."""
        self.exit(2, f"rankloop: {message}; see {self.prog} --help.\n")


def parser() -> argparse.ArgumentParser:
    """The parser with all commands."""
    main_parser: argparse.ArgumentParser = Parser(
        prog="rankloop",
        description="Online learning to rank: show a list, watch what is clicked, learn from every click.",
    )
    main_parser.set_defaults(kept="nothing written")  # what an interrupted command leaves
    main_parser.add_argument("--version", action="version", version=f"rankloop {__version__}")
    commands = main_parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in COMMANDS:
        module.add_to(commands)
    return main_parser


def _interrupt(number: int, frame: object) -> NoReturn:
    """End on SIGTERM as on Ctrl-C: workers and temporary files go too."""
    raise KeyboardInterrupt


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command. 0: done; 2: something given was wrong; 130: interrupted."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without ± should not lose a whole run
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _interrupt)
    given = parser().parse_args(arguments)
    try:
        given.run(given)
        sys.stdout.flush()
    except RankloopError as error:
        print(f"rankloop: {error}", file=sys.stderr)
        return 2
    except (ArithmeticError, MemoryError, np.linalg.LinAlgError) as error:
        print(f"rankloop: some number given is too large or too small to compute with ({error}).", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        # A progress line may be open on a terminal.
        print(f"{chr(10) if sys.stderr.isatty() else ''}rankloop: interrupted, {given.kept}.", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output has left, as `head` does; keep the interpreter's last flush quiet too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        print(f"rankloop: {error.filename or 'the output'} could not be written ({error.strerror}).", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0
