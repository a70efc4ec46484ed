"""TopRank's belief: which items are known to beat which, and the blocks that follow from it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rankloop.belief.base import Belief
from rankloop.state import State
from rankloop.types import BoolArray, Decision, Evidence, IntArray

C = 4.0 * np.sqrt(2.0 / np.pi) / math.erf(math.sqrt(2.0))
"""The constant of Lattimore et al. (2018), about 3.34."""


@dataclass
class OrderState(State):
    """Click differences of pairs while they shared a block. Counts are int32, since [B, L, L] dominates the memory."""

    S: NDArray[np.int32]  # [B, L, L] sum of click_i - click_j
    N: NDArray[np.int32]  # [B, L, L] sum of |click_i - click_j|
    beats: BoolArray  # [B, L, L] row beats column; never revoked
    level: IntArray  # [B, L] block of each item, 0 on top


@dataclass(frozen=True)
class PairwiseOrder(Belief[OrderState]):
    """j moves below i once S_ij ≥ √(2 N_ij log(c√N_ij / δ)) (Lattimore et al. 2018)."""

    items: int
    delta: float
    used: int | None = None  # number of leading columns that hold items; the others are never compared
    binary = True
    fractional = True
    learns_off_policy = False  # differences are unbiased only between items that its own blocks shuffled

    def init(self, learners: int) -> OrderState:
        """Return one block of all items."""
        pairs = (learners, self.items, self.items)
        return OrderState(
            S=np.zeros(pairs, dtype=np.int32),
            N=np.zeros(pairs, dtype=np.int32),
            beats=np.zeros(pairs, dtype=np.bool_),
            level=np.zeros((learners, self.items), dtype=np.int64),
        )

    def update(self, state: OrderState, decision: Decision, evidence: Evidence) -> None:
        """Update the rows of clicked items: only pairs with exactly one click change."""
        items, clicked = decision.columns, evidence.y > 0
        not_clicked = np.zeros(state.level.shape, dtype=np.bool_)
        not_clicked[:, : self.used] = True
        where_clicked = np.nonzero(clicked)
        not_clicked[where_clicked[0], items[where_clicked]] = False
        stale = np.zeros(len(items), dtype=np.bool_)
        for k in np.flatnonzero(clicked.any(axis=0)):
            b = np.flatnonzero(clicked[:, k])
            i = items[b, k]
            same_block = state.level[b] == state.level[b, i][:, None]
            U = (same_block & not_clicked[b]).astype(np.int32)  # [b, L], click_i - click_j
            state.S[b, i] += U
            state.N[b, i] += U
            state.S[b, :, i] -= U
            state.N[b, :, i] += U
            new = self._ahead(state.S[b, i], state.N[b, i]) & same_block & ~state.beats[b, i]
            state.beats[b, i] |= new
            stale[b] |= new.any(axis=1)
        if stale.any():
            state.level[stale] = blocks(state.beats[stale])

    def of_items(self, state: OrderState, models: IntArray) -> OrderState:
        """Return the blocks of these items, without the comparisons of pairs, which no score reads."""
        none = (len(state.level), 0, 0)
        S, N, beats = state.S[:, :0, :0], state.N[:, :0, :0], state.beats[:, :0, :0]
        return OrderState(S.reshape(none), N.reshape(none), beats.reshape(none), state.level[:, models])

    def _ahead(self, S: NDArray[np.int32], N: NDArray[np.int32]) -> BoolArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            threshold = np.sqrt(2.0 * N * np.log(C * np.sqrt(N) / self.delta))
        return np.asarray((N > 0) & (threshold <= S))


def blocks(beats: BoolArray) -> IntArray:
    """Return the level of every item, [B, L].

    Each block holds the items that no remaining item beats; if the remaining items form a cycle, they are one block.
    """
    level = np.zeros(beats.shape[:2], dtype=np.int64)
    left = np.ones(beats.shape[:2], dtype=np.bool_)
    depth = 0
    while left.any():
        beaten = (beats & left[:, :, None]).any(axis=1)
        top = left & ~beaten
        top = np.where(top.any(axis=1, keepdims=True), top, left)
        level[top] = depth
        left &= ~top
        depth += 1
    return level
