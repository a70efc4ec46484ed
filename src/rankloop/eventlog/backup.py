"""Back up a log into one file while it is in use: a prefix of the log without gaps, or nothing at all."""

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
from rankloop.files import sync_folder

STEP_PAGES = 1000
"""Pages that are copied, some 4 MB, before an interrupt is handled."""
JOURNAL_SUFFIXES = ("-wal", "-journal")
"""SQLite replays a file with such a suffix into the database of the same name."""
LOG_SUFFIXES = ("", "-shm", ".lock", ".reserve", *JOURNAL_SUFFIXES)
"""Suffixes of the files that belong to a log."""


@dataclass(frozen=True, slots=True)
class Backup:
    """The size of a backup."""

    entries: int
    position: int  # of the last entry; 0 for an empty log
    bytes: int


def back_up(address: str | Path, out: str | Path, *, force: bool = False) -> Backup:
    """Copy a log and its snapshots into a SQLite file, as of one moment; the log may be in use.

    Args:
        address: the path of a SQLite file, or the URL of a database.
        out: the file to write; it appears once it is complete, checked and flushed to disk.
        force: replace an existing file.
    """
    path = Path(out)
    log = None if is_database(address) else Path(address)
    _check_out(path, log, force=force)
    with open_database(str(address)) if log is None else _open_file(log) as copy, _explained(path):
        part = _create_temporary(path)
        try:
            copy(part)
            backup = _finish(part)
            _check_out(path, log, force=force)  # once more: another process may have written this file meanwhile
            part.replace(path)
            sync_folder(path.parent)
        finally:
            for suffix in LOG_SUFFIXES:
                part.with_name(part.name + suffix).unlink(missing_ok=True)
    return backup


def _check_out(out: Path, log: Path | None, *, force: bool) -> None:
    """Refuse a path where a backup must not be written."""
    if not out.parent.is_dir():
        raise InvalidInput("out", str(out), "a path in an existing folder")
    if log is not None:
        resolved = log.resolve()
        log_files = {resolved.with_name(resolved.name + suffix) for suffix in LOG_SUFFIXES}
        if out.resolve() in log_files or (out.exists() and log.exists() and out.samefile(log)):
            raise InvalidInput("out", str(out), "a file other than the log and the files that belong to it")
    if out.is_dir():
        raise InvalidInput("out", str(out), "the path of a file, not of a folder")
    if os.path.lexists(out) and not force:
        raise InvalidInput("out", str(out), "a path without a file, or --force to replace the file")
    for suffix in JOURNAL_SUFFIXES:
        journal = out.with_name(out.name + suffix)
        if journal.exists():
            # SQLite would replay it into the backup.
            accepted = f"a path without {journal.name} next to it, which belongs to another log"
            raise InvalidInput("out", str(out), accepted)


@contextmanager
def _open_file(log: Path) -> Iterator[Callable[[Path], None]]:
    """Open a log file for reading; give a function that copies it."""
    if not log.is_file():
        raise InvalidInput("log", str(log), "an existing log")
    unused = not log.with_name(f"{log.name}-wal").exists()
    try:
        with closing(connect_read_only(log)) as source:

            def copy(part: Path) -> None:
                shutil.copymode(log, part)  # the users that can read the log can read the backup
                _copy_pages(source, part)

            yield copy
    finally:
        if unused:
            _remove_empty_wal(log)


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode={mode}", uri=True, isolation_level=None)


def connect_read_only(log: Path, field: str = "log") -> sqlite3.Connection:
    """Return a read-only connection; refuse a file that is no log, and a log of a newer version.

    Args:
        log: the file.
        field: what the caller calls it.
    """
    with contextlib.ExitStack() as stack:
        try:
            source = stack.enter_context(closing(_connect(log, "ro")))
            (version,) = source.execute("PRAGMA user_version").fetchone()
            tables = source.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        except sqlite3.Error as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_NOTADB:
                raise InvalidInput(field, str(log), "a log that rankloop wrote") from None
            raise StoreUnavailable(f"the {field} {log.name} cannot be read now ({error}).") from None
        if version < 1 or not {("log",), ("snapshot",)} <= set(tables):
            raise InvalidInput(field, str(log), "a log that rankloop wrote")
        if version > len(MIGRATIONS):
            raise StoreUnavailable(f"{log} was written by a newer rankloop (layout {version}); update to read it.")
        stack.pop_all()
        return source


def _remove_empty_wal(log: Path) -> None:
    """Remove the empty write-ahead log that reading created: SQLite does so when the last connection closes."""
    with contextlib.suppress(sqlite3.Error), closing(_connect(log, "rw")) as connection:
        connection.execute("PRAGMA user_version").fetchone()


def _copy_pages(source: sqlite3.Connection, part: Path) -> None:
    """Copy the database as of now, in a read transaction: without it, every write would restart the copy."""
    with closing(_connect(part, "rw")) as target:
        # A copy that fails is deleted, and a complete one is flushed once at its end: no journal is needed.
        target.execute("PRAGMA journal_mode = OFF")
        target.execute("PRAGMA synchronous = OFF")
        source.execute("BEGIN")
        try:
            source.execute("SELECT 1 FROM log LIMIT 1").fetchone()
            source.backup(target, pages=STEP_PAGES, progress=_handle_interrupts)
        finally:
            source.execute("ROLLBACK")


def _handle_interrupts(status: int, remaining: int, total: int) -> None:
    """Do nothing: Python handles signals when SQLite calls it between two steps."""


def _create_temporary(out: Path) -> Path:
    """Create an empty file with a unique name in the same folder."""
    descriptor, name = tempfile.mkstemp(prefix=f"{out.name}.", suffix=".part", dir=out.parent)
    os.close(descriptor)
    return Path(name)


def _finish(part: Path) -> Backup:
    """Turn off the write-ahead log, check the file, and flush it to disk."""
    with closing(_connect(part, "rw")) as connection:
        connection.execute("PRAGMA journal_mode = DELETE").fetchone()
        ((result,), *_) = connection.execute("PRAGMA quick_check(1)").fetchall()
        if result != "ok":
            raise StoreUnavailable(
                f"the copy is damaged ({' '.join(str(result).split())}); the log may be damaged too."
            )
        entries, position = connection.execute("SELECT count(*), coalesce(max(position), 0) FROM log").fetchone()
    with part.open("rb+") as file:
        os.fsync(file.fileno())
    return Backup(entries, position, part.stat().st_size)


@contextmanager
def _explained(out: Path) -> Iterator[None]:
    """Turn an error of the file system or of SQLite into one sentence."""
    try:
        yield
    except OSError as error:
        raise _cannot_write(out, error.strerror) from None
    except sqlite3.Error as error:
        raise _cannot_write(out, error) from None


def _cannot_write(out: Path, reason: object) -> StoreUnavailable:
    return StoreUnavailable(f"the backup {out} cannot be written now ({reason}).")
