"""A model of a durable log, and the connections through which simulated processes use it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rankloop.eventlog import LogEntry, MemoryStore, StoreUnavailable
from rankloop.eventlog.store import ClaimLost, LogMoved, Snapshot

Batch = Sequence[tuple[str, LogEntry]]
OUTAGE_APPENDS = 3
"""Appends that fail after a connection was lost, before the server can be reached again."""


class Crashed(BaseException):
    """The process ends at this point; nothing of it goes on."""


class ModelLog(MemoryStore):
    """What is on disk: it outlives processes. One connection at most has the claim to write, unless claims fail."""

    def __init__(self, *, claims_work: bool = True) -> None:
        super().__init__()
        self.claims_work = claims_work  # False: as if the lock file had been deleted
        self.holder: ModelStore | None = None
        self.epoch = 0  # number of claims so far
        self.was_cut = False  # entries of an append that was reported as failed were deleted

    def all(self) -> list[tuple[str, LogEntry]]:
        """Return the entries of all rankers, in order."""
        return list(self._entries)

    def end(self) -> tuple[str, LogEntry] | tuple[()]:
        """Return the last entry and its ranker."""
        return self._entries[-1] if self._entries else ()

    def cut(self, position: int) -> None:
        """Delete everything after a position."""
        self.was_cut = True
        for ranker, entry in self._entries[position:]:
            if self._keys.get((ranker, entry.kind, entry.key)) == entry.position:
                del self._keys[ranker, entry.kind, entry.key]
        del self._entries[position:]

    def damage(self, ranker: str, share: float) -> None:
        """Tear the snapshot of a ranker: only a share of its bytes reached the disk, the rest is zero."""
        snapshot = self.load_snapshot(ranker)
        if snapshot is not None:
            kept = int(share * len(snapshot.body))
            body = snapshot.body[:kept] + bytes(len(snapshot.body) - kept)
            self.save_snapshot(ranker, Snapshot(snapshot.position, body))


class ModelStore:
    """One process's connection to the log. It fails as the stores do: a failed append has stored nothing, or what it
    may have stored is deleted before the connection is used again.

    `fault` is the fate of the next append: `refused` before it is stored, `in doubt` after it was stored, or a crash of
    the process before or after it is stored.
    """

    def __init__(self, log: ModelLog) -> None:
        self._log, self.fault, self.unconfirmed = log, "", list[LogEntry]()
        self._end: tuple[str, LogEntry] | tuple[()] | None = None  # the last entry that this process knows
        self._connected, self._claimed, self._unreachable = True, False, 0
        self._epoch, self._was_served_by_another = 0, False
        self._claim()

    def _claim(self) -> None:
        if self._log.claims_work and self._log.holder not in (None, self):
            error = ClaimLost if self._claimed else StoreUnavailable
            raise error("the log is being served by another process.")
        self._log.epoch += 1
        self._was_served_by_another |= self._claimed and self._log.epoch != self._epoch + 1
        self._log.holder, self._claimed, self._connected, self._epoch = self, True, True, self._log.epoch

    def heal(self) -> None:
        """Let the next append succeed."""
        self.fault, self._unreachable = "", 0

    def disconnect(self) -> None:
        """Lose the connection, and the claim with it; the next append connects again."""
        self._connected = False
        if self._log.holder is self:
            self._log.holder = None

    def append(self, batch: Batch, after: int | None = None) -> list[int | None]:
        """Append, unless something fails."""
        if self._unreachable:
            self._unreachable -= 1
            raise StoreUnavailable("the server cannot be reached.")
        if not self._connected:
            self._claim()
        self._resolve()
        if after is not None and self._end is not None and self._end != self._log.end():
            raise LogMoved.of("the model", after, self._log.last_position())
        fault = ""
        if batch:  # a check that the log can be written fails no further
            fault, self.fault = self.fault, ""
        if fault == "refused":
            raise StoreUnavailable("the disk is full.")
        if fault == "crash before":
            raise Crashed
        positions = self._log.append(batch, after)
        if fault == "crash after":
            raise Crashed
        if fault == "in doubt":
            stored = {position for position in positions if position is not None}
            self.unconfirmed = [entry for _, entry in self._log.all() if entry.position in stored]
            self.disconnect()
            self._unreachable = OUTAGE_APPENDS
            raise StoreUnavailable("the connection was lost before the commit was answered.")
        self._end = self._log.end() if batch else self._end
        return positions

    def _resolve(self) -> None:
        """Delete the entries of an append that was reported as failed, as `PostgresStore` does: under the claim."""
        if not self.unconfirmed:
            return
        if self._unreachable:
            raise StoreUnavailable("the server cannot be reached.")
        if not self._connected:
            self._claim()
        first, end = self.unconfirmed[0].position, self.unconfirmed[-1].position
        if self._log.last_position() != end or self._was_served_by_another:
            raise LogMoved.of("the model", first - 1, self._log.last_position())
        self._log.cut(first - 1)
        self.unconfirmed = []

    @property
    def problem(self) -> str | None:
        """Nothing that is known before an append."""
        return None

    def count(self, ranker: str, after: int = 0) -> int:
        """Return the number of entries of a ranker."""
        return self._log.count(ranker, after)

    def last_position(self) -> int:
        """Return the last position, and demand that later appends find the same entry there."""
        self._end = self._log.end()
        return self._log.last_position()

    def read(self, ranker: str, after: int = 0) -> Iterator[LogEntry]:
        """Return the entries of a ranker."""
        self._resolve()
        return self._log.read(ranker, after)

    def find(self, ranker: str, kind: str, key: str) -> LogEntry | None:
        """Return the entry of a key."""
        self._resolve()
        return self._log.find(ranker, kind, key)

    def find_all(self, ranker: str, kind: str, keys: Sequence[str]) -> list[LogEntry]:
        """Return the entries of several keys."""
        self._resolve()
        return self._log.find_all(ranker, kind, keys)

    def about(self, ranker: str, subject: str) -> list[LogEntry]:
        """Return the entries of a decision."""
        return self._log.about(ranker, subject)

    def rankers(self) -> list[str]:
        """Return the names of all rankers."""
        return self._log.rankers()

    def of_kind(self, ranker: str, kind: str) -> list[LogEntry]:
        """Return the entries of a kind."""
        return self._log.of_kind(ranker, kind)

    def save_snapshot(self, ranker: str, snapshot: Snapshot) -> None:
        """Replace the snapshot."""
        self._log.save_snapshot(ranker, snapshot)

    def load_snapshot(self, ranker: str) -> Snapshot | None:
        """Return the snapshot."""
        return self._log.load_snapshot(ranker)

    def close(self) -> None:
        """Release the claim."""
        self.disconnect()
