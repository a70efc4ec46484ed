"""A policy is a design × a belief × an exploration rule × a planner, reading clicks through a feedback."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from rankloop import feedback as reading
from rankloop.belief.base import Belief, check_rows, defines_both, expected_outcomes, has_row_check
from rankloop.design import Design
from rankloop.errors import InvalidInput, Words
from rankloop.explore.base import Explore
from rankloop.feedback import Feedback
from rankloop.math.arrays import take
from rankloop.plan.base import Planner
from rankloop.plan.pinned import around_pins
from rankloop.state import State
from rankloop.types import EMPTY, Decision, FloatArray, IntArray, Layout, Request, SlotScore

S = TypeVar("S", bound=State)


@dataclass
class PolicyState(State, Generic[S]):
    """Everything a policy remembers."""

    t: IntArray  # [B] the round that each learner decides next, from 1
    belief: S


class Ranks(Protocol):
    """What a simulator needs of a policy: how it starts, decides, learns and reads clicks."""

    @property
    def feedback(self) -> Feedback:
        """How clicks are read."""

    def init(self, learners: int) -> Any:
        """The state of B learners who have seen nothing."""

    def decide(self, state: Any, request: Request, rng: np.random.Generator) -> Decision:
        """Lists for this request; the state is only read."""

    def learn(self, state: Any, decision: Decision, clicks: ArrayLike) -> None:
        """Learn from what happened to a decision, or refuse it with nothing changed."""

    def adopt(self, request: Request, items: ArrayLike) -> Decision:
        """The decision that shows lists made elsewhere."""


@runtime_checkable
class Servable(Ranks, Protocol):
    """What a service needs as well: it checks feedback before it is committed, and items come while it runs."""

    @property
    def binary(self) -> bool:
        """True where outcomes must be 0 or 1; otherwise any finite number teaches."""

    @property
    def checks_rows(self) -> bool:
        """True where `check` may refuse a decision whatever its clicks are, so that each must be checked as a whole."""

    def check(self, decision: Decision, clicks: ArrayLike) -> FloatArray:
        """The clicks as floats [B, K]; everything that learning from them could refuse is refused here."""

    def update(self, state: Any, decision: Decision, clicks: FloatArray) -> None:
        """Learn from clicks that `check` has returned, in any state; this never refuses."""

    def layout(self, width: int) -> Layout | None:
        """Where the features of a row of this width, made for fewer items, stand now; None: they stay in place."""

    def predict(self, state: Any, decision: Decision) -> FloatArray | None:
        """Probability of a click in each slot of a decision, [B, K]; None where the policy has no estimates."""


class CheckedLearning(ABC):
    """`learn` in two steps. What `check` has accepted can be applied in any state, also by a replay."""

    @property
    def checks_rows(self) -> bool:
        """Unless a policy knows better, every decision is checked as a whole."""
        return True

    @abstractmethod
    def check(self, decision: Decision, clicks: ArrayLike) -> FloatArray:
        """The clicks as floats [B, K], or an error. It depends on the decision and the policy, never on the state."""

    @abstractmethod
    def update(self, state: Any, decision: Decision, clicks: FloatArray) -> None:
        """Learn from clicks [B, K] that were checked."""

    def learn(self, state: Any, decision: Decision, clicks: ArrayLike) -> None:
        """Check the clicks, then update. Clicks that cannot be are refused, nothing changed."""
        B = len(decision.items)
        if len(state.t) != B:
            raise InvalidInput("decision", Words(f"a decision of {B} learners"), f"one of {len(state.t)}")
        self.update(state, decision, self.check(decision, clicks))


@dataclass(frozen=True)
class Policy(CheckedLearning, Generic[S]):
    """The composition. Equal seeds give equal lists; `decide` changes nothing, `learn` changes in place."""

    design: Design
    belief: Belief[S]
    explore: Explore[S]
    plan: Planner
    feedback: Feedback

    def init(self, learners: int) -> PolicyState[S]:
        """The state of B learners who have seen nothing."""
        return PolicyState(np.ones(learners, dtype=np.int64), self.belief.init(learners))

    def decide(self, state: PolicyState[S], request: Request, rng: np.random.Generator) -> Decision:
        """Lists [B, k] for this request; the state is only read."""
        if request.learners != len(state.t):
            raise InvalidInput("request.learners", request.learners, f"{len(state.t)}, as many as the state has")
        items, scores, rivals = around_pins(self.plan, self.scores(state, request, rng), request, rng)
        return Decision(items, self.design.pick(request, items), request, scores, rivals)

    def scores(self, state: PolicyState[S], request: Request, rng: np.random.Generator) -> SlotScore:
        """What the planner gets: the scores [B, L] of all items for a slot after a prefix."""
        score = self.explore(state.belief, state.t, rng)

        def score_slot(prefix: IntArray, slot: int) -> FloatArray:
            scores = score(self.design.rows(request, prefix, slot))
            if scores.shape != (request.learners, request.items):
                known = scores.shape[1]
                raise InvalidInput("request.items", request.items, f"{known}, the items that this policy was built for")
            return scores

        return score_slot

    @property
    def binary(self) -> bool:
        """As the belief says."""
        return self.belief.binary

    @property
    def checks_rows(self) -> bool:
        """As the belief; a subclass with a check of its own is always asked."""
        return type(self).check is not Policy.check or has_row_check(self.belief)

    def check(self, decision: Decision, clicks: ArrayLike) -> FloatArray:
        """What the feedback and the belief could refuse."""
        y = reading.check(decision, clicks, single=self.feedback.single, binary=self.binary)
        check_rows(self.belief, decision)
        return y

    def update(self, state: PolicyState[S], decision: Decision, clicks: FloatArray) -> None:
        """Learn from clicks [B, K] that were checked."""
        self.belief.update(state.belief, decision, self.feedback.read(decision.items, clicks))
        state.t += 1

    def catch_up(self, state: PolicyState[S], decisions: Decision, clicks: FloatArray) -> None:
        """Learn from T lists [T, K] of one learner in their order: the same, bit for bit, as T updates.

        Only for beliefs that can; see `catches_up`.
        """
        belief: Any = self.belief
        belief.catch_up(state.belief, decisions, self.feedback.read(decisions.items, clicks))
        state.t += len(decisions.items)

    def layout(self, width: int) -> Layout | None:
        """As the design says."""
        return self.design.layout(width)

    def adopt(self, request: Request, items: ArrayLike) -> Decision:
        """The decision that shows these lists [B, k], made elsewhere, so that it can be learned from."""
        lists = reading.numbers("items", items, kinds="iu").astype(np.int64)
        if lists.shape != (request.learners, request.k):
            raise InvalidInput("items", Words(f"an array of shape {lists.shape}"), f"({request.learners}, {request.k})")
        shown = lists[lists != EMPTY]
        if shown.size and not (shown.min() >= 0 and shown.max() < request.items):
            raise InvalidInput("items", lists.tolist(), f"items 0 to {request.items - 1}, -1 for an empty slot")
        reading.distinct(lists)
        if request.allowed is not None:
            may = np.broadcast_to(request.allowed, (request.learners, request.items))
            if not (take(may, np.maximum(lists, 0)) | (lists == EMPTY)).all():
                raise InvalidInput("items", lists.tolist(), "items that the request allows")
        return Decision(lists, self.design.pick(request, lists), request)

    def predict(self, state: PolicyState[S], decision: Decision) -> FloatArray | None:
        """Probability of a click in each slot of a decision, [B, K]; None where the belief has no estimates."""
        expected = expected_outcomes(state.belief, decision)
        return None if expected is None else self.feedback.click_probability(expected)


def catches_up(policy: Any) -> bool:
    """Whether `policy.catch_up` is the same as its updates: the classes that define `update` define both."""
    return defines_both(policy) and defines_both(policy.belief)


def grow(policy: Servable, state: Any) -> Any:
    """The state of the same policy built for fewer items, with the room that `policy` has; nothing learned changes."""
    larger = policy.init(len(state.t))
    state.grow_into(larger, policy.layout)
    return larger
