"""Counts of clicks by item and slot, and of clicks below another click."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rankloop.arrays import Array
from rankloop.types import EMPTY, FloatArray, IntArray

TABLES = ("settled", "below", "first", "again")
"""Counts by item and slot: settled lists that show the item there; those with a click above it; clicks on it without a
click above; clicks on it with a click above."""
MAX_LIST_CLICKS = 3
"""Lists with this many clicks or more share one counter."""
COUNT = np.uint32

SettledList = tuple[int, bool, IntArray, FloatArray]
"""Group, whether exploration changed the list, items [k] and outcome [k], with k > 0."""


def join_lists(lists: Sequence[IntArray]) -> tuple[IntArray, IntArray, IntArray]:
    """Return the items of all lists in one array, the slot of each, and the length of each list."""
    lengths = np.array([len(one) for one in lists])
    items = np.concatenate(lists)
    return items, np.arange(len(items)) - np.repeat(np.cumsum(lengths) - lengths, lengths), lengths


class ClickCounters:
    """Counters of settled lists, from which click models can be distinguished.

    The tables count both groups together; `hits` and `lists` count each group. The last tracked slot counts all later
    slots too.
    """

    def __init__(self, slots: int, tracked_slots: int, capacity: int) -> None:
        self._tracked = np.minimum(np.arange(slots), tracked_slots - 1)
        shape = (capacity, min(slots, tracked_slots))
        self.tables = {name: np.zeros(shape, dtype=COUNT) for name in TABLES}
        self.hits = np.zeros((2, *shape), dtype=COUNT)  # clicks by group, item and slot
        self.lists = np.zeros((2, MAX_LIST_CLICKS + 1), dtype=np.int64)  # by group and number of clicks
        self.explored = np.zeros(2, dtype=np.int64)  # lists that exploration changed, and those of them with a click

    @property
    def nbytes(self) -> int:
        """Bytes of the counts by item and slot."""
        return self.hits.nbytes + sum(table.nbytes for table in self.tables.values())

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` items."""
        for name, table in self.tables.items():
            self.tables[name] = np.pad(table, ((0, capacity - len(table)), (0, 0)))
        self.hits = np.pad(self.hits, ((0, 0), (0, capacity - self.hits.shape[1]), (0, 0)))

    def count(self, batch: Sequence[SettledList], how: np.ufunc = np.add) -> None:
        """Count a batch of settled lists: one vectorized update is far cheaper than one update per list.

        Args:
            batch: the lists with their outcomes.
            how: `numpy.subtract` takes back what was counted.
        """
        if not batch:
            return
        groups, explored, lists, outcomes = zip(*batch, strict=True)
        items, slots, lengths = join_lists(lists)
        start = np.cumsum(lengths) - lengths
        at, clicked = self._tracked[slots], np.concatenate(outcomes) != 0
        before = np.cumsum(clicked) - clicked
        above = before > np.repeat(before[start], lengths)
        filled = items != EMPTY
        for table, which in zip(TABLES, (filled, filled & above, clicked & ~above, clicked & above), strict=True):
            how.at(self.tables[table], (items[which], at[which]), 1)
        how.at(self.hits, (np.repeat(groups, lengths)[clicked], items[clicked], at[clicked]), 1)
        clicks = np.add.reduceat(clicked, start, dtype=np.int64)
        how.at(self.lists, (groups, np.minimum(clicks, MAX_LIST_CLICKS)), 1)
        changed = np.array(explored)
        self.explored = how(self.explored, (changed.sum(), (changed & (clicks > 0)).sum()))

    def arrays(self) -> dict[str, Array]:
        """Return copies of all counts by name, for a snapshot."""
        tables: dict[str, Array] = {name: table.copy() for name, table in self.tables.items()}
        return tables | {"hits": self.hits.copy(), "lists": self.lists.copy(), "explored": self.explored.copy()}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Restore the counts that `arrays` returned."""
        self.tables, self.hits = {name: arrays[name].astype(COUNT) for name in TABLES}, arrays["hits"].astype(COUNT)
        self.lists, self.explored = arrays["lists"].astype(np.int64), arrays["explored"].astype(np.int64)
