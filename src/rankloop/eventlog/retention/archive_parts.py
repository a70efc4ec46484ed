"""The parts of an archive: Parquet files of entries as they are stored, each with the positions that it covers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from rankloop.errors import InvalidInput
from rankloop.eventlog.export import arrow
from rankloop.eventlog.retention.whole_log import EntryDigest, LoggedEntry
from rankloop.eventlog.store import LogEntry
from rankloop.files import create_private, sync_file, sync_folder

ENTRIES = "entries"
"""Folder of the parts with the entries."""
FORMAT = 1
"""Version of the parts that this version writes."""
METADATA = b"rankloop.archive"
"""Key of the description of a part in the metadata of its file."""
TYPES = {
    "position": "int64",
    "ranker": "string",
    "kind": "string",
    "key": "string",
    "subject": "string",
    "time": "float64",
    "body": "binary",
}
"""Columns of an entry, and their types."""
ROW_GROUP_ENTRIES = 20_000
"""Entries in memory at a time."""
NOT_AN_ARCHIVE = "a folder that `rankloop log archive` wrote, complete and undamaged"


class PartDescription(msgspec.Struct, frozen=True):
    """What a part covers: all entries of a log from one position to another, as they were when it was written."""

    format: int
    log: str  # digest of the first entry of the log
    day: str  # in UTC, of its entries
    first: int
    last: int
    entries: int
    digest: str


@dataclass(frozen=True, slots=True)
class ArchivePart:
    """A complete part of an archive."""

    path: Path
    about: PartDescription

    def read(self) -> Iterator[LoggedEntry]:
        """Yield the entries in order; raise at the end if they are not those that were written."""
        _, pq = arrow()
        digest = EntryDigest()
        try:
            with pq.ParquetFile(self.path) as file:
                for batch in file.iter_batches(batch_size=ROW_GROUP_ENTRIES):
                    columns = (batch.column(name).to_pylist() for name in TYPES)
                    for position, ranker, kind, key, subject, time, body in zip(*columns, strict=True):
                        entry = LogEntry(kind, key, subject, time, body, position)
                        digest.add(ranker, entry)
                        yield ranker, entry
        except (OSError, LookupError, ValueError):  # errors of Arrow are ValueErrors or OSErrors
            raise _damaged(self.path) from None
        if (digest.hex, digest.entries) != (self.about.digest, self.about.entries):
            raise _damaged(self.path)


class PartWriter:
    """Writes one part; it appears under its name once it is complete and flushed to disk.

    Args:
        folder: of the archive.
        log: digest of the log's first entry.
        day: of the entries.
        first: position of the first entry that the part covers.
    """

    def __init__(self, folder: Path, log: str, day: str, first: int) -> None:
        self._pa, pq = arrow()
        self.day, self._log, self._first = day, log, first
        self.path = folder / ENTRIES / part_name(day, first)
        self._temporary = temporary_of(self.path)
        create_private(self._temporary)
        self._schema = self._pa.schema([(name, getattr(self._pa, type)()) for name, type in TYPES.items()])
        self._writer: Any = pq.ParquetWriter(self._temporary, self._schema, compression="zstd")
        self._digest, self._rows = EntryDigest(), list[tuple[object, ...]]()

    def add(self, ranker: str, entry: LogEntry) -> None:
        """Add an entry."""
        self._digest.add(ranker, entry)
        self._rows.append((entry.position, ranker, entry.kind, entry.key, entry.subject, entry.time, entry.body))
        if len(self._rows) == ROW_GROUP_ENTRIES:
            self._write_rows()

    def _write_rows(self) -> None:
        if self._rows:
            columns: Sequence[Sequence[object]] = list(zip(*self._rows, strict=True))
            arrays = [self._pa.array(column, field.type) for column, field in zip(columns, self._schema, strict=True)]
            self._writer.write_table(self._pa.Table.from_arrays(arrays, schema=self._schema))
            self._rows.clear()

    def finish(self, last: int) -> ArchivePart:
        """Complete the part, which covers everything up to a position."""
        self._write_rows()
        about = PartDescription(FORMAT, self._log, self.day, self._first, last, self._digest.entries, self._digest.hex)
        self._writer.add_key_value_metadata({METADATA: msgspec.json.encode(about)})
        self._writer.close()
        publish(self._temporary, self.path)
        return ArchivePart(self.path, about)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.close()
        self._temporary.unlink(missing_ok=True)


def part_name(day: str, first: int) -> str:
    """Return the name of a part's file; names in their order are parts in order."""
    return f"{day}-{first:015d}.parquet"


def temporary_of(path: Path) -> Path:
    """Return the name of a file while it is written; an interrupted run leaves it, and the next one replaces it."""
    return path.with_name(f".{path.name}.part")


def publish(temporary: Path, path: Path) -> None:
    """Flush a file to disk and give it its name."""
    sync_file(temporary)
    temporary.replace(path)
    sync_folder(path.parent)


def archive_parts(folder: Path) -> list[ArchivePart]:
    """Return the parts of an archive in order; refuse one that has gaps, or is of a newer version."""
    parts = [_part(path) for path in sorted((folder / ENTRIES).glob("[!.]*.parquet"))]
    for before, after in pairwise(parts):
        if after.about.first != before.about.last + 1 or after.about.log != before.about.log:
            accepted = f"{NOT_AN_ARCHIVE}: {after.path.name} does not follow {before.path.name}"
            raise InvalidInput("archive", str(folder), accepted)
    return parts


def _part(path: Path) -> ArchivePart:
    _, pq = arrow()
    try:
        with pq.ParquetFile(path) as file:
            stored = json.loads(file.metadata.metadata[METADATA])
        about = msgspec.convert(stored, PartDescription)
    except (OSError, LookupError, TypeError, ValueError):
        raise _damaged(path) from None
    if about.format > FORMAT:
        raise InvalidInput("archive", str(path), f"format {FORMAT} or older; update rankloop to read it")
    return ArchivePart(path, about)


def _damaged(path: Path) -> InvalidInput:
    return InvalidInput("archive", str(path), f"a part of {NOT_AN_ARCHIVE}")
