"""Worlds in which features explain all, a part or nothing of what items are worth, for tests of the hybrid policy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankloop import build
from rankloop.types import FloatArray, Request, Setting

ITEMS, SLOTS, DIM = 100, 5, 20
BIAS = 1.0 / np.sqrt(np.arange(1.0, SLOTS + 1.0))
RIVALS = ("lin-ts-ltr", "gts")


@dataclass(frozen=True)
class ExplainedWorld:
    """Position-based visitors in B replications; attraction 0.2 ± 0.08, of whose variance features explain a share.

    The first of the 20 features is 1, the others are standard normal.
    """

    attraction: FloatArray  # [B, L]
    features: FloatArray  # [B, L, d]

    @classmethod
    def drawn(cls, share: float, replications: int, seed: int) -> ExplainedWorld:
        """Return a world for each replication."""
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((replications, ITEMS, DIM))
        x[..., 0] = 1.0
        w = rng.standard_normal((replications, DIM - 1))
        w /= np.linalg.norm(w, axis=1, keepdims=True)
        explained, own = np.matvec(x[..., 1:], w), rng.standard_normal((replications, ITEMS))
        mixed = np.sqrt(share) * explained + np.sqrt(1.0 - share) * own
        return cls(np.clip(0.2 + 0.08 * mixed, 0.01, 0.99), x)

    def final_regret(self, policy: str, rounds: int, seed: int) -> FloatArray:
        """Return the cumulative expected regret of each replication, [B]; only `hybrid` is not told the biases."""
        B = len(self.attraction)
        own = policy == "hybrid"
        setting = Setting(ITEMS, SLOTS, rounds, DIM, bias=None if own else BIAS)
        learner = build(policy, setting) if own else build(policy, setting, feedback="position-based")
        state = learner.init(B)
        request = Request(B, ITEMS, SLOTS, self.features)
        rng, visitors = np.random.default_rng([seed, 1]), np.random.default_rng([seed, 2])
        best = np.sort(self.attraction, axis=1)[:, : -SLOTS - 1 : -1] @ BIAS
        lost = np.zeros(B)
        for _ in range(rounds):
            decision = learner.decide(state, request, rng)
            p = np.take_along_axis(self.attraction, decision.items, axis=1) * BIAS
            learner.learn(state, decision, (visitors.random((B, SLOTS)) < p).astype(np.float64))
            lost += best - p.sum(axis=1)
        return lost
