"""Forgetting: the past counts less with every round, for worlds that drift."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from rankloop.errors import Unsupported
from rankloop.ranking_policy import RankingPolicy, T
from rankloop.state import State
from rankloop.types import Decision, FloatArray, IntArray, Request
from rankloop.wrappers.base import Wrapper

S = TypeVar("S", bound=State)


@dataclass
class DiscountState(State, Generic[T]):
    """A policy's state, and what it was before the first click: the part that is not forgotten."""

    inner: T
    prior: T
    lessons: IntArray  # [B] rounds learned from, the next one's number

    @property
    def t(self) -> IntArray:
        """The round of the policy inside, [B]."""
        return self.inner.t


@dataclass(frozen=True)
class Discounted(Wrapper[DiscountState[T], T], Generic[T]):
    """Every lesson leaves a share γ of what was learned before it; the prior stays.

    A lesson that is n rounds old counts γⁿ, so the memory is about 1/(1-γ) rounds. The discount is applied in one step
    for a twentieth of the memory, γ^every, since forgetting costs more than learning.
    """

    policy: RankingPolicy[T]
    discount: float  # γ in (0, 1)

    def __post_init__(self) -> None:
        """Refuse a policy that cannot forget."""
        if not self.policy.forgets:
            raise Unsupported("cannot forget; leave out 'discount'.")

    @property
    def inner(self) -> RankingPolicy[T]:
        """The policy that forgets."""
        return self.policy

    def inner_state(self, state: DiscountState[T]) -> T:
        """The policy's own."""
        return state.inner

    @property
    def every(self) -> int:
        """Lessons after which the past is discounted, in one step for all of them: a twentieth of the memory."""
        return max(1, round(0.05 / (1.0 - self.discount)))

    def init(self, learners: int) -> DiscountState[T]:
        """Nothing learned, nothing forgotten."""
        first = np.ones(learners, dtype=np.int64)
        return DiscountState(self.policy.init(learners), self.policy.init(learners), first)

    def decide(self, state: DiscountState[T], request: Request, rng: np.random.Generator) -> Decision:
        """As the policy inside."""
        return self.policy.decide(state.inner, request, rng)

    def update(self, state: DiscountState[T], decision: Decision, clicks: FloatArray) -> None:
        """Forget where it is time, then learn."""
        due = state.lessons % self.every == 0
        if due.any():
            before = None if due.all() else state.inner.copy()
            self.policy.forget(state.inner, state.prior, self.discount**self.every)
            if before is not None:  # learners of one batch may be of different ages
                for (_, now), (_, then) in zip(state.inner.arrays(), before.arrays(), strict=True):
                    now[~due] = then[~due]
        self.policy.update(state.inner, decision, clicks)
        state.lessons += 1

    @property
    def forgets(self) -> bool:
        """Once is enough."""
        return False

    def believe(self, state: DiscountState[T], request: Request, item: int, score: float, strength: float) -> None:
        """The prior of the policy inside, and what it will not forget."""
        for one in (state.inner, state.prior):
            self.policy.believe(one, request, item, score, strength)

    def disbelieve(self, state: DiscountState[T], request: Request, item: int, score: float, strength: float) -> None:
        """Taken out of both."""
        for one in (state.inner, state.prior):
            self.policy.disbelieve(one, request, item, score, strength)
