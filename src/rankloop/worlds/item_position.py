"""A world with visitor contexts and an item-specific position effect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from rankloop.math.columns import take
from rankloop.math.counter_rng import keys, uniforms
from rankloop.math.logistic import sigmoid
from rankloop.objective import Objective
from rankloop.plan import Assignment
from rankloop.types import EMPTY, FloatArray, IntArray, Request, Setting
from rankloop.worlds.contexts import in_unit_ball


@dataclass(frozen=True)
class ItemPositionVisit:
    """One visitor for each replication."""

    instance: ItemPositionInstance
    request: Request
    logit: FloatArray  # [B, N] intercept + xᵀβ
    best: FloatArray  # [B]
    key: NDArray[np.uint64]  # [B], key of the counter-based RNG

    def value(self, items: IntArray) -> FloatArray:
        """Return the exact expected value of the objective, [B]."""
        return self.instance.objective.value(self.instance.click_probabilities(self.logit, items), items)

    def click(self, items: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the clicks, independent between slots, and the reward."""
        clicks = (uniforms(self.key, items) < self.instance.click_probabilities(self.logit, items)).astype(np.float64)
        return clicks, self.instance.objective.reward(clicks, items)


@dataclass(frozen=True)
class ItemPositionInstance:
    """B replications with their parameters."""

    alpha: FloatArray  # [B, N]
    beta: FloatArray  # [B, N, d]
    intercept: FloatArray | None  # [N]
    objective: Objective
    features: FloatArray | None  # [N, dy]
    contexts: FloatArray | None  # [n, d]
    setting: Setting

    def visit(self, rng: np.random.Generator) -> ItemPositionVisit:
        """Draw the visitors of the next round; contexts are uniform in the unit ball or sampled from `contexts`."""
        B, N, d = self.beta.shape
        x = (
            in_unit_ball(rng, B, d)
            if self.contexts is None
            else self.contexts[rng.integers(len(self.contexts), size=B)]
        )
        logit, context = np.matvec(self.beta, x), x
        if self.intercept is not None:
            logit, context = logit + self.intercept, np.concatenate([x, np.ones((B, 1))], axis=1)
        request = Request(B, N, self.setting.slots, self.features, context=context)
        plan = Assignment(self.objective)
        items = plan(lambda prefix, slot: logit - self.alpha * (slot + 1.0), request, np.random.default_rng(0)).items
        best = self.objective.value(self.click_probabilities(logit, items), items)
        return ItemPositionVisit(self, request, logit, best, keys(B, rng))

    def click_probabilities(self, logit: FloatArray, items: IntArray) -> FloatArray:
        """Return P(click) = σ(intercept + xᵀβ_j - α_j k) in slot k = 1 …, 0 in empty slots, [B, K]."""
        k = np.arange(1.0, items.shape[1] + 1.0)
        return np.where(items != EMPTY, sigmoid(take(logit, items) - take(self.alpha, items) * k), 0.0)


@dataclass(frozen=True, eq=False)
class ItemPositionWorld:
    """Fixed parameters, or α ~ U[0, 1] and β uniform in the unit ball for each replication."""

    items: int
    dim: int
    k: int
    objective: Objective
    alpha: FloatArray | None = None  # [N]
    beta: FloatArray | None = None  # [N, d]
    intercept: FloatArray | None = None  # [N]
    features: FloatArray | None = None  # [N, dy]
    contexts: FloatArray | None = None  # [n, d], sampled for each visitor

    def prepare(self, rng: np.random.Generator) -> Self:
        """Return the world itself: nothing shared is random."""
        return self

    def draw(self, streams: Sequence[np.random.Generator], rounds: int | None) -> ItemPositionInstance:
        """Draw α, then β from each replication's stream, where they are not fixed."""
        N, d = self.items, self.dim
        drawn = [(rng.random(N), in_unit_ball(rng, N, d)) for rng in streams]
        alpha, beta = (np.stack(parts) for parts in zip(*drawn, strict=True))
        if self.alpha is not None:
            alpha = np.broadcast_to(self.alpha, alpha.shape)
        if self.beta is not None:
            beta = np.broadcast_to(self.beta, beta.shape)
        dy = None if self.features is None else self.features.shape[1]
        context = d + (self.intercept is not None)
        setting = Setting(N, self.k, rounds, dy, context=context, objective=self.objective)
        return ItemPositionInstance(alpha, beta, self.intercept, self.objective, self.features, self.contexts, setting)
