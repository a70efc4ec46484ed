"""The contract of a policy: what every policy does, and what some can do in addition.

A simulator and a service need the first methods of every policy. The capabilities after them default to "this policy
cannot"; a policy that has a capability overrides the default.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from rankloop.arrays import Array
from rankloop.errors import InvalidInput, Unsupported, Words
from rankloop.feedback import Feedback
from rankloop.propensity.list_distribution import ListDistribution, unknown
from rankloop.types import (
    BoolArray,
    Decision,
    FloatArray,
    IntArray,
    Read,
    Request,
    RowLayout,
    Rows,
    ScoreTrust,
    SlotEffects,
)


class LearnerState(Protocol):
    """The state of B learners: a tree of arrays with the round of each learner."""

    @property
    def t(self) -> IntArray:
        """The round that each learner decides next, from 1, [B]."""

    def view(self, learners: slice) -> Self:
        """Return the state of these learners, sharing memory."""

    def of_segment(self, segment: int) -> Self:
        """Return the state for decisions and lessons of a segment, sharing memory."""

    def copy(self) -> Self:
        """Return an independent copy."""

    def arrays(self, prefix: str = "") -> Iterator[tuple[str, Array]]:
        """Yield name and array of every leaf."""

    def assign(self, arrays: Mapping[str, Array]) -> None:
        """Overwrite every leaf in place."""

    def grow_into(self, larger: Self, layout: Callable[[int], RowLayout | None]) -> None:
        """Copy what was learned into a state with room for more items."""


T = TypeVar("T", bound=LearnerState)
T_contra = TypeVar("T_contra", bound=LearnerState, contravariant=True)


class GreedyPolicy(Protocol[T_contra]):
    """A policy without its exploration, on the same state."""

    def decide(self, state: T_contra, request: Request, rng: np.random.Generator) -> Decision:
        """Return the lists of largest estimated value."""

    def list_distribution(self) -> ListDistribution:
        """Return the distribution of its lists, in which only ties are random."""


class BatchWrapper(Protocol):
    """Wraps a composition, which learns from each round, into a policy that learns from several rounds at once."""

    def __call__(self, policy: Any, /) -> RankingPolicy[Any]:
        """Return the policy around the composition."""


class RankingPolicy(ABC, Generic[T]):
    """Decides lists and learns from the feedback on them, for a batch of B learners.

    Equal seeds give equal lists; `decide` changes nothing, `update` changes the state in place. What `check` accepts
    can be applied in any state, including by a replay.
    """

    if TYPE_CHECKING:  # a dataclass field of `Policy`: a property here would become its default at run time

        @property
        def feedback(self) -> Feedback:
            """The feedback model that reads clicks."""

    @property
    @abstractmethod
    def binary(self) -> bool:
        """Whether outcomes must be 0 or 1; otherwise any finite number is accepted."""

    @abstractmethod
    def init(self, learners: int) -> T:
        """Return the state of B learners without observations.

        A state of 0 learners takes no memory: its shapes tell how much one learner takes (`learner_bytes`).
        """

    @abstractmethod
    def decide(self, state: T, request: Request, rng: np.random.Generator) -> Decision:
        """Return lists for this request; the state is only read."""

    @abstractmethod
    def adopt(self, request: Request, items: ArrayLike) -> Decision:
        """Return the decision that shows lists [B, k] made elsewhere, so that the policy can learn from it."""

    @abstractmethod
    def check(self, decision: Decision, clicks: ArrayLike) -> FloatArray:
        """Return the clicks as floats [B, K], or refuse them.

        The result depends on the decision and the policy, never on the state.
        """

    @abstractmethod
    def update(self, state: T, decision: Decision, clicks: FloatArray) -> None:
        """Learn from clicks [B, K] that `check` returned; this never fails, whatever the state."""

    def learn(self, state: T, decision: Decision, clicks: ArrayLike, seen: BoolArray | None = None) -> None:
        """Check the clicks, then update. Impossible clicks are refused with nothing changed.

        Args:
            state: of B learners.
            decision: the lists shown.
            clicks: [B, K].
            seen: the slots that were visible, [B, K]; nothing is learned about the others, which are empty in the
                decision that `check` and `update` get. None: all of them.
        """
        B = len(decision.items)
        if len(state.t) != B:
            raise InvalidInput("decision", Words(f"a decision of {B} learners"), f"one of {len(state.t)}")
        shown = decision if seen is None else decision.as_seen(seen)
        self.update(state, shown, self.check(shown, clicks))

    # Memory

    def learner_bytes(self) -> int:
        """Return the bytes of the state of one learner, without allocating it."""
        return sum(math.prod(array.shape[1:]) * array.itemsize for _, array in self.init(0).arrays())

    def working_bytes(self, items: int, slots: int) -> int:
        """Return the most bytes that a decision takes for a moment where these may exceed the state's; otherwise 0."""
        return 0

    # Properties

    @property
    def reads(self) -> frozenset[Read]:
        """What its scores depend on besides the items themselves."""
        return frozenset()

    @property
    def checks_rows(self) -> bool:
        """Whether `check` may refuse a decision whatever its clicks are, so that it needs the whole decision."""
        return True

    @property
    def fractional(self) -> bool:
        """Whether the policy can learn from an exposure between 0 and 1."""
        return False

    @property
    def takes_amounts(self) -> bool:
        """Whether outcomes may be amounts, such as watch time, and not only clicks."""
        return not self.binary and self.feedback.every_slot

    @property
    def keeps_caps(self) -> bool:
        """Whether lists keep the caps of a request; otherwise requests with caps are refused."""
        return False

    def approximate(self, request: Request) -> bool:
        """Return whether caps of the request are kept greedily, so that a list of larger value may exist."""
        return False

    @property
    def explores(self) -> bool:
        """Whether lists may differ from those of largest estimated value."""
        return True

    @property
    def pools(self) -> bool:
        """Whether one learner serves all segments (`of_segment` of its state), which share what they learn."""
        return False

    @property
    def learns_off_policy(self) -> bool:
        """Whether lists of another policy are as informative as its own."""
        return False

    @property
    def ignores_slots(self) -> bool:
        """Whether what it learns about an item does not depend on the item's slot."""
        return False

    @property
    def estimates_rates(self) -> bool:
        """Whether an item's estimate is the mean of its own outcomes."""
        return False

    # Estimates and distributions

    def predict(self, state: T, decision: Decision) -> FloatArray | None:
        """Return the probability of a click in each slot of a decision, [B, K]; None without estimates."""
        return None

    def estimates(self, state: T, request: Request) -> tuple[FloatArray, FloatArray | None] | None:
        """Return estimate and uncertainty of every item in the first slot, each [B, L]; None where it has none."""
        return None

    def slot_effects(self, state: T) -> SlotEffects | None:
        """Return the position biases that it has learned, with intervals; None if it learns none."""
        return None

    def score_trust(self, state: T) -> ScoreTrust | None:
        """Return how far it trusts the caller's own scores by now; None if it does not weigh them."""
        return None

    def explain(self, state: T, fresh: T, decision: Decision) -> FloatArray | None:
        """Return estimate, uncertainty and prior share of each listed item of one learner, [3, k], NaN where missing.

        Args:
            state: of one learner.
            fresh: of one learner without observations, whose uncertainty is the prior's.
            decision: of one learner.
        """
        return None

    def greedy(self) -> GreedyPolicy[T] | None:
        """Return the policy without exploration; None where it has no estimates."""
        return None

    def without_exploration(self) -> RankingPolicy[T] | None:
        """Return the policy with an exploration radius of 0; None where it has no such parameter."""
        return None

    @property
    def random_length(self) -> bool:
        """Whether lists may be shorter than possible for reasons other than their value."""
        return False

    def list_distribution(self) -> ListDistribution:
        """Return the distribution of its lists, with closed-form probabilities where it has them."""
        return unknown("the policy has no closed form")

    # Operations on a state

    def catch_up(self, state: T, decisions: Decision, clicks: FloatArray) -> bool:
        """Learn from T lists [T, K] of one learner in order, with the same result as T updates, bit for bit.

        Returns False, with nothing changed, where it has no faster way than T updates.
        """
        return False

    @property
    def amends(self) -> bool:
        """Whether the outcome of a list can be replaced after it was learned (`amend`)."""
        return False

    def amendable(self, items: IntArray, before: FloatArray, after: FloatArray) -> bool:
        """Return whether these clicks [B, K] on lists [B, K] can be replaced; the state does not matter.

        They cannot where the new clicks change which slots were observed: nothing learned can be unlearned.
        """
        return False

    def amend(self, state: T, decision: Decision, before: FloatArray, after: FloatArray) -> None:
        """Replace `amendable` clicks [B, K] with which a list was learned, in place.

        The state is the one that learning the new clicks in their place gives, up to rounding.
        """
        raise Unsupported("this policy cannot amend what it has learned.")

    def rows_of_lists(self, request: Request, lists: IntArray) -> Rows:
        """Return the rows of lists [B, K], as this policy scores them."""
        return self.adopt(request, lists).rows

    def layout(self, width: int) -> RowLayout | None:
        """Return where the features of a row of this width, made for fewer items, are now; None: unmoved."""
        return None

    def grow(self, state: T) -> T:
        """Return a state with this policy's capacity from one of the same policy built for fewer items."""
        larger = self.init(len(state.t))
        state.grow_into(larger, self.layout)
        return larger

    @property
    def forgets(self) -> bool:
        """Whether `forget` is defined."""
        return False

    def forget(self, state: T, prior: T, share: float) -> None:
        """Keep this share of the observations, in place; the prior stays."""
        raise Unsupported("this policy cannot forget.")

    @property
    def takes_priors(self) -> bool:
        """Whether items may have scores of another ranker as a prior (`believe`)."""
        return False

    @property
    def replaces_priors(self) -> bool:
        """Whether a prior can be removed later, so that another may replace it (`disbelieve`)."""
        return False

    def believe(self, state: T, request: Request, item: int, score: float, strength: float) -> None:
        """Learn in place as if an item had been observed `strength` times with mean outcome `score`.

        Args:
            state: of B learners.
            request: of one learner, for as many slots as the policy has: the items and their features.
            item: its index.
            score: mean outcome, in [0, 1] where outcomes are clicks.
            strength: number of pseudo-observations, at least 0.
        """
        raise Unsupported("this policy does not accept a prior for an item.")

    def disbelieve(self, state: T, request: Request, item: int, score: float, strength: float) -> None:
        """Undo `believe` with the same arguments; what was learned since then stays."""
        raise Unsupported("this policy cannot remove the prior of an item.")

    # Variants

    @property
    def takes_feedback(self) -> bool:
        """Whether the feedback model can be replaced (`with_feedback`)."""
        return False

    def with_feedback(self, feedback: Feedback) -> RankingPolicy[T]:
        """Return the same policy with another feedback model."""
        raise Unsupported("reads clicks in its own way only; leave out 'feedback'.")

    def in_batches(self, wrap: BatchWrapper) -> RankingPolicy[LearnerState]:
        """Return the same policy that learns from several rounds at once; `wrap` wraps the composition inside."""
        raise Unsupported("decides by itself when it learns; leave out 'every'.")
