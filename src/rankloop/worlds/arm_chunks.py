"""Arms that never return: each round a fresh chunk of them, each with a success rate of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from rankloop.errors import InvalidInput
from rankloop.math.columns import take
from rankloop.types import EMPTY, FloatArray, IntArray, Request, Setting
from rankloop.worlds.rewards import Arms, RewardInstance, Scenario, instance, log_odds


@dataclass
class ChunkArms:
    """A chunk of never repeated vectors each round, in an order of each replication's own."""

    x: FloatArray  # [n, d]
    coverage: FloatArray | None  # [n, topics]
    rate: FloatArray  # [n] success probability; of one round: [B, chunk]
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
        return request, replace(self, rate=self.rate[at])

    def success(self, request: Request, items: IntArray) -> FloatArray:
        """The rate of each listed vector, whatever stands above it."""
        return np.where(items != EMPTY, take(self.rate, items), 0.0)

    def score(self, request: Request, prefix: IntArray) -> FloatArray:
        """Logit of the rate."""
        return log_odds(self.rate)


@dataclass(frozen=True)
class ChunkWorld:
    """Vectors with success rates; where the rate is 0 or 1, success is certain or impossible (a label's)."""

    x: FloatArray  # [n, d]
    rate: FloatArray  # [n]
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
        arms = ChunkArms(self.x, self.coverage, self.rate, order, self.chunk, setting)
        return instance(arms, self.scenario, self.budgets)
