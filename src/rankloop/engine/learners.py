"""The learners of a ranker: a row of one batch for each segment, columns for each item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankloop.engine.config import RankerConfig
from rankloop.engine.items import ItemTable
from rankloop.policy import Ranks
from rankloop.state import State


class Learners:
    """State of all segments; rows and columns double when they are taken."""

    def __init__(self, config: RankerConfig, table: ItemTable) -> None:
        self._config, self._table = config, table
        self.segments: dict[str, int] = {}
        self.items = table.capacity
        self.policy: Ranks = config.build(self.items, table.prices)
        self.state: State = self.policy.init(1)
        self._rows = 1

    def row(self, segment: str) -> int:
        """The row of a segment, a new one where it was not seen before."""
        at = self.segments.get(segment)
        if at is None:
            at = self.segments[segment] = len(self.segments)
            if at >= self._rows:
                self._resize(2 * self._rows)
        return at

    def view(self, row: int) -> Any:
        """One learner, sharing memory with the rest."""
        return self.state.view(slice(row, row + 1))

    def follow(self) -> None:
        """Make room for items that the table has got room for."""
        if self._table.capacity != self.items:
            self.items = self._table.capacity
            self.policy = self._config.build(self.items, self._table.prices)
            self._resize(self._rows)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """State of the segments in use, and their names."""
        used = self.state.view(slice(0, max(1, len(self.segments))))
        return dict(used.arrays()) | {"segments": np.array(list(self.segments), dtype=np.str_)}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Become what `arrays` gave; the table is restored before."""
        self.follow()
        names: Sequence[str] = [str(name) for name in arrays["segments"]]
        self.segments = {name: i for i, name in enumerate(names)}
        while self._rows < len(names):
            self._rows *= 2
        self.state = self.policy.init(self._rows)
        used = self.state.view(slice(0, max(1, len(names))))
        used.assign({name: array for name, array in arrays.items() if name != "segments"})

    def _resize(self, rows: int) -> None:
        """What was learned stands in the first rows and columns of a larger state."""
        larger = self.policy.init(rows)
        for (_, old), (_, new) in zip(self.state.arrays(), larger.arrays(), strict=True):
            new[tuple(slice(0, n) for n in old.shape)] = old
        self.state, self._rows = larger, rows
