"""The contract of a policy: what every policy does, and what some can do besides.

The first methods are what a simulator and a service need of every policy. The capabilities after them have a default
that says "this policy cannot": a policy that can overrides them, and nothing else needs to know.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from rankloop.arrays import Array
from rankloop.errors import InvalidInput, Unsupported, Words
from rankloop.feedback import Feedback
from rankloop.propensity.list_distribution import ListDistribution, unknown
from rankloop.types import Decision, FloatArray, IntArray, Read, Request, RowLayout, Rows


class LearnerState(Protocol):
    """The state of B learners: a tree of arrays that knows the round of each learner."""

    @property
    def t(self) -> IntArray:
        """The round that each learner decides next, from 1, [B]."""

    def view(self, learners: slice) -> Self:
        """These learners only, sharing memory."""

    def copy(self) -> Self:
        """An independent copy."""

    def arrays(self, prefix: str = "") -> Iterator[tuple[str, Array]]:
        """Name and array of every leaf."""

    def assign(self, arrays: Mapping[str, Array]) -> None:
        """Overwrite every leaf in place."""

    def grow_into(self, larger: Self, layout: Callable[[int], RowLayout | None]) -> None:
        """Write what was learned into a state with room for more items."""


T = TypeVar("T", bound=LearnerState)
T_contra = TypeVar("T_contra", bound=LearnerState, contravariant=True)


class GreedyPolicy(Protocol[T_contra]):
    """A policy without its exploration, on the same state."""

    def decide(self, state: T_contra, request: Request, rng: np.random.Generator) -> Decision:
        """The lists that are believed best."""

    def list_distribution(self) -> ListDistribution:
        """What is random about them: ties."""


class BatchWrapper(Protocol):
    """Makes a policy that learns from several rounds together of a composition, which learns from each."""

    def __call__(self, policy: Any, /) -> RankingPolicy[Any]:
        """The policy around the composition."""


class RankingPolicy(ABC, Generic[T]):
    """Decides lists and learns from what happened to them, for B learners at once.

    Equal seeds give equal lists; `decide` changes nothing, `update` changes the state in place. What `check` has
    accepted can be applied in any state, also by a replay.
    """

    if TYPE_CHECKING:  # a field of the composition: at run time, a property here would be taken for its default

        @property
        def feedback(self) -> Feedback:
            """How clicks are read."""

    @property
    @abstractmethod
    def binary(self) -> bool:
        """True where outcomes must be 0 or 1; otherwise any finite number teaches."""

    @abstractmethod
    def init(self, learners: int) -> T:
        """The state of B learners who have seen nothing."""

    @abstractmethod
    def decide(self, state: T, request: Request, rng: np.random.Generator) -> Decision:
        """Lists for this request; the state is only read."""

    @abstractmethod
    def adopt(self, request: Request, items: ArrayLike) -> Decision:
        """The decision that shows lists [B, k] made elsewhere, so that it can be learned from."""

    @abstractmethod
    def check(self, decision: Decision, clicks: ArrayLike) -> FloatArray:
        """The clicks as floats [B, K], or an error. It depends on the decision and the policy, never on the state."""

    @abstractmethod
    def update(self, state: T, decision: Decision, clicks: FloatArray) -> None:
        """Learn from clicks [B, K] that `check` has returned, in any state; this never refuses."""

    def learn(self, state: T, decision: Decision, clicks: ArrayLike) -> None:
        """Check the clicks, then update. Clicks that cannot be are refused, nothing changed."""
        B = len(decision.items)
        if len(state.t) != B:
            raise InvalidInput("decision", Words(f"a decision of {B} learners"), f"one of {len(state.t)}")
        self.update(state, decision, self.check(decision, clicks))

    # What it depends on

    @property
    def reads(self) -> frozenset[Read]:
        """What its scores depend on besides the items themselves."""
        return frozenset()

    @property
    def checks_rows(self) -> bool:
        """True where `check` may refuse a decision whatever its clicks are, so that each must be checked as a whole."""
        return True

    @property
    def fractional(self) -> bool:
        """True where an exposure between 0 and 1 is understood."""
        return False

    @property
    def takes_amounts(self) -> bool:
        """True where outcomes may be amounts, such as watch time, and not only clicks."""
        return not self.binary and self.feedback.every_slot

    @property
    def explores(self) -> bool:
        """True where lists may differ from those that are believed best."""
        return True

    @property
    def learns_off_policy(self) -> bool:
        """True where lists that another policy made teach as well as its own."""
        return False

    @property
    def ignores_slots(self) -> bool:
        """True where what it learns of an item does not depend on where the item stood."""
        return False

    @property
    def estimates_rates(self) -> bool:
        """True where the estimate of an item is the rate of its own outcomes."""
        return False

    # What it knows

    def predict(self, state: T, decision: Decision) -> FloatArray | None:
        """Probability of a click in each slot of a decision, [B, K]; None where the policy has no estimates."""
        return None

    def estimates(self, state: T, request: Request) -> tuple[FloatArray, FloatArray | None] | None:
        """Estimate and uncertainty of every item in the first slot, each [B, L]; None where it has none."""
        return None

    def explain(self, state: T, fresh: T, decision: Decision) -> FloatArray | None:
        """Estimate, uncertainty and prior share of each listed item of one learner, [3, k], NaN where there is none.

        Args:
            state: of one learner.
            fresh: of one learner who has seen nothing: what it is unsure of is the prior's.
            decision: of one learner.
        """
        return None

    def greedy(self) -> GreedyPolicy[T] | None:
        """The policy without exploring; None where it has no estimates."""
        return None

    def without_exploration(self) -> RankingPolicy[T] | None:
        """The policy with its exploration turned down to nothing; None where it has no such knob."""
        return None

    @property
    def random_length(self) -> bool:
        """True where lists may be shorter than they could be, whatever that is worth."""
        return False

    def list_distribution(self) -> ListDistribution:
        """What is random about its lists, and their probabilities in closed form where they have one."""
        return unknown("nothing is known of its parts")

    # What else it can do with a state

    def catch_up(self, state: T, decisions: Decision, clicks: FloatArray) -> bool:
        """Learn from T lists [T, K] of one learner in their order, the same bit for bit as T updates.

        Returns False, with nothing changed, where it has no quicker way than T updates.
        """
        return False

    def amend(self, state: T, decision: Decision, before: FloatArray, after: FloatArray) -> bool:
        """Let a list that was learned with some clicks [B, K] have other ones, in place: as if those had been learned.

        Returns False, with nothing changed, where that cannot be done: the belief minds the order of what it learns, or
        the other clicks change which slots were observed.
        """
        return False

    def rows_of_lists(self, request: Request, lists: IntArray) -> Rows:
        """Rows of lists [B, K], as this policy scores them."""
        return self.adopt(request, lists).rows

    def layout(self, width: int) -> RowLayout | None:
        """Where the features of a row of this width, made for fewer items, stand now; None: they stay in place."""
        return None

    def grow(self, state: T) -> T:
        """The state of the same policy built for fewer items, with the room that this one has."""
        larger = self.init(len(state.t))
        state.grow_into(larger, self.layout)
        return larger

    @property
    def forgets(self) -> bool:
        """True where `forget` is defined."""
        return False

    def forget(self, state: T, prior: T, share: float) -> None:
        """Keep this share of what was observed, in place; what was believed before the first click stays."""
        raise Unsupported("this policy cannot forget.")

    @property
    def takes_priors(self) -> bool:
        """True where items may bring scores of another ranker (`believe`)."""
        return False

    @property
    def replaces_priors(self) -> bool:
        """True where a prior can be taken back later, so that another may replace it (`disbelieve`)."""
        return False

    def believe(self, state: T, request: Request, item: int, score: float, strength: float) -> None:
        """Learn in place as if an item had been seen `strength` times with outcome `score` on average.

        Args:
            state: of B learners.
            request: of one learner, for as many slots as the policy has: the items and their features.
            item: its index.
            score: mean outcome, in [0, 1] where outcomes are clicks.
            strength: number of pseudo-observations, at least 0.
        """
        raise Unsupported("this policy takes no prior of an item.")

    def disbelieve(self, state: T, request: Request, item: int, score: float, strength: float) -> None:
        """Take back what `believe` did with the same arguments; what was learned since then stays."""
        raise Unsupported("this policy cannot take back the prior of an item.")

    # Variants

    @property
    def takes_feedback(self) -> bool:
        """True where it may be told to read clicks in another way (`with_feedback`)."""
        return False

    def with_feedback(self, feedback: Feedback) -> RankingPolicy[T]:
        """The same policy that reads clicks in another way."""
        raise Unsupported("reads clicks in its own way only; leave out 'feedback'.")

    def in_batches(self, wrap: BatchWrapper) -> RankingPolicy[LearnerState]:
        """The same policy that learns from several rounds together: `wrap` wraps the composition inside."""
        raise Unsupported("decides by itself when it learns; leave out 'every'.")
