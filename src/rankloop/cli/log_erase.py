"""`rankloop log erase`: erase what identifies visitors, in a log and in its archives."""

from __future__ import annotations

import argparse
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from rankloop.cli.log_address import LOG_HELP_DEFAULT, default_log_address, log_address
from rankloop.cli.options import Commands
from rankloop.errors import MISSING, InvalidInput

if TYPE_CHECKING:
    from rankloop.eventlog.erasure.tombstones import Erasure

SQLITE, PARQUET, FOLDER = b"SQLite format 3\0", b"PAR1", b""
"""First bytes of a backup, and of an exported file; none of an archive in a folder."""


def add_to(verbs: Commands) -> None:
    """Add the verb."""
    verb = verbs.add_parser(
        "erase",
        help="Erase what identifies visitors, in a log and in its archives.",
        description="Replace what identifies visitors by tombstones in a log, its snapshots and its archives, while no "
        "service is using them. Nothing that was learned changes, and `rankloop log verify` passes as before.",
    )
    verb.add_argument(
        "log",
        metavar="LOG",
        nargs="?",
        type=log_address,
        default=default_log_address(),
        help=LOG_HELP_DEFAULT,
    )
    verb.add_argument("--visitor", metavar="ID", action="append", default=[], help="Id of a visitor to erase.")
    verb.add_argument(
        "--visitors-file",
        metavar="FILE",
        type=Path,
        help="Text file with one visitor id per line, in UTF-8; unlike --visitor, it shows no id in the process list.",
    )
    verb.add_argument(
        "--archive",
        metavar="PATH",
        action="append",
        default=[],
        type=Path,
        help="File of `rankloop log backup` or `rankloop log export`, or folder of `rankloop log archive`, in which to "
        "erase the visitors as well.",
    )
    verb.set_defaults(run=run, on_interrupt="the erasure is incomplete; run the same command again")


def run(args: argparse.Namespace) -> None:
    """Check all arguments, then erase in the log and in one archive after the other."""
    from rankloop.eventlog.address import is_database, open_existing

    visitors = _visitors(args.visitor, args.visitors_file)
    kinds = [_kind(path) for path in args.archive]
    open_existing(args.log).close()  # refuse a log that does not exist before a lock file is created for it
    done = _erase_in_log(args.log, visitors)
    where = "the log" if is_database(args.log) else args.log  # an address may contain a password
    print("\n".join(report_lines(where, done)))
    for path, kind in zip(args.archive, kinds, strict=True):
        done = _erase_in(path, kind, visitors)
        print("\n".join(report_lines(str(path), done)))


def _visitors(given: list[str], file: Path | None) -> set[str]:
    """Return the ids of all visitors to erase."""
    from rankloop.schema.identifiers import printable

    visitors = {printable("--visitor", id) for id in given}
    if file is not None:
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise InvalidInput("--visitors-file", str(file), f"a readable text file ({error.strerror})") from None
        except ValueError:
            raise InvalidInput("--visitors-file", str(file), "a text file in UTF-8") from None
        visitors |= {printable(f"--visitors-file, line {n}", line) for n, line in enumerate(lines, start=1) if line}
    if not visitors:
        raise InvalidInput("--visitor", MISSING, "an id, or --visitors-file with a file that has one id per line")
    return visitors


def _kind(path: Path) -> bytes:
    """Return the first bytes of an archive; refuse a file of another kind."""
    if path.is_dir():
        from rankloop.eventlog.retention.import_archive import existing_parts

        existing_parts(path)
        return FOLDER
    try:
        with path.open("rb") as file:
            start = file.read(len(SQLITE))
    except OSError as error:
        raise InvalidInput("--archive", str(path), f"a readable file ({error.strerror})") from None
    for kind in (SQLITE, PARQUET):
        if start.startswith(kind):
            return kind
    accepted = "a file that `rankloop log backup` or `rankloop log export` wrote, or a folder of `rankloop log archive`"
    raise InvalidInput("--archive", str(path), accepted)


def _erase_in_log(address: str, visitors: set[str]) -> Erasure:
    from rankloop.eventlog.address import open_store
    from rankloop.eventlog.erasure import tombstones
    from rankloop.serving import snapshots

    with closing(open_store(address, exclusive=True)) as store:
        return tombstones.erase(store, visitors, time.time(), snapshots.renamed)


def _erase_in(path: Path, kind: bytes, visitors: set[str]) -> Erasure:
    """Erase in an archive."""
    if kind == SQLITE:
        return _erase_in_log(str(path), visitors)
    if kind == FOLDER:
        from rankloop.eventlog.retention.erased_archive import erase_in_archive

        return erase_in_archive(path, visitors, time.time())
    from rankloop.eventlog.erasure import exported

    return exported.erase(path, visitors)


def report_lines(where: str, done: Erasure) -> list[str]:
    """Return what an erasure changed, as sentences."""
    if not done.decisions:
        return [f"{where}: no decision of these visitors."]
    lines = [f"{where}: {_count(done.decisions, 'decision')} of {_count(len(done.visitors), 'visitor')} erased."]
    if done.renamed:
        lines.append(f"  {_count(done.renamed, 'id')} of decisions or feedback contained a visitor's id and changed.")
    if done.snapshots:
        lines.append(f"  {_count(done.snapshots, 'snapshot')} deleted; the next start replays the log instead.")
    return lines


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"
