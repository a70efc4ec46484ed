"""Labelled vectors as arms: each round a fresh chunk of them, success where the label is the pivot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from rankloop.errors import InvalidInput
from rankloop.math.arrays import take
from rankloop.types import EMPTY, FloatArray, IntArray, Request, Setting
from rankloop.worlds.rewards import Arms, RewardInstance, Scenario, instance


@dataclass
class PivotArms:
    """A chunk of never repeated vectors each round, in an order of each replication's own."""

    x: FloatArray  # [n, d]
    coverage: FloatArray | None  # [n, topics]
    hit: FloatArray  # [n] 1 where the label is the pivot; of one round: [B, chunk]
    order: IntArray  # [B, n]
    chunk: int
    setting: Setting
    played: int = 0
    dependent = False

    def next(self, rng: np.random.Generator) -> tuple[Request, Arms]:
        """The next chunk."""
        start = self.played * self.chunk
        self.played += 1
        at = self.order[:, start : start + self.chunk]
        covered = None if self.coverage is None else self.coverage[at]
        request = Request(len(at), self.chunk, self.setting.slots, self.x[at], coverage=covered)
        return request, replace(self, hit=self.hit[at])

    def success(self, request: Request, items: IntArray) -> FloatArray:
        """1 where the listed vector has the pivot's label."""
        return np.where(items != EMPTY, take(self.hit, items), 0.0)

    def score(self, request: Request, prefix: IntArray) -> FloatArray:
        """Certain success or failure."""
        return np.where(self.hit > 0, 700.0, -700.0)


@dataclass(frozen=True)
class PivotWorld:
    """Vectors with labels; success is to show one whose label is the pivot."""

    x: FloatArray  # [n, d]
    hit: FloatArray  # [n]
    chunk: int
    budgets: tuple[int, ...]
    scenario: Scenario
    coverage: FloatArray | None = None

    def prepare(self, rng: np.random.Generator) -> Self:
        """All replications share the vectors."""
        return self

    def draw(self, streams: Sequence[np.random.Generator], rounds: int | None) -> RewardInstance:
        """Each replication meets the vectors in its own order."""
        n, d = self.x.shape
        if rounds is not None and rounds > n // self.chunk:
            raise InvalidInput("rounds", rounds, f"at most {n // self.chunk}, as many as there are chunks")
        order = np.stack([rng.permutation(n) for rng in streams])
        topics = None if self.coverage is None else self.coverage.shape[1]
        setting = Setting(self.chunk, max(self.budgets), rounds, d, coverage=topics, lasting=False)
        arms = PivotArms(self.x, self.coverage, self.hit, order, self.chunk, setting)
        return instance(arms, self.scenario, self.budgets)
