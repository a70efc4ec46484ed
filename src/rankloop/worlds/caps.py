"""Caps of a world: at most n items of one group in a list."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rankloop.types import BoolArray, FloatArray, IntArray, Request


@dataclass(frozen=True, eq=False)
class GroupCap:
    """At most so many items of each group; items of group -1 are not capped."""

    groups: IntArray  # [L]
    at_most: int

    def request(self, request: Request) -> Request:
        """Return a request under this cap."""
        return replace(request, groups=self.groups[None, :], caps=np.array([self.at_most]))

    def fitting(self) -> int:
        """Return the number of items of the longest list."""
        sizes = np.unique(self.groups[self.groups >= 0], return_counts=True)[1]
        return int(np.count_nonzero(self.groups < 0) + np.minimum(sizes, self.at_most).sum())

    def kept(self, values: FloatArray) -> BoolArray:
        """Return which items are among the best of their group by values [B, L].

        A list that is best without a cap on these items is the best one under the cap, where the best list of every
        length holds the items of largest value: they are the independent sets that the greedy algorithm finds.
        """
        B, L = values.shape
        group = np.broadcast_to(self.groups, (B, L))
        order = np.lexsort((-values, group), axis=1)
        own = np.take_along_axis(group, order, axis=1)
        place = np.broadcast_to(np.arange(L), (B, L))
        starts = np.ones((B, L), dtype=np.bool_)
        starts[:, 1:] = own[:, 1:] != own[:, :-1]
        rank = place - np.maximum.accumulate(np.where(starts, place, 0), axis=1)
        kept = np.empty((B, L), dtype=np.bool_)
        np.put_along_axis(kept, order, (rank < self.at_most) | (own < 0), axis=1)
        return kept
