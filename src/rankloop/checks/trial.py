"""A small problem with everything that a policy may need, on which the laws are checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from rankloop.policy import SupportsRanking
from rankloop.ranking_policy import LearnerState, RankingPolicy
from rankloop.types import EMPTY, BetaPrior, BoolArray, FloatArray, IntArray, Request, Setting
from rankloop.worlds.click_models import CascadeClicks

Make = Callable[[Setting], RankingPolicy[Any]]
"""A function that builds the policy for a setting."""

L, K, D, ROUNDS = 12, 3, 4, 60


class Trial:
    """A small problem with everything that a policy may need, and a history to learn from."""

    def __init__(self, seed: int = 1, order: IntArray | None = None) -> None:
        rng = np.random.default_rng(seed)
        order = np.arange(L) if order is None else order
        features = rng.random((L, D))
        features /= np.linalg.norm(features, axis=1, keepdims=True)
        self.features = features[order]
        self.attraction = rng.uniform(0.05, 0.6, L)[order]
        prior = BetaPrior(rng.uniform(1.0, 5.0, L)[order], rng.uniform(2.0, 10.0, L)[order])
        self.coverage = rng.random((L, D))[order]
        self.context = rng.uniform(-0.5, 0.5, D)
        bias = np.array([1.0, 0.7, 0.4])
        self.setting = Setting(L, K, rounds=1000, dim=D, prior=prior, bias=bias, context=D, coverage=D)

    def request(self, learners: int, k: int = K, allowed: BoolArray | None = None) -> Request:
        """Return a request for the items of the trial."""
        context = np.broadcast_to(self.context, (learners, D))
        return Request(learners, L, k, self.features, context, self.coverage, allowed)

    def clicks(self, items: IntArray, rng: np.random.Generator) -> FloatArray:
        """Return the clicks of visitors under the cascade model."""
        attracted = (rng.random(items.shape) < self.attraction[items]) & (items != EMPTY)
        return CascadeClicks().click(attracted, np.empty((len(items), 0)))[0]

    def play(self, policy: SupportsRanking, state: LearnerState, rounds: int, seed: int) -> list[IntArray]:
        """Let the policy decide and learn; return the lists."""
        rng = np.random.default_rng(seed)
        lists = []
        for _ in range(rounds):
            decision = policy.decide(state, self.request(len(state.t)), rng)
            policy.learn(state, decision, self.clicks(decision.items, rng))
            lists.append(decision.items)
        return lists

    def teach(
        self, policy: SupportsRanking, state: LearnerState, rounds: int, seed: int, order: IntArray | None = None
    ) -> None:
        """Let the policy learn from given lists and clicks, the same for every policy; item i is called order[i]."""
        rng = np.random.default_rng(seed)
        for _ in range(rounds):
            items = rng.permuted(np.tile(np.arange(L), (len(state.t), 1)), axis=1)[:, :K]
            clicks = Trial().clicks(items, rng)
            shown = items if order is None else order[items]
            policy.learn(state, policy.adopt(self.request(len(state.t)), shown), clicks)


def assert_equal(one: LearnerState, other: LearnerState, tolerance: float = 0.0) -> None:
    """Assert that two states are equal, array by array."""
    left, right = (cast("dict[str, FloatArray]", dict(state.arrays())) for state in (one, other))
    assert left.keys() == right.keys()
    for name in left:
        np.testing.assert_allclose(left[name], right[name], rtol=tolerance, atol=tolerance, err_msg=name)
