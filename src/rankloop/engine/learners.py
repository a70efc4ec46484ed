"""The learners of a ranker: a row of one batch for each segment, columns for each item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankloop.belief.weighting import believe, forget
from rankloop.engine.config import RankerConfig
from rankloop.engine.inside import belief_of
from rankloop.engine.items import ItemTable
from rankloop.policy import Ranks
from rankloop.state import State
from rankloop.types import FloatArray, Request


class Learners:
    """State of all segments; rows and columns double when they are taken."""

    def __init__(self, config: RankerConfig, table: ItemTable) -> None:
        self._config, self._table = config, table
        self.segments: dict[str, int] = {}
        self.items = table.capacity
        self.policy: Ranks = config.build(self.items, table.prices)
        self.fresh: Any = self.policy.init(1)  # one who has seen nobody, but knows what other rankers said
        self.state: State = self.policy.init(1)
        self._rows = 1

    def row(self, segment: str) -> int:
        """The row of a segment, a new one where it was not seen before."""
        at = self.segments.get(segment)
        if at is None:
            at = self.segments[segment] = len(self.segments)
            if at >= self._rows:
                self.state = _larger(self.state, self.policy.init(2 * self._rows))
                self._rows *= 2
            self.view(at).assign(dict(self.fresh.arrays()))
        return at

    def view(self, row: int) -> Any:
        """One learner, sharing memory with the rest."""
        return self.state.view(slice(row, row + 1))

    def follow(self) -> None:
        """Make room for items that the table has got room for."""
        if self._table.capacity != self.items:
            self.items = self._table.capacity
            self.policy = self._config.build(self.items, self._table.prices)
            self.state = _larger(self.state, self.policy.init(self._rows))
            self.fresh = _larger(self.fresh, self.policy.init(1))

    def believe(self, column: int, score: float, strength: float) -> None:
        """Learn what another ranker says of an item, in every segment and those to come."""
        request = Request(1, self.items, 1, features=self._table.features, context=self._no_context())
        decision = self.policy.adopt(request, [[column]])
        for state in (self.fresh, *(self.view(row) for row in self.segments.values())):
            inner, belief = belief_of(self.policy, state)
            if inner is not None:
                believe(inner.belief, belief, decision.rows, score, strength)

    def forget(self, row: int) -> None:
        """Discount the past of a learner, where it is time."""
        every = self._config.forget_every
        view = self.view(row)
        if every and int(view.t[0]) % every == 0:
            (_, belief), (_, before) = belief_of(self.policy, view), belief_of(self.policy, self.fresh)
            forget(belief, before, self._config.discount**every)

    def _no_context(self) -> FloatArray | None:
        return None if self._config.context is None else np.zeros((1, self._config.context))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """State of the segments in use, and their names."""
        used = self.state.view(slice(0, max(1, len(self.segments))))
        fresh = {f"fresh.{name}": array for name, array in self.fresh.arrays()}
        return dict(used.arrays()) | fresh | {"segments": np.array(list(self.segments), dtype=np.str_)}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Become what `arrays` gave; the table is restored before."""
        self.follow()
        names: Sequence[str] = [str(name) for name in arrays["segments"]]
        self.segments = {name: i for i, name in enumerate(names)}
        while self._rows < len(names):
            self._rows *= 2
        self.state = self.policy.init(self._rows)
        used = self.state.view(slice(0, max(1, len(names))))
        own = {name: array for name, array in arrays.items() if name != "segments"}
        used.assign({name: array for name, array in own.items() if not name.startswith("fresh.")})
        self.fresh = self.policy.init(1)
        self.fresh.assign({n.removeprefix("fresh."): array for n, array in own.items() if n.startswith("fresh.")})


def _larger(old: State, new: State) -> State:
    """What was learned stands in the first rows and columns of a larger state."""
    for (_, before), (_, after) in zip(old.arrays(), new.arrays(), strict=True):
        after[tuple(slice(0, n) for n in before.shape)] = before
    return new
