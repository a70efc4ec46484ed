"""A log in memory, for tests and experiments: it ends with the process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rankloop.eventlog.store import LogEntry, LogMoved, Snapshot


class MemoryStore:
    """A store of lists and dictionaries."""

    problem: str | None = None

    def __init__(self) -> None:
        self._entries: list[tuple[str, LogEntry]] = []
        self._keys: dict[tuple[str, str, str], int] = {}
        self._snapshots: dict[str, Snapshot] = {}

    def append(self, batch: Sequence[tuple[str, LogEntry]], after: int | None = None) -> list[int | None]:
        """Append entries in order."""
        if after is not None and after != len(self._entries):
            raise LogMoved.of("in memory", after, len(self._entries))
        positions: list[int | None] = []
        for ranker, entry in batch:
            key = (ranker, entry.kind, entry.key)
            if entry.key and key in self._keys:
                positions.append(None)
                continue
            position = len(self._entries) + 1
            self._entries.append((ranker, entry._replace(position=position)))
            self._keys[key] = position
            positions.append(position)
        return positions

    def last_position(self) -> int:
        """Return the number of entries."""
        return len(self._entries)

    def read(self, ranker: str, after: int = 0) -> Iterator[LogEntry]:
        """Return the entries of a ranker after a position."""
        return (entry for name, entry in self._entries[after:] if name == ranker)

    def count(self, ranker: str, after: int = 0) -> int:
        """Return the number of entries of a ranker after a position."""
        return sum(1 for _ in self.read(ranker, after))

    def find(self, ranker: str, kind: str, key: str) -> LogEntry | None:
        """Return the entry of a key."""
        position = self._keys.get((ranker, kind, key)) if key else None
        return None if position is None else self._entries[position - 1][1]

    def find_all(self, ranker: str, kind: str, keys: Sequence[str]) -> list[LogEntry]:
        """Return the entries of many keys."""
        return [entry for key in keys if (entry := self.find(ranker, kind, key)) is not None]

    def about(self, ranker: str, subject: str) -> list[LogEntry]:
        """Return the entries of a decision."""
        return [entry for entry in self.read(ranker) if entry.subject == subject]

    def rankers(self) -> list[str]:
        """Return the names of all rankers that have entries, sorted."""
        return sorted({ranker for ranker, _ in self._entries})

    def of_kind(self, ranker: str, kind: str) -> list[LogEntry]:
        """Return the entries of a kind that have a key."""
        return [entry for entry in self.read(ranker) if entry.kind == kind and entry.key]

    def save_snapshot(self, ranker: str, snapshot: Snapshot) -> None:
        """Replace the snapshot of a ranker."""
        self._snapshots[ranker] = snapshot

    def load_snapshot(self, ranker: str) -> Snapshot | None:
        """Return the newest snapshot."""
        return self._snapshots.get(ranker)

    @contextmanager
    def rewriting(self) -> Iterator[MemoryRewriting]:
        """Give the changes of a transaction: they are made in a copy, which is adopted at the end of the block."""
        draft = MemoryStore()
        draft._entries, draft._keys, draft._snapshots = self._entries.copy(), self._keys.copy(), self._snapshots.copy()
        yield MemoryRewriting(draft)
        self._entries, self._keys, self._snapshots = draft._entries, draft._keys, draft._snapshots

    def purge(self) -> None:
        """Do nothing: memory holds no copies of what was replaced."""

    def close(self) -> None:
        """Do nothing: no file is open."""


class MemoryRewriting:
    """The changes of one transaction."""

    def __init__(self, draft: MemoryStore) -> None:
        self._draft = draft

    def replace(self, entry: LogEntry) -> None:
        """Replace the entry at this position."""
        ranker, old = self._draft._entries[entry.position - 1]
        del self._draft._keys[ranker, old.kind, old.key]
        self._draft._keys[ranker, entry.kind, entry.key] = entry.position
        self._draft._entries[entry.position - 1] = ranker, entry

    def append(self, ranker: str, entry: LogEntry) -> None:
        """Append the entry."""
        self._draft.append([(ranker, entry)])

    def snapshots(self) -> list[str]:
        """Return the names of all snapshots."""
        return sorted(self._draft._snapshots)

    def delete_snapshot(self, name: str) -> None:
        """Delete the snapshot."""
        del self._draft._snapshots[name]

    def put_snapshot(self, name: str, snapshot: Snapshot) -> None:
        """Store the snapshot."""
        self._draft._snapshots[name] = snapshot
