"""The base of all wrappers: what a wrapper does not change is delegated to the inner policy."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from rankloop.feedback import Feedback
from rankloop.propensity import list_distribution as lists
from rankloop.propensity.list_distribution import ListDistribution
from rankloop.ranking_policy import GreedyPolicy, LearnerState, RankingPolicy, T
from rankloop.types import Decision, FloatArray, IntArray, Read, Request, RowLayout, Rows, ScoreTrust, SlotEffects

U = TypeVar("U", bound=LearnerState)


class Wrapper(RankingPolicy[T], Generic[T, U]):
    """A policy around another one, which answers unless the wrapper overrides a method."""

    @property
    @abstractmethod
    def inner(self) -> RankingPolicy[U]:
        """The inner policy."""

    @abstractmethod
    def inner_state(self, state: T) -> U:
        """Return the state of the inner policy."""

    def working_bytes(self, items: int, slots: int) -> int:
        """Delegate to the inner policy."""
        return self.inner.working_bytes(items, slots)

    @property
    def feedback(self) -> Feedback:
        """Delegate to the inner policy."""
        return self.inner.feedback

    @property
    def binary(self) -> bool:
        """Delegate to the inner policy."""
        return self.inner.binary

    @property
    def fractional(self) -> bool:
        """Delegate to the inner policy."""
        return self.inner.fractional

    @property
    def reads(self) -> frozenset[Read]:
        """Delegate to the inner policy."""
        return self.inner.reads

    @property
    def checks_rows(self) -> bool:
        """Delegate to the inner policy."""
        return self.inner.checks_rows

    @property
    def keeps_caps(self) -> bool:
        """Delegate to the inner policy."""
        return self.inner.keeps_caps

    def approximate(self, request: Request) -> bool:
        """Delegate to the inner policy."""
        return self.inner.approximate(request)

    @property
    def explores(self) -> bool:
        """Delegate to the inner policy."""
        return self.inner.explores

    @property
    def learns_off_policy(self) -> bool:
        """Delegate to the inner policy."""
        return self.inner.learns_off_policy

    @property
    def pools(self) -> bool:
        """Delegate to the inner policy."""
        return self.inner.pools

    @property
    def ignores_slots(self) -> bool:
        """Delegate to the inner policy."""
        return self.inner.ignores_slots

    @property
    def estimates_rates(self) -> bool:
        """Delegate to the inner policy."""
        return self.inner.estimates_rates

    def adopt(self, request: Request, items: ArrayLike) -> Decision:
        """Delegate to the inner policy."""
        return self.inner.adopt(request, items)

    def rows_of_lists(self, request: Request, lists: IntArray) -> Rows:
        """Delegate to the inner policy."""
        return self.inner.rows_of_lists(request, lists)

    def check(self, decision: Decision, clicks: ArrayLike) -> FloatArray:
        """Delegate to the inner policy."""
        return self.inner.check(decision, clicks)

    def layout(self, width: int) -> RowLayout | None:
        """Delegate to the inner policy."""
        return self.inner.layout(width)

    def predict(self, state: T, decision: Decision) -> FloatArray | None:
        """Delegate to the inner policy: a prediction does not depend on who made the list."""
        return self.inner.predict(self.inner_state(state), decision)

    def estimates(self, state: T, request: Request) -> tuple[FloatArray, FloatArray | None] | None:
        """Delegate to the inner policy."""
        return self.inner.estimates(self.inner_state(state), request)

    def slot_effects(self, state: T) -> SlotEffects | None:
        """Delegate to the inner policy."""
        return self.inner.slot_effects(self.inner_state(state))

    def score_trust(self, state: T) -> ScoreTrust | None:
        """Delegate to the inner policy."""
        return self.inner.score_trust(self.inner_state(state))

    def explain(self, state: T, fresh: T, decision: Decision) -> FloatArray | None:
        """Delegate to the inner policy."""
        return self.inner.explain(self.inner_state(state), self.inner_state(fresh), decision)

    def greedy(self) -> GreedyPolicy[T] | None:
        """Return the inner policy without exploration, on the wrapper's state."""
        inner = self.inner.greedy()
        return None if inner is None else GreedyInsideWrapper(inner, self)

    def list_distribution(self) -> ListDistribution:
        """Delegate to the inner policy."""
        return lists.within(self.inner.list_distribution(), self.inner_state)

    @property
    def forgets(self) -> bool:
        """Delegate to the inner policy."""
        return self.inner.forgets

    def forget(self, state: T, prior: T, share: float) -> None:
        """Delegate to the inner policy."""
        self.inner.forget(self.inner_state(state), self.inner_state(prior), share)

    @property
    def takes_priors(self) -> bool:
        """Delegate to the inner policy."""
        return self.inner.takes_priors

    @property
    def replaces_priors(self) -> bool:
        """Delegate to the inner policy."""
        return self.inner.replaces_priors

    def believe(self, state: T, request: Request, item: int, score: float, strength: float) -> None:
        """Delegate to the inner policy."""
        self.inner.believe(self.inner_state(state), request, item, score, strength)

    def disbelieve(self, state: T, request: Request, item: int, score: float, strength: float) -> None:
        """Delegate to the inner policy."""
        self.inner.disbelieve(self.inner_state(state), request, item, score, strength)


@dataclass(frozen=True)
class GreedyInsideWrapper(Generic[T, U]):
    """The greedy variant of a wrapped policy, on the wrapper's state."""

    policy: GreedyPolicy[U]
    wrapper: Wrapper[T, U]

    def decide(self, state: T, request: Request, rng: np.random.Generator) -> Decision:
        """Return the lists of largest estimated value."""
        return self.policy.decide(self.wrapper.inner_state(state), request, rng)

    def list_distribution(self) -> ListDistribution:
        """Delegate to the inner policy."""
        return lists.within(self.policy.list_distribution(), self.wrapper.inner_state)
