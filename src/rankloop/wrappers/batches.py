"""Batch learning: learn from several rounds at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

import numpy as np

from rankloop.policy import Policy, PolicyState
from rankloop.state import State
from rankloop.types import EMPTY, Decision, FloatArray, IntArray, Request, Rows
from rankloop.wrappers.base import Wrapper

S = TypeVar("S", bound=State)


@dataclass
class BatchState(State, Generic[S]):
    """A policy's state, and the rounds since its last update."""

    FEATURES: ClassVar = {"x": 1}

    inner: PolicyState[S]
    t: IntArray  # [B] number of the next round
    items: IntArray  # [B, n, K] items of the policy
    x: FloatArray  # [B, n, K, d]
    clicks: FloatArray  # [B, n, K]


@dataclass(frozen=True)
class EveryN(Wrapper[BatchState[S], PolicyState[S]], Generic[S]):
    """Learns in batches: collects n rounds, then applies them in order. Decisions use the state of the last update."""

    policy: Policy[S]
    every: int
    slots: int

    @property
    def inner(self) -> Policy[S]:
        """The policy that learns in batches."""
        return self.policy

    def inner_state(self, state: BatchState[S]) -> PolicyState[S]:
        """Return the state at the last update."""
        return state.inner

    @property
    def dim(self) -> int:
        """Number of features of a row, 0 where there are none."""
        return self.policy.belief.row_features

    def init(self, learners: int) -> BatchState[S]:
        """Return a state with an empty batch."""
        shape = (learners, self.every, self.slots)
        return BatchState(
            inner=self.policy.init(learners),
            t=np.ones(learners, dtype=np.int64),
            items=np.full(shape, EMPTY, dtype=np.int64),
            x=np.zeros((*shape, self.dim)),
            clicks=np.zeros(shape),
        )

    def decide(self, state: BatchState[S], request: Request, rng: np.random.Generator) -> Decision:
        """Let the inner policy decide with the state of its last update."""
        return self.policy.decide(state.inner, request, rng)

    def update(self, state: BatchState[S], decision: Decision, clicks: FloatArray) -> None:
        """Collect the round; after every n rounds, let the inner policy learn all of them in order."""
        b, k = np.arange(len(state.t)), clicks.shape[1]
        at = (state.t - 1) % self.every
        state.items[b, at, :k], state.items[b, at, k:] = decision.columns, EMPTY
        state.clicks[b, at, :k], state.clicks[b, at, k:] = clicks, 0.0
        if decision.rows.x is not None:
            state.x[b, at, :k] = decision.rows.x
        state.t += 1
        full = (state.t - 1) % self.every == 0
        # The lists of a batch hold items of the policy; the candidates of its requests may have differed.
        request = decision.request.of_items()
        for r in range(self.every if full.any() else 0):
            items = np.where(full[:, None], state.items[:, r], EMPTY)
            rows = Rows(self.policy.design.list_models(items), state.x[:, r] if self.dim else None)
            seen = self.policy.feedback.read(items, np.where(full[:, None], state.clicks[:, r], 0.0))
            self.policy.belief.update(state.inner.belief, Decision(items, rows, request), seen)
            state.inner.t[full] += 1
