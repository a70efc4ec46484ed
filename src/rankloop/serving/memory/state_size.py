"""The bytes of a ranker's state, computed before anything is allocated."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rankloop.analytics.counters import Counters
from rankloop.ranking_policy import LearnerState, RankingPolicy
from rankloop.serving.config import RankerConfig
from rankloop.serving.items.item_table import ItemTable, doubled
from rankloop.serving.memory.budget import StateSize

SNAPSHOT_COPIES = 4
"""States that exist for a moment beside a state while its snapshot is stored: the copy, its file, and two of the
database driver. Starting from a snapshot, and growing, take less."""
ITEM_BYTES, SEGMENT_BYTES, PRIOR_BYTES = 512, 2048, 320
"""Objects of an item (its id and column), of a segment (its name and views of its arrays), and of each prior score."""


class Extent(NamedTuple):
    """How large a state is, in the units in which it grows: each number doubles when it is used up."""

    columns: int  # of items
    rows: int  # of segments
    priors: int  # scores of priors, those of segments included

    @classmethod
    def of(cls, items: int, segments: int, priors: int) -> Extent:
        """Return the extent of a state with at least these numbers of columns, segments and prior scores."""
        return cls(ItemTable.capacity_for(items), doubled(1, segments), doubled(1, priors))

    def including(self, items: int, segments: int, priors: int) -> Extent:
        """Return the extent after it has grown, where necessary, to these numbers."""
        return Extent(doubled(self.columns, items), doubled(self.rows, segments), doubled(self.priors, priors))


def state_size(config: RankerConfig, extent: Extent, policy: RankingPolicy[LearnerState] | None = None) -> StateSize:
    """Return the size of a state.

    Args:
        config: of the ranker.
        extent: of the state.
        policy: built for this extent, if there is one already.
    """
    columns, rows, priors = extent
    built = config.build(columns, np.zeros(columns), segments=rows) if policy is None else policy
    by_column = ItemTable.column_bytes(config.dim, config.coverage, config.feature_settings) + Counters.column_bytes(
        config.slots
    )
    learners = 1 + (1 if built.pools else rows)  # one more learner for segments to come
    arrays = learners * built.learner_bytes() + columns * by_column
    objects = columns * ITEM_BYTES + rows * SEGMENT_BYTES + priors * PRIOR_BYTES
    working = built.working_bytes(columns, config.slots)
    return StateSize(arrays, objects, SNAPSHOT_COPIES * (arrays + objects) + working)
