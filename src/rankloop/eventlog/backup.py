"""A copy of a log in one file, taken while others write: a beginning of the log without gaps, or nothing at all."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from rankloop.errors import InvalidInput
from rankloop.eventlog.address import is_database
from rankloop.eventlog.postgres_backup import open_database
from rankloop.eventlog.sqlite import MIGRATIONS
from rankloop.eventlog.store import StoreUnavailable

STEP_PAGES = 1000
"""Pages that are copied before an interrupt is heard: some 4 MB."""
JOURNALS = ("-wal", "-journal")
"""What SQLite would replay into a file that is called like this without the ending."""
BESIDE = ("", "-shm", ".lock", *JOURNALS)
"""Endings of the files that belong to a log."""


@dataclass(frozen=True, slots=True)
class Backup:
    """What a backup holds."""

    entries: int
    position: int  # of the last entry; 0 if there is none
    bytes: int


def back_up(place: str | Path, out: str | Path, *, force: bool = False) -> Backup:
    """Copy a log and its snapshots into a SQLite file, as they are at one moment; the log may be in use.

    Args:
        place: the SQLite file or the address of the database.
        out: the file to write; it is there when it is complete, checked and on the disk.
        force: replace a file that is there.
    """
    path = Path(out)
    log = None if is_database(place) else Path(place)
    _refuse(path, log, force=force)
    with open_database(str(place)) if log is None else _open_file(log) as copy, _told(path):
        part = _create_beside(path)
        try:
            copy(part)
            made = _finish(part)
            _refuse(path, log, force=force)  # whoever wrote there meanwhile does not lose it
            part.replace(path)
            _sync_folder(path.parent)
        finally:
            for ending in BESIDE:
                part.with_name(part.name + ending).unlink(missing_ok=True)
    return made


def _refuse(out: Path, log: Path | None, *, force: bool) -> None:
    """Raise where a backup must not be written."""
    if not out.parent.is_dir():
        raise InvalidInput("out", str(out), "a path in a folder that is there")
    if log is not None:
        own = log.resolve()
        taken = {own.with_name(own.name + ending) for ending in BESIDE}
        if out.resolve() in taken or (out.exists() and log.exists() and out.samefile(log)):
            raise InvalidInput("out", str(out), "another file than the log and the files that belong to it")
    if out.is_dir():
        raise InvalidInput("out", str(out), "the path of a file, not of a folder")
    if os.path.lexists(out) and not force:
        raise InvalidInput("out", str(out), "a path where no file is yet, or --force to replace the file")
    for ending in JOURNALS:
        beside = out.with_name(out.name + ending)
        if beside.exists():
            # SQLite would replay it into the backup.
            raise InvalidInput("out", str(out), f"a path without {beside.name} beside it, which belongs to another log")


@contextmanager
def _open_file(log: Path) -> Iterator[Callable[[Path], None]]:
    """Open the log of a file for reading only; gives what copies it."""
    if not log.is_file():
        raise InvalidInput("log", str(log), "a log that is there")
    alone = not log.with_name(f"{log.name}-wal").exists()
    try:
        with closing(_opened(log)) as source:

            def copy(part: Path) -> None:
                shutil.copymode(log, part)  # who may read the log may read the backup
                _copy_pages(source, part)

            yield copy
    finally:
        if alone:
            _tidy(log)


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode={mode}", uri=True, isolation_level=None)


def _opened(log: Path) -> sqlite3.Connection:
    """A connection that only reads; raises where this is no log, or one of a newer version."""
    with contextlib.ExitStack() as stack:
        try:
            source = stack.enter_context(closing(_connect(log, "ro")))
            (version,) = source.execute("PRAGMA user_version").fetchone()
            tables = source.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        except sqlite3.Error as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_NOTADB:
                raise InvalidInput("log", str(log), "a log that rankloop wrote") from None
            raise StoreUnavailable(f"the log {log.name} cannot be read now ({error}).") from None
        if version < 1 or not {("log",), ("snapshot",)} <= set(tables):
            raise InvalidInput("log", str(log), "a log that rankloop wrote")
        if version > len(MIGRATIONS):
            raise StoreUnavailable(f"{log} was written by a newer rankloop (layout {version}); update to back it up.")
        stack.pop_all()
        return source


def _tidy(log: Path) -> None:
    """Remove the empty write-ahead log that reading has made: SQLite does, where nobody else has the log open."""
    with contextlib.suppress(sqlite3.Error), closing(_connect(log, "rw")) as connection:
        connection.execute("PRAGMA user_version").fetchone()


def _copy_pages(source: sqlite3.Connection, part: Path) -> None:
    """Copy the database as it is now; a transaction keeps this moment, so that the copy never begins anew."""
    with closing(_connect(part, "rw")) as target:
        # Of a copy that fails nothing is kept, and one that does not is brought to the disk at its end.
        target.execute("PRAGMA journal_mode = OFF")
        target.execute("PRAGMA synchronous = OFF")
        source.execute("BEGIN")
        try:
            source.execute("SELECT 1 FROM log LIMIT 1").fetchone()
            source.backup(target, pages=STEP_PAGES, progress=_copied)
        finally:
            source.execute("ROLLBACK")


def _copied(status: int, remaining: int, total: int) -> None:
    """A part of the pages is copied: Python hears interrupts here."""


def _create_beside(out: Path) -> Path:
    """An empty file in the same folder that nobody else uses."""
    descriptor, name = tempfile.mkstemp(prefix=f"{out.name}.", suffix=".part", dir=out.parent)
    os.close(descriptor)
    return Path(name)


def _finish(part: Path) -> Backup:
    """Make it one file without a write-ahead log, check it, and bring it to the disk."""
    with closing(_connect(part, "rw")) as connection:
        connection.execute("PRAGMA journal_mode = DELETE").fetchone()
        ((found,), *_) = connection.execute("PRAGMA quick_check(1)").fetchall()
        if found != "ok":
            raise StoreUnavailable(f"the copy is damaged ({' '.join(str(found).split())}); the log may be damaged too.")
        entries, position = connection.execute("SELECT count(*), coalesce(max(position), 0) FROM log").fetchone()
    with part.open("rb+") as file:
        os.fsync(file.fileno())
    return Backup(entries, position, part.stat().st_size)


def _sync_folder(folder: Path) -> None:
    """Bring the new name to the disk, where folders can be opened."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def _told(out: Path) -> Iterator[None]:
    """Say in one sentence why there is no backup."""
    try:
        yield
    except OSError as error:
        raise _unwritten(out, error.strerror) from None
    except sqlite3.Error as error:
        raise _unwritten(out, error) from None


def _unwritten(out: Path, reason: object) -> StoreUnavailable:
    return StoreUnavailable(f"the backup {out} cannot be written now ({reason}).")
