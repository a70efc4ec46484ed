"""Random lists at times: warm-up rounds, and exploration with a fixed probability."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from rankloop.errors import InvalidInput
from rankloop.plan.pinned import around_pins
from rankloop.plan.uniform import Uniform
from rankloop.propensity import list_distribution as lists
from rankloop.propensity.list_distribution import ListDistribution
from rankloop.ranking_policy import BatchWrapper, LearnerState, RankingPolicy, T
from rankloop.state import State
from rankloop.types import EMPTY, BoolArray, Decision, FloatArray, IntArray, Request
from rankloop.wrappers.base import Wrapper

S = TypeVar("S", bound=State)


class RandomListSchedule(Protocol):
    """Which learners, [B], given their rounds t [B]."""

    def __call__(self, t: IntArray, rng: np.random.Generator) -> BoolArray:
        """Those whose time it is."""

    def probability(self, t: IntArray) -> FloatArray | None:
        """The probability of each learner, [B], by which propensities are known; None where it is not known."""
        return None


@dataclass(frozen=True)
class BeforeRound(RandomListSchedule):
    """The rounds before this one."""

    round: int

    def __call__(self, t: IntArray, rng: np.random.Generator) -> BoolArray:
        """Those who have not come so far."""
        return t < self.round

    def probability(self, t: IntArray) -> FloatArray | None:
        """1 or 0, [B]."""
        return np.asarray(t < self.round, dtype=np.float64)

    def __str__(self) -> str:
        return f"before round {self.round}"


@dataclass(frozen=True)
class WithProbability(RandomListSchedule):
    """Each learner in each round with this probability."""

    epsilon: float

    def __call__(self, t: IntArray, rng: np.random.Generator) -> BoolArray:
        """A draw for each learner."""
        return rng.random(len(t)) < self.epsilon

    def probability(self, t: IntArray) -> FloatArray | None:
        """The probability, [B]."""
        return np.full(len(t), self.epsilon)

    def __str__(self) -> str:
        return f"with probability {self.epsilon:g}"


def before_round(round: int) -> RandomListSchedule:
    """The rounds before this one: a warm-up."""
    return BeforeRound(round)


def with_probability(epsilon: float) -> RandomListSchedule:
    """Each learner in each round with this probability."""
    return WithProbability(epsilon)


@dataclass(frozen=True)
class RandomLists(Wrapper[T, T], Generic[T]):
    """Uniformly random lists at times, another policy's otherwise; both are learned from."""

    policy: RankingPolicy[T]
    schedule: RandomListSchedule
    any_length: bool = False  # a length uniform on 0 … k instead of k

    @property
    def inner(self) -> RankingPolicy[T]:
        """The policy of the other times."""
        return self.policy

    def inner_state(self, state: T) -> T:
        """The same state."""
        return state

    @property
    def explores(self) -> bool:
        """At random times."""
        return True

    @property
    def random_length(self) -> bool:
        """Where random lists have a random length."""
        return self.any_length

    def init(self, learners: int) -> T:
        """The inner policy's state."""
        return self.policy.init(learners)

    def decide(self, state: T, request: Request, rng: np.random.Generator) -> Decision:
        """Random lists for the learners whose time it is."""
        if request.learners != len(state.t):
            raise InvalidInput("request.learners", request.learners, f"{len(state.t)}, as many as the state has")
        random = self.schedule(state.t, rng)
        if not random.any():
            return self.policy.decide(state, request, rng)
        if request.pinned is None:
            lists = Uniform()(_no_scores, request, rng).items
        else:
            lists = around_pins(Uniform(), _no_scores, request, rng).items
        if self.any_length:
            length = rng.integers(0, (lists != EMPTY).sum(axis=1), endpoint=True)
            held = False if request.pinned is None else request.pinned != EMPTY
            lists[(np.arange(request.k) >= length[:, None]) & ~np.asarray(held)] = EMPTY
        if not random.all():
            own = self.policy.decide(state, request, rng).items
            lists = np.where(random[:, None], lists, own)
        return self.policy.adopt(request, lists)

    def update(self, state: T, decision: Decision, clicks: FloatArray) -> None:
        """As the inner policy."""
        self.policy.update(state, decision, clicks)

    def catch_up(self, state: T, decisions: Decision, clicks: FloatArray) -> bool:
        """As the inner policy."""
        return self.policy.catch_up(state, decisions, clicks)

    def amend(self, state: T, decision: Decision, before: FloatArray, after: FloatArray) -> bool:
        """As the inner policy."""
        return self.policy.amend(state, decision, before, after)

    def list_distribution(self) -> ListDistribution:
        """A mixture of random lists and the inner policy's, where the chance of a random one is known."""
        return lists.sometimes_random(
            self.schedule.probability, str(self.schedule), self.any_length, self.policy.list_distribution()
        )

    def in_batches(self, wrap: BatchWrapper) -> RandomLists[LearnerState]:
        """Random lists stay where they are; the inner policy learns in batches."""
        return RandomLists(self.policy.in_batches(wrap), self.schedule, self.any_length)


def _no_scores(prefix: IntArray, slot: int) -> FloatArray:
    raise TypeError("the uniform planner uses no scores")
