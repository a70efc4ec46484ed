"""Arms that never return: each round offers a new chunk of them, each arm with its own success rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from rankloop.errors import InvalidInput
from rankloop.math.columns import take
from rankloop.types import EMPTY, FloatArray, IntArray, Request, Setting
from rankloop.worlds.rewards import Arms, RewardInstance, Scenario, Scenarios, instance, log_odds


@dataclass
class ChunkArms:
    """The arms of a world that offers a new chunk of vectors each round, in a random order per replication."""

    x: FloatArray  # [n, d]
    coverage: FloatArray | None  # [n, topics]
    rate: FloatArray  # [n] success probability; [B, chunk] for the arms of one round
    order: IntArray  # [B, n]
    chunk: int
    setting: Setting
    played: int = 0
    dependent = False

    def next(self, rng: np.random.Generator) -> tuple[Request, Arms]:
        """Return the request of the next chunk, and its arms."""
        start = self.played * self.chunk
        self.played += 1
        rows = self.order[:, start : start + self.chunk]
        coverage = None if self.coverage is None else self.coverage[rows]
        request = Request(len(rows), self.chunk, self.setting.slots, self.x[rows], coverage=coverage)
        return request, replace(self, rate=self.rate[rows])

    def success(self, request: Request, items: IntArray) -> FloatArray:
        """Return the rate of each listed vector, which does not depend on the items above it, [B, K]."""
        return np.where(items != EMPTY, take(self.rate, items), 0.0)

    def score(self, request: Request, prefix: IntArray) -> FloatArray:
        """Return the logit of the rate, [B, chunk]."""
        return log_odds(self.rate)


@dataclass(frozen=True)
class ChunkWorld:
    """Vectors with success rates; a rate of 0 or 1 encodes a class label."""

    x: FloatArray  # [n, d]
    rate: FloatArray  # [n]
    chunk: int
    budgets: tuple[int, ...]
    scenario: Scenario | Scenarios
    coverage: FloatArray | None = None

    def prepare(self, rng: np.random.Generator) -> Self:
        """Return the world itself: nothing shared is random."""
        return self

    def draw(self, streams: Sequence[np.random.Generator], rounds: int | None) -> RewardInstance:
        """Return replications that each see the vectors in their own random order."""
        n, d = self.x.shape
        if rounds is not None and rounds > n // self.chunk:
            raise InvalidInput("rounds", rounds, f"at most {n // self.chunk}, the number of chunks")
        order = np.stack([rng.permutation(n) for rng in streams])
        topics = None if self.coverage is None else self.coverage.shape[1]
        setting = Setting(self.chunk, max(self.budgets), rounds, d, coverage=topics, lasting=False)
        arms = ChunkArms(self.x, self.coverage, self.rate, order, self.chunk, setting)
        return instance(arms, self.scenario, self.budgets)
