"""A log that lives as long as the process: for tests and trials."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rankloop.eventlog.store import LogEntry, Snapshot


class MemoryStore:
    """Lists and dictionaries behind the interface of a store."""

    def __init__(self) -> None:
        self._entries: list[tuple[str, LogEntry]] = []
        self._keys: dict[tuple[str, str, str], int] = {}
        self._snapshots: dict[str, Snapshot] = {}

    def append(self, batch: Sequence[tuple[str, LogEntry]]) -> list[int | None]:
        """Keep entries in order."""
        positions: list[int | None] = []
        for ranker, entry in batch:
            name = (ranker, entry.kind, entry.key)
            if entry.key and name in self._keys:
                positions.append(None)
                continue
            position = len(self._entries) + 1
            self._entries.append((ranker, entry._replace(position=position)))
            self._keys[name] = position
            positions.append(position)
        return positions

    def read(self, ranker: str, after: int = 0) -> Iterator[LogEntry]:
        """Entries after a position."""
        return (entry for own, entry in self._entries[after:] if own == ranker)

    def find(self, ranker: str, kind: str, key: str) -> LogEntry | None:
        """The entry of a key."""
        position = self._keys.get((ranker, kind, key))
        return None if position is None else self._entries[position - 1][1]

    def about(self, ranker: str, subject: str) -> list[LogEntry]:
        """Entries of a decision."""
        return [entry for entry in self.read(ranker) if entry.subject == subject]

    def rankers(self) -> list[str]:
        """The names of all rankers that have entries."""
        return sorted({ranker for ranker, _ in self._entries})

    def of_kind(self, ranker: str, kind: str) -> list[LogEntry]:
        """Entries of a kind that have a key."""
        return [entry for entry in self.read(ranker) if entry.kind == kind and entry.key]

    def save_snapshot(self, ranker: str, snapshot: Snapshot) -> None:
        """Keep the newest."""
        self._snapshots[ranker] = snapshot

    def load_snapshot(self, ranker: str) -> Snapshot | None:
        """The newest."""
        return self._snapshots.get(ranker)

    def close(self) -> None:
        """Nothing is open."""
