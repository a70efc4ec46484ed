"""A log in memory, for tests and experiments: it ends with the process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rankloop.eventlog.store import LogEntry, Snapshot


class MemoryStore:
    """A store of lists and dictionaries."""

    def __init__(self) -> None:
        self._entries: list[tuple[str, LogEntry]] = []
        self._keys: dict[tuple[str, str, str], int] = {}
        self._snapshots: dict[str, Snapshot] = {}

    def append(self, batch: Sequence[tuple[str, LogEntry]]) -> list[int | None]:
        """Append entries in order."""
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

    def read(self, ranker: str, after: int = 0) -> Iterator[LogEntry]:
        """Return the entries of a ranker after a position."""
        return (entry for name, entry in self._entries[after:] if name == ranker)

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

    def close(self) -> None:
        """Do nothing: no file is open."""
