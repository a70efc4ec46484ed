"""The entries of all rankers of a log in one order, and a digest that says whether two logs are equal."""

from __future__ import annotations

import heapq
import struct
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import takewhile

from rankloop.eventlog.store import LogEntry, Store

LoggedEntry = tuple[str, LogEntry]
"""An entry with the name of its ranker's log; the registry of rankers has the empty name."""
LENGTHS = struct.Struct("<qdIIIII")


def all_entries(store: Store, after: int = 0, until: int | None = None) -> Iterator[LoggedEntry]:
    """Yield the entries of all rankers in the order of their positions; those that are added meanwhile are left out.

    Args:
        store: the log, which may be in use.
        after: position before the first entry.
        until: position of the last entry; by default that of the log as it is now.
    """
    end = store.last_position()  # read first: every entry up to it is visible to all reads that follow
    end = end if until is None else min(until, end)
    logs = [_entries_of(store, ranker, after) for ranker in store.rankers()]
    return takewhile(lambda one: one[1].position <= end, heapq.merge(*logs, key=lambda one: one[1].position))


def _entries_of(store: Store, ranker: str, after: int) -> Iterator[LoggedEntry]:
    return ((ranker, entry) for entry in store.read(ranker, after))


class EntryDigest:
    """A digest of entries in their order: equal digests mean equal entries."""

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=16)
        self.entries = 0

    def add(self, ranker: str, entry: LogEntry) -> None:
        """Add an entry."""
        texts = [text.encode(errors="surrogatepass") for text in (ranker, entry.kind, entry.key, entry.subject)]
        sizes = (*map(len, texts), len(entry.body))
        self._hash.update(LENGTHS.pack(entry.position, entry.time, *sizes))
        for part in (*texts, entry.body):
            self._hash.update(part)
        self.entries += 1

    def passed_on(self, entries: Iterable[LoggedEntry]) -> Iterator[LoggedEntry]:
        """Yield the entries, and add each of them."""
        for ranker, entry in entries:
            self.add(ranker, entry)
            yield ranker, entry

    def of(self, entries: Iterable[LoggedEntry]) -> str:
        """Add all entries and return the digest."""
        for ranker, entry in entries:
            self.add(ranker, entry)
        return self.hex

    @property
    def hex(self) -> str:
        """The digest of what was added so far."""
        return self._hash.hexdigest()
