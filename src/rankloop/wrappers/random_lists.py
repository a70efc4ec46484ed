"""Random lists in some rounds: warm-up rounds, and exploration with a fixed probability."""

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
    """Which learners, [B], show a random list, given their rounds t [B]."""

    def __call__(self, t: IntArray, rng: np.random.Generator) -> BoolArray:
        """Return True for the learners that show a random list."""

    def probability(self, t: IntArray) -> FloatArray | None:
        """Return each learner's probability of a random list, [B], for exact propensities; None if it is unknown."""
        return None


@dataclass(frozen=True)
class BeforeRound(RandomListSchedule):
    """All rounds before this one."""

    round: int

    def __call__(self, t: IntArray, rng: np.random.Generator) -> BoolArray:
        """Return True for the learners that have not reached the round."""
        return t < self.round

    def probability(self, t: IntArray) -> FloatArray | None:
        """Return 1 or 0, [B]."""
        return np.asarray(t < self.round, dtype=np.float64)

    def __str__(self) -> str:
        return f"before round {self.round}"


@dataclass(frozen=True)
class WithProbability(RandomListSchedule):
    """Each round of each learner, independently, with this probability."""

    epsilon: float

    def __call__(self, t: IntArray, rng: np.random.Generator) -> BoolArray:
        """Draw for each learner."""
        return rng.random(len(t)) < self.epsilon

    def probability(self, t: IntArray) -> FloatArray | None:
        """Return the probability, [B]."""
        return np.full(len(t), self.epsilon)

    def __str__(self) -> str:
        return f"with probability {self.epsilon:g}"


def before_round(round: int) -> RandomListSchedule:
    """Return the schedule of a warm-up: all rounds before this one."""
    return BeforeRound(round)


def with_probability(epsilon: float) -> RandomListSchedule:
    """Return the schedule that picks each round of each learner with this probability."""
    return WithProbability(epsilon)


@dataclass(frozen=True)
class RandomLists(Wrapper[T, T], Generic[T]):
    """Shows uniformly random lists in scheduled rounds, another policy's lists otherwise; learns from both."""

    policy: RankingPolicy[T]
    schedule: RandomListSchedule
    any_length: bool = False  # random lists have a length uniform on 0 … k instead of k

    @property
    def inner(self) -> RankingPolicy[T]:
        """The policy of the other rounds."""
        return self.policy

    def inner_state(self, state: T) -> T:
        """Return the same state."""
        return state

    @property
    def explores(self) -> bool:
        """True: some lists are random."""
        return True

    @property
    def random_length(self) -> bool:
        """Whether random lists have a random length."""
        return self.any_length

    def init(self, learners: int) -> T:
        """Return the inner policy's state."""
        return self.policy.init(learners)

    def decide(self, state: T, request: Request, rng: np.random.Generator) -> Decision:
        """Return random lists for the scheduled learners, the inner policy's for the others."""
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
        """Delegate to the inner policy."""
        self.policy.update(state, decision, clicks)

    def catch_up(self, state: T, decisions: Decision, clicks: FloatArray) -> bool:
        """Delegate to the inner policy."""
        return self.policy.catch_up(state, decisions, clicks)

    @property
    def amends(self) -> bool:
        """Delegate to the inner policy."""
        return self.policy.amends

    def amendable(self, items: IntArray, before: FloatArray, after: FloatArray) -> bool:
        """Delegate to the inner policy."""
        return self.policy.amendable(items, before, after)

    def amend(self, state: T, decision: Decision, before: FloatArray, after: FloatArray) -> None:
        """Delegate to the inner policy."""
        self.policy.amend(state, decision, before, after)

    def list_distribution(self) -> ListDistribution:
        """Return the mixture of random lists and the inner policy's, if the probability of a random list is known."""
        return lists.sometimes_random(
            self.schedule.probability, str(self.schedule), self.any_length, self.policy.list_distribution()
        )

    def in_batches(self, wrap: BatchWrapper) -> RandomLists[LearnerState]:
        """Return the same schedule around an inner policy that learns in batches."""
        return RandomLists(self.policy.in_batches(wrap), self.schedule, self.any_length)


def _no_scores(prefix: IntArray, slot: int) -> FloatArray:
    raise TypeError("the uniform planner uses no scores")
