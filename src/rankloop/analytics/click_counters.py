"""How visitors click: by item and place, and whether anything above was clicked before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rankloop.arrays import Array
from rankloop.types import EMPTY, FloatArray, IntArray

TABLES = ("settled", "below", "first", "again")
"""Lists whose outcome is known with an item in a place; those in which something above it had been clicked; clicks on
it with none above; clicks on it after one above."""
MANY = 3
"""So many clicks and more are counted together."""
COUNT = np.uint32
TOGETHER = 512
"""Lists that are counted at once: one by one, tables would take longer than all the rest of a tally."""


def joined(lists: Sequence[IntArray]) -> tuple[IntArray, IntArray, IntArray]:
    """Items of all lists one after the other, the slot of each, and the length of each list."""
    lengths = np.array([len(one) for one in lists])
    items = np.concatenate(lists)
    return items, np.arange(len(items)) - np.repeat(np.cumsum(lengths) - lengths, lengths), lengths


class ClickCounters:
    """Counts of settled lists, most of them of both groups together, from which click models can be told apart."""

    def __init__(self, slots: int, places: int, capacity: int) -> None:
        self._places = np.minimum(np.arange(slots), places - 1)
        self._waiting: list[tuple[int, bool, IntArray, FloatArray]] = []
        self.tables = {name: np.zeros((capacity, min(slots, places)), dtype=COUNT) for name in TABLES}
        self.hits = np.zeros((2, capacity, min(slots, places)), dtype=COUNT)  # clicks in lists of each group
        self.lists = np.zeros((2, MANY + 1), dtype=np.int64)  # of each group, by the number of their clicks
        self.explored = np.zeros(2, dtype=np.int64)  # lists that exploring changed, and those of them clicked

    def grow(self, capacity: int) -> None:
        """Make room for items."""
        for name, table in self.tables.items():
            self.tables[name] = np.pad(table, ((0, capacity - len(table)), (0, 0)))
        self.hits = np.pad(self.hits, ((0, 0), (0, capacity - self.hits.shape[1]), (0, 0)))

    def settled(self, group: int, explored: bool, items: IntArray, outcome: FloatArray) -> None:
        """The outcome [k] of a list [k] is known."""
        if len(items):
            self._waiting.append((group, explored, items, outcome))
            if len(self._waiting) >= TOGETHER:
                self.catch_up()

    def catch_up(self) -> None:
        """Count what was put off; whoever reads calls this first."""
        if not self._waiting:
            return
        groups, explored, lists, outcomes = zip(*self._waiting, strict=True)
        self._waiting = []
        items, slots, lengths = joined(lists)
        start = np.cumsum(lengths) - lengths
        places, clicked = self._places[slots], np.concatenate(outcomes) != 0
        before = np.cumsum(clicked) - clicked
        above = before > np.repeat(before[start], lengths)
        there = items != EMPTY
        for table, which in zip(TABLES, (there, there & above, clicked & ~above, clicked & above), strict=True):
            np.add.at(self.tables[table], (items[which], places[which]), 1)
        np.add.at(self.hits, (np.repeat(groups, lengths)[clicked], items[clicked], places[clicked]), 1)
        many = np.add.reduceat(clicked, start, dtype=np.int64)
        np.add.at(self.lists, (groups, np.minimum(many, MANY)), 1)
        changed = np.array(explored)
        self.explored += (changed.sum(), (changed & (many > 0)).sum())

    def arrays(self) -> dict[str, Array]:
        """All counts."""
        self.catch_up()
        own: dict[str, Array] = {name: table.copy() for name, table in self.tables.items()}
        return own | {"hits": self.hits.copy(), "lists": self.lists.copy(), "explored": self.explored.copy()}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Become what `arrays` gave."""
        self._waiting = []
        self.tables, self.hits = {name: arrays[name].astype(COUNT) for name in TABLES}, arrays["hits"].astype(COUNT)
        self.lists, self.explored = arrays["lists"].astype(np.int64), arrays["explored"].astype(np.int64)
