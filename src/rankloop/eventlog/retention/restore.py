"""Restore a backup into a log: all of it, verified afterwards, or nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from rankloop.errors import InvalidInput, Words
from rankloop.eventlog.address import is_database, open_store
from rankloop.eventlog.backup import JOURNAL_SUFFIXES, connect_read_only
from rankloop.eventlog.erasure.rewriting import SqlStore
from rankloop.eventlog.events import HistoryPruned
from rankloop.eventlog.format_history import RENAMED_KINDS
from rankloop.eventlog.retention.whole_log import EntryDigest, LoggedEntry, all_entries
from rankloop.eventlog.store import LogEntry, Snapshot, StoreUnavailable

ENTRIES = "SELECT ranker, kind, key, subject, time, body, position FROM log ORDER BY position"
SNAPSHOTS = "SELECT ranker, position, body FROM snapshot ORDER BY ranker"
SIZE = "SELECT count(*), coalesce(max(position), 0) FROM log"
PRUNED = "SELECT count(*) FROM log WHERE kind = ?"
WRITTEN_BY_BACKUP = "a file that `rankloop log backup` wrote"


@dataclass(frozen=True, slots=True)
class RestoredLog:
    """The size of a log that was restored."""

    entries: int
    position: int  # of the last entry
    snapshots: int


def restore(backup: str | Path, address: str, *, force: bool = False) -> RestoredLog:
    """Write the entries and snapshots of a backup into a log, in one transaction, and compare both afterwards.

    Args:
        backup: a file that `back_up` wrote; it is checked before anything is written.
        address: the path of a SQLite file, or the URL of a database; no service may be using it.
        force: replace what the log contains.
    """
    path = Path(backup)
    if not is_database(address) and path.exists() and Path(address).exists() and path.samefile(address):
        raise InvalidInput("log", address, "another file than the backup")
    with _opened(path) as source, closing(open_store(address, exclusive=True)) as store:
        position = require_empty(store, "a log without entries, or --force to replace them", force=force)
        written = EntryDigest()
        with store.rewriting() as rewriting:
            rewriting.clear()
            rewriting.insert(written.passed_on(_entries(source)))
            snapshots = source.execute(SNAPSHOTS).fetchall()
            for name, at, body in snapshots:
                rewriting.put_snapshot(name, Snapshot(at, body))
        require_equal(store, written, snapshots)
        if position:
            store.purge()
        return RestoredLog(written.entries, store.last_position(), len(snapshots))


def require_empty(store: SqlStore, accepted: str = "a log without entries", *, force: bool = False) -> int:
    """Return the position of the last entry; refuse a log that has one, unless it is to be replaced."""
    position = store.last_position()
    if position and not force:
        raise InvalidInput("log", Words(f"{position:,} entries long"), accepted)
    return position


def require_equal(store: SqlStore, written: EntryDigest, snapshots: list[tuple[str, int, bytes]]) -> None:
    """Read a log that was written, and refuse it where it differs from what was written."""
    equal = EntryDigest().of(all_entries(store)) == written.hex
    for name, position, body in snapshots:
        equal = equal and store.load_snapshot(name) == Snapshot(position, body)
    if not equal:
        raise StoreUnavailable("the log that was written differs from its source; write it again, on another disk.")


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a backup for reading; refuse a file that is damaged or incomplete."""
    if not path.is_file():
        raise InvalidInput("backup", str(path), WRITTEN_BY_BACKUP)
    if _is_in_use(path):
        raise InvalidInput("backup", str(path), f"{WRITTEN_BY_BACKUP}; a log that may be in use is no backup")
    if _is_torn(path):
        raise InvalidInput("backup", str(path), f"{WRITTEN_BY_BACKUP}, complete: its end is missing")
    with closing(connect_read_only(path, "backup")) as source:
        try:
            ((result,), *_) = source.execute("PRAGMA integrity_check(1)").fetchall()
            entries, last = source.execute(SIZE).fetchone()
            (pruned,) = source.execute(PRUNED, (HistoryPruned.kind,)).fetchone()
        except sqlite3.Error as error:
            result, entries, last, pruned = error, 0, 0, 0
        if result != "ok":
            reason = " ".join(str(result).split())
            raise InvalidInput("backup", str(path), f"{WRITTEN_BY_BACKUP}, undamaged ({reason})")
        if entries != last and not pruned:
            accepted = f"{WRITTEN_BY_BACKUP}, complete: {last - entries:,} of {last:,} entries are missing"
            raise InvalidInput("backup", str(path), accepted)
        yield source


def _is_in_use(path: Path) -> bool:
    """Return whether a file has a write-ahead log or a journal, so that it is not complete by itself."""
    journals = (path.with_name(path.name + suffix) for suffix in JOURNAL_SUFFIXES)
    return any(journal.exists() and journal.stat().st_size for journal in journals)


def _is_torn(path: Path) -> bool:
    """Return whether a file is shorter than its header says; SQLite takes what is missing for zeros."""
    with path.open("rb") as file:
        header = file.read(32)
    page, pages = int.from_bytes(header[16:18]), int.from_bytes(header[28:32])
    return path.stat().st_size < (65536 if page == 1 else page) * pages


def _entries(source: sqlite3.Connection) -> Iterator[LoggedEntry]:
    """Yield the entries of a backup in order, with the current kinds."""
    for ranker, kind, *rest in source.execute(ENTRIES):
        yield ranker, LogEntry(RENAMED_KINDS.get(kind, kind) if ranker else kind, *rest)
