"""Discounting: older observations count less, for non-stationary worlds."""

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
    """A policy's state, and its prior, which is not forgotten."""

    inner: T
    prior: T
    lessons: IntArray  # [B] number of the next update

    @property
    def t(self) -> IntArray:
        """The round of the inner policy, [B]."""
        return self.inner.t


@dataclass(frozen=True)
class Discounted(Wrapper[DiscountState[T], T], Generic[T]):
    """Every update keeps a share γ of what was learned before; the prior stays.

    An observation that is n rounds old counts γⁿ, so the memory is about 1/(1-γ) rounds. The discount γ^every is
    applied in one step for `every` rounds, a twentieth of the memory, since forgetting costs more than learning.
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
        """Return the inner policy's state."""
        return state.inner

    @property
    def every(self) -> int:
        """Number of updates between two discounts: a twentieth of the memory."""
        return max(1, round(0.05 / (1.0 - self.discount)))

    def init(self, learners: int) -> DiscountState[T]:
        """Return a state without observations."""
        first = np.ones(learners, dtype=np.int64)
        return DiscountState(self.policy.init(learners), self.policy.init(learners), first)

    def decide(self, state: DiscountState[T], request: Request, rng: np.random.Generator) -> Decision:
        """Delegate to the inner policy."""
        return self.policy.decide(state.inner, request, rng)

    def update(self, state: DiscountState[T], decision: Decision, clicks: FloatArray) -> None:
        """Forget where it is due, then learn."""
        due = state.lessons % self.every == 0
        if due.any():
            before = None if due.all() else state.inner.copy()
            self.policy.forget(state.inner, state.prior, self.discount**self.every)
            if before is not None:  # learners of one batch may have learned different numbers of rounds
                for (_, now), (_, then) in zip(state.inner.arrays(), before.arrays(), strict=True):
                    now[~due] = then[~due]
        self.policy.update(state.inner, decision, clicks)
        state.lessons += 1

    @property
    def forgets(self) -> bool:
        """False: the wrapper forgets already."""
        return False

    def believe(self, state: DiscountState[T], request: Request, item: int, score: float, strength: float) -> None:
        """Add the prior both to the state and to the part that is not forgotten."""
        for one in (state.inner, state.prior):
            self.policy.believe(one, request, item, score, strength)

    def disbelieve(self, state: DiscountState[T], request: Request, item: int, score: float, strength: float) -> None:
        """Remove the prior from both."""
        for one in (state.inner, state.prior):
            self.policy.disbelieve(one, request, item, score, strength)
