"""Bring an archive back: a new log with every entry at its position."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rankloop.errors import InvalidInput
from rankloop.eventlog.erasure.rewriting import SqlStore
from rankloop.eventlog.retention.archive_parts import NOT_AN_ARCHIVE, ArchivePart, archive_parts
from rankloop.eventlog.retention.restore import require_empty, require_equal
from rankloop.eventlog.retention.whole_log import EntryDigest, LoggedEntry


def import_archive(folder: Path, store: SqlStore) -> int:
    """Write all entries of an archive into an empty log, in one transaction; return their number."""
    parts = existing_parts(folder)
    require_empty(store)
    written = EntryDigest()
    with store.rewriting() as rewriting:
        rewriting.clear()
        rewriting.insert(written.passed_on(_without_gaps(folder, parts)))
    require_equal(store, written, [])
    return written.entries


def existing_parts(folder: Path) -> list[ArchivePart]:
    """Return the parts of an archive; refuse a folder without any."""
    parts = archive_parts(folder)
    if not parts:
        raise InvalidInput("archive", str(folder), NOT_AN_ARCHIVE)
    return parts


def _without_gaps(folder: Path, parts: list[ArchivePart]) -> Iterator[LoggedEntry]:
    """Yield all entries; refuse an archive that began after entries had been removed from the log."""
    expected = 1
    for part in parts:
        for ranker, entry in part.read():
            if entry.position != expected:
                accepted = f"the whole log; the entries from {expected} to {entry.position - 1} are missing"
                raise InvalidInput("archive", str(folder), accepted)
            expected += 1
            yield ranker, entry
