"""Several writers of one PostgreSQL log in one test, each with a ranker of its own, as several processes have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rankloop.arrays import Array
from rankloop.eventlog.shared.postgres import SharedPostgresStore
from rankloop.eventlog.shared.writer import SharedWriter
from rankloop.serving import Ranker, RankerConfig
from rankloop.serving.replica import Replica
from rankloop.serving.snapshots import packed, take, unpacked

State = tuple[Mapping[str, object], Mapping[str, bytes]]


class Member:
    """One process among several: a store, a writer and a ranker."""

    def __init__(self, database: str, settings: Mapping[str, Any], watch: Any = None, name: str = "ranker") -> None:
        self.store = SharedPostgresStore(database)
        self.writer = SharedWriter(self.store, watch)
        try:
            self.ranker = Ranker(RankerConfig.of(settings), name=name, writer=self.writer)
        except BaseException:
            self.close()
            raise

    def state(self, position: int | None = None) -> tuple[int, State]:
        """Return the position and the whole state, once everything up to a position is applied."""
        if position is not None:
            self.writer.reached(position, 30.0).result()
        with self.ranker._lock:
            return self.ranker.position, state_of(self.ranker._replica)

    def close(self) -> None:
        """End without a snapshot."""
        self.writer.close()
        self.store.close()


def state_of(replica: Replica) -> State:
    """Return everything that a snapshot has, byte for byte."""
    header, arrays = unpacked(packed(take(replica)))
    return dict(header), {name: _bytes(array) for name, array in arrays.items()}


def _bytes(array: Array) -> bytes:
    return f"{array.dtype.str}{array.shape}".encode() + array.tobytes()


def members(database: str, settings: Mapping[str, Any], n: int = 3) -> list[Member]:
    """Return several processes on one log."""
    return [Member(database, settings) for _ in range(n)]
