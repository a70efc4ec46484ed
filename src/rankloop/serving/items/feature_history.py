"""The features that items had when open decisions were made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from rankloop.arrays import Array
from rankloop.schema import Item
from rankloop.serving.items.item_table import ItemTable
from rankloop.types import FloatArray, IntArray

SAVED = ("columns", "positions", "features", "coverage")
"""Arrays of a history; snapshots store these names."""

FormerRow = tuple[int, FloatArray, FloatArray]
"""Position of the event that changed an item, and the features and the coverage that it had before."""


class FeatureHistory:
    """Former features and coverage of items, as long as a decision of another policy is open that may need them.

    A policy scores the decisions of another one itself, with the items as they were when the list was decided. The log
    does not have these rows, so what changed in between is kept: one row for each change, not for each decision.
    """

    def __init__(self, table: ItemTable) -> None:
        self._table = table
        self._rows: dict[int, list[FormerRow]] = {}  # by column, oldest first
        self._copies: dict[str, FloatArray] = {}  # of the table as it is now, to be patched
        self._patched: IntArray = np.empty(0, dtype=np.int64)

    def __len__(self) -> int:
        return sum(map(len, self._rows.values()))

    def keep(self, items: Iterable[Item], position: int) -> None:
        """Note the features of items that the event at this position will change."""
        self._copies.clear()
        for item in items:
            at = self._table.column.get(item.id)
            if at is not None and self._changes(item, at):
                self._rows.setdefault(at, []).append((position, *self._now(at)))

    def _changes(self, item: Item, at: int) -> bool:
        """Return whether an item's features or coverage change, bit for bit."""
        if self._table.encoding is not None and self._table.changes_row(item):
            return True
        given = zip((item.features, item.coverage), self._now(at), strict=True)
        return any(new is not None and np.array(new, dtype=np.float64).tobytes() != old.tobytes() for new, old in given)

    def _now(self, column: int) -> tuple[FloatArray, FloatArray]:
        features, coverage = self._table.features, self._table.coverage
        none = np.empty(0)
        return (
            none if features is None else features[column].copy(),
            none if coverage is None else coverage[column].copy(),
        )

    def forget_until(self, oldest: int | None) -> None:
        """Drop the rows that no decision needs if the oldest open one is at this position; all, if none is open."""
        needed = {} if oldest is None else {at: _after(oldest, rows) for at, rows in self._rows.items()}
        self._rows = {at: rows for at, rows in needed.items() if rows}

    def as_of(self, position: int, columns: IntArray) -> dict[str, Array | None]:
        """Return the features and coverage of all items with those of some columns as they were at a position.

        It is empty if nothing has changed. The arrays are valid until the next call.
        """
        if not self._rows:
            return {}
        former = {at: rows[0] for at in columns.tolist() if (rows := _after(position, self._rows.get(at, ())))}
        if not former:
            return {}
        now: dict[str, FloatArray | None] = {"features": self._table.features, "coverage": self._table.coverage}
        patched = np.array(list(former), dtype=np.int64)
        for which, (name, array) in enumerate(now.items(), start=1):
            if array is not None:
                copy = self._copies.get(name)
                if copy is None:
                    copy = self._copies[name] = array.copy()
                else:
                    copy[self._patched] = array[self._patched]
                copy[patched] = [row[which] for row in former.values()]
        self._patched = patched
        return {name: self._copies.get(name) for name in now}

    # Snapshots

    def arrays(self, oldest: int | None) -> dict[str, Array]:
        """Return the rows that may be needed if the oldest open decision of another policy is at this position."""
        kept = {} if oldest is None else {at: _after(oldest, self._rows[at]) for at in sorted(self._rows)}
        rows = [(at, *row) for at, changes in kept.items() for row in changes]
        return {
            "columns": np.array([row[0] for row in rows], dtype=np.int64),
            "positions": np.array([row[1] for row in rows], dtype=np.int64),
            "features": np.array([row[2] for row in rows]).reshape(len(rows), -1 if rows else 0),
            "coverage": np.array([row[3] for row in rows]).reshape(len(rows), -1 if rows else 0),
        }

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Restore what `arrays` returned."""
        self._rows, self._copies = {}, {}
        columns, positions, features, coverage = (arrays[name] for name in SAVED)
        for i, (at, position) in enumerate(zip(columns.tolist(), positions.tolist(), strict=True)):
            self._rows.setdefault(at, []).append((position, features[i].copy(), coverage[i].copy()))


def _after(position: int, rows: Iterable[FormerRow]) -> list[FormerRow]:
    """Return the rows that changed after a position."""
    return [row for row in rows if row[0] > position]
