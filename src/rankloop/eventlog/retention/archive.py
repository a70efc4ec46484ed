"""Archive a log: Parquet parts by day, of all entries as they are stored, and of the decisions with their outcomes.

`entries/DAY-POSITION.parquet` has every entry of the log, of all rankers: nothing is lost, and `import_archive` makes
the same log of them. `decisions/ranker=NAME/DAY-POSITION.parquet` has the columns of an exported log for the decisions
whose outcome became final between the same positions, for pandas, DuckDB and the like. A part of the decisions appears
before its part of the entries, so that an interrupted run leaves complete parts, and the next run goes on after them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from rankloop.errors import InvalidInput
from rankloop.eventlog.events import ConfigChanged, decode, decode_as, skipped_positions
from rankloop.eventlog.retention.archive_parts import (
    ENTRIES,
    ArchivePart,
    PartWriter,
    archive_parts,
    part_name,
    publish,
    temporary_of,
)
from rankloop.eventlog.retention.decision_table import DecisionWriter
from rankloop.eventlog.retention.whole_log import EntryDigest, LoggedEntry, all_entries
from rankloop.eventlog.settled_decisions import SettledDecision, SettledDecisions
from rankloop.eventlog.store import LogEntry, Store
from rankloop.files import create_private
from rankloop.schema import RankerSettings

DECISIONS = "decisions"
"""Folder of the parts with the decisions."""


@dataclass(frozen=True, slots=True)
class Archived:
    """What a run has written."""

    parts: list[ArchivePart]  # that this run wrote
    covered: int  # position up to which the archive has everything


def archive(store: Store, folder: Path, before: float, until: int | None = None) -> Archived:
    """Write the entries that an archive does not have yet, up to the first entry at a time; return what was written.

    Args:
        store: the log, which may be in use.
        folder: of the archive, which is created if necessary.
        before: seconds since 1970; entries from this time on are left for a later run.
        until: position of the last entry to write; by default that of the log.
    """
    for name in (ENTRIES, DECISIONS):
        (folder / name).mkdir(parents=True, exist_ok=True, mode=0o700)
    existing = archive_parts(folder)
    log = identity(store)
    require_same_log(existing, log, store.last_position())
    run = _Run(store, folder, log, existing[-1].about.last if existing else 0)
    with run:
        for ranker, entry in _until(before, all_entries(store, until=until), run.covered):
            run.add(ranker, entry)
        run.finish_part()
    return Archived(run.written, run.covered)


def _until(before: float, entries: Iterator[LoggedEntry], covered: int) -> Iterator[LoggedEntry]:
    """Yield the entries that an archive covers already, and those before the first one at a time."""
    for ranker, entry in entries:
        if entry.position > covered and entry.time >= before:
            return
        yield ranker, entry


def identity(store: Store) -> str:
    """Return what distinguishes a log from others: the digest of its first entry, which is never removed."""
    digest = EntryDigest()
    for ranker, entry in all_entries(store):
        digest.add(ranker, entry)
        break
    return digest.hex


def require_same_log(parts: list[ArchivePart], log: str, last: int) -> None:
    """Refuse an archive of another log."""
    if parts and (parts[-1].about.log != log or parts[-1].about.last > last):
        raise InvalidInput("archive", str(parts[-1].path.parent.parent), "a folder for this log, not for another one")


class _Run:
    """One run over the log from its beginning: what the archive covers is only followed, the rest is written."""

    def __init__(self, store: Store, folder: Path, log: str, covered: int) -> None:
        self._store, self._folder, self._log = store, folder, log
        self.covered, self.written = covered, list[ArchivePart]()
        self._rankers: dict[str, _Settling | None] = {}
        self._part: PartWriter | None = None
        self._decisions: dict[str, DecisionWriter] = {}  # of this part, by ranker
        self._last, self._day = covered, ""
        self._open = ExitStack()

    def __enter__(self) -> None:
        self._open.__enter__()

    def __exit__(self, *error: object) -> None:
        self._open.close()

    def add(self, ranker: str, entry: LogEntry) -> None:
        """Follow an entry, and write it if the archive does not cover it."""
        self._day = max(self._day, _day(entry.time))  # a clock that was set back starts no part of its own
        is_new = entry.position > self.covered and entry.position > self._last
        if is_new and (self._part is None or self._part.day != self._day):
            self.finish_part()
            self._start_part()
        if is_new and self._part is not None:
            self._part.add(ranker, entry)
            self._last = entry.position
        for settled in self._settled_by(ranker, entry):
            if is_new:
                self._writer_of(ranker).add(settled)

    def _settled_by(self, ranker: str, entry: LogEntry) -> list[SettledDecision]:
        if not ranker:
            return []  # the registry of rankers
        if ranker not in self._rankers:
            self._rankers[ranker] = _Settling.of_log(self._store, ranker)
        settling = self._rankers[ranker]
        return [] if settling is None else settling.settled_by(entry)

    def _start_part(self) -> None:
        self._part = self._open.enter_context(PartWriter(self._folder, self._log, self._day, self._last + 1))

    def _writer_of(self, ranker: str) -> DecisionWriter:
        if ranker not in self._decisions:
            folder = self._folder / DECISIONS / f"ranker={quote(ranker, safe='')}"
            folder.mkdir(exist_ok=True, mode=0o700)
            assert self._part is not None  # noqa: S101  (for the type checker)
            temporary = temporary_of(folder / self._part.path.name)
            create_private(temporary)
            self._decisions[ranker] = self._open.enter_context(contextlib.closing(DecisionWriter(temporary)))
        return self._decisions[ranker]

    def finish_part(self) -> None:
        """Complete the parts that are being written: the decisions first."""
        if self._part is None:
            return
        for ranker, writer in self._decisions.items():
            writer.close()
            folder = self._folder / DECISIONS / f"ranker={quote(ranker, safe='')}"
            publish(temporary_of(folder / self._part.path.name), folder / self._part.path.name)
        self.written.append(self._part.finish(self._last))
        self.covered, self._part = self._last, None
        self._decisions.clear()


class _Settling(SettledDecisions):
    """Gives the decisions of one ranker that an entry settles."""

    def __init__(self, settings: RankerSettings, skipped: frozenset[int]) -> None:
        super().__init__(settings)
        self._skipped = skipped
        self._due: list[SettledDecision] = []

    @classmethod
    def of_log(cls, store: Store, ranker: str) -> _Settling | None:
        """Return one for the log of a ranker; None if it does not contain its settings, as an imported one."""
        configs = store.of_kind(ranker, ConfigChanged.kind)
        if not configs:
            return None
        settings = RankerSettings.of(decode_as(ConfigChanged, configs[-1]).config)
        return cls(settings, skipped_positions(store, ranker))

    def settled_by(self, entry: LogEntry) -> list[SettledDecision]:
        """Follow an entry and return the decisions that it settled."""
        if entry.position in self._skipped:
            return []
        self.handle(decode(entry))
        due, self._due = self._due, []
        return due

    def _settle(self, id: str, status: str, time: float) -> None:
        settled = self._open[id]
        super()._settle(id, status, time)
        self._due.append(settled)


def _day(time: float) -> str:
    """Return the day of a time in UTC."""
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d")


def decision_parts(folder: Path, part: ArchivePart) -> list[Path]:
    """Return the files with the decisions of a part."""
    return sorted((folder / DECISIONS).glob(f"*/{part_name(part.about.day, part.about.first)}"))
