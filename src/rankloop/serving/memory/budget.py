"""A budget of memory: what states may take together, reserved before it is allocated."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from rankloop.errors import InvalidInput, Words
from rankloop.serving.memory.machine import machine_memory

DEFAULT_SHARE = 0.5
"""Share of the machine's memory that the rankers of a service may take unless `limits.memory` is set."""
UNITS = ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB"))


class StateTooLarge(InvalidInput):
    """A state would not fit into the memory that is left for it; nothing was allocated or changed."""

    position = 0  # of the log event that makes it too large; 0 where the configuration alone does


@dataclass(frozen=True, slots=True)
class StateSize:
    """Bytes that the state of a ranker takes."""

    arrays: int  # exactly
    objects: int  # at most: ids, priors, and what is kept for each segment
    temporary: int  # at most, for a moment: the copies of a snapshot, and the rows of a decision

    @property
    def state(self) -> int:
        """Bytes that are in use all the time."""
        return self.arrays + self.objects


class MemoryBudget:
    """The memory of several states: all of them together, and the temporary memory of one of them.

    Args:
        limit: in bytes.
        source: what sets the limit, for errors.
    """

    def __init__(self, limit: int, source: str) -> None:
        self.limit, self._source = limit, source
        self._lock = threading.Lock()
        self._reserved: dict[Room, StateSize] = {}

    @classmethod
    def of_service(cls, limit: int | None) -> MemoryBudget:
        """Return the budget of a service with this `limits.memory`."""
        return cls(int(DEFAULT_SHARE * machine_memory()) if limit is None else limit, "the service's limits.memory")

    @classmethod
    def of_machine(cls) -> MemoryBudget:
        """Return the budget of a ranker without a service: all memory of the machine."""
        return cls(machine_memory(), "the memory of this machine")

    def room(self, instead_of: Collection[Room] = ()) -> Room:
        """Return a new part of the budget, in which nothing is reserved.

        Args:
            instead_of: parts that are released once the new state is complete, and so are not counted together with it.
        """
        return Room(self, instead_of)

    @property
    def needed(self) -> int:
        """Bytes that the reserved states take together, with the temporary memory of the one that needs most."""
        with self._lock:
            return _needed(self._reserved.values())

    def reserved(self, room: Room) -> int:
        """Return the bytes of the state that a part holds."""
        size = self._reserved.get(room)
        return 0 if size is None else size.state

    def require(self, wanted: Mapping[Room, StateSize], field: str, what: str) -> None:
        """Reserve these sizes, all of them or none; raise `StateTooLarge` if they do not fit.

        Args:
            wanted: sizes by the part of the budget that they replace. A size that is reserved already always fits.
            field: the field of the request that makes the states grow.
            what: the subject of "needs … of memory" in the error.
        """
        with self._lock:
            larger = {room: size for room, size in wanted.items() if self._grows(room, size)}
            gone = {old for room in larger for old in room.instead_of}
            others = {room: size for room, size in self._reserved.items() if room not in larger and room not in gone}
            left = self.limit - sum(size.state for size in others.values())
            needed = _needed([*others.values(), *larger.values()]) - (self.limit - left)
            if larger and needed > left:
                value = Words(f"{what} needs {in_words(needed)} of memory")
                raise StateTooLarge(field, value, f"at most {in_words(max(left, 0))}, {self._left(left)}")
            self._reserved.update(larger)

    def record(self, room: Room, size: StateSize) -> None:
        """Reserve a size that is needed in any case."""
        with self._lock:
            if self._grows(room, size):
                self._reserved[room] = size

    def release(self, room: Room) -> None:
        """Release what a part holds; it holds nothing from now on."""
        with self._lock:
            room.released = True
            self._reserved.pop(room, None)

    def _grows(self, room: Room, size: StateSize) -> bool:
        if room.released:  # a request that was under way while its ranker was deleted
            return False
        now = self._reserved.get(room)
        return now is None or size.state > now.state or size.temporary > now.temporary

    def _left(self, left: int) -> str:
        if left == self.limit:
            return self._source
        return f"which {self._source} ({in_words(self.limit)}) leaves beside the other rankers"


class Room:
    """The part of a budget that one state takes.

    While a log is replayed, a state that does not fit is refused. After that, requests are refused before they are
    committed, and what was committed is applied in any case.
    """

    def __init__(self, budget: MemoryBudget, instead_of: Collection[Room]) -> None:
        self.budget, self.instead_of = budget, frozenset(instead_of)
        self.replaying = True
        self.released = False

    @property
    def reserved(self) -> int:
        """Bytes of the state."""
        return self.budget.reserved(self)

    def reserve(self, size: StateSize, what: str) -> None:
        """Reserve the size of the state before it is allocated."""
        if self.replaying:
            self.budget.require({self: size}, "ranker", what)
        else:
            self.budget.record(self, size)

    def release(self) -> None:
        """Release everything, since the state is no longer in use."""
        self.budget.release(self)


def _needed(sizes: Iterable[StateSize]) -> int:
    all_sizes = list(sizes)
    return sum(size.state for size in all_sizes) + max((size.temporary for size in all_sizes), default=0)


def in_words(size: int) -> str:
    """Return a number of bytes with its unit: 1.5 GB.

    >>> in_words(1_540_000_000)
    '1.5 GB'
    """
    for factor, unit in UNITS:
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size} bytes"
