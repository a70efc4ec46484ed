"""A policy is a design × a belief × an exploration rule × a planner, reading clicks through a feedback."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from rankloop import feedback as reading
from rankloop.belief.base import Belief
from rankloop.design import Design
from rankloop.errors import InvalidInput, Words
from rankloop.explore.base import Explore
from rankloop.feedback import Feedback
from rankloop.math.arrays import take
from rankloop.plan.base import Planner
from rankloop.plan.pinned import around_pins
from rankloop.state import State
from rankloop.types import EMPTY, Decision, FloatArray, IntArray, Request, SlotScore

S = TypeVar("S", bound=State)


@dataclass
class PolicyState(State, Generic[S]):
    """Everything a policy remembers."""

    t: IntArray  # [B] the round that each learner decides next, from 1
    belief: S


class Ranks(Protocol):
    """What a simulator or a service needs of a policy: how it starts, decides, learns and reads clicks."""

    @property
    def feedback(self) -> Feedback:
        """How clicks are read."""

    def init(self, learners: int) -> Any:
        """The state of B learners who have seen nothing."""

    def decide(self, state: Any, request: Request, rng: np.random.Generator) -> Decision:
        """Lists for this request; the state is only read."""

    def learn(self, state: Any, decision: Decision, clicks: ArrayLike) -> None:
        """Take in what happened to a decision."""

    def adopt(self, request: Request, items: ArrayLike) -> Decision:
        """The decision that shows lists made elsewhere."""


@dataclass(frozen=True)
class Policy(Generic[S]):
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

    def learn(self, state: PolicyState[S], decision: Decision, clicks: ArrayLike) -> None:
        """Take in the clicks [B, K] on a decision. Clicks that cannot be are refused, nothing changed."""
        y = reading.check(
            decision, clicks, learners=len(state.t), single=self.feedback.single, binary=self.belief.binary
        )
        self.take_in(state, decision, y)

    def take_in(self, state: PolicyState[S], decision: Decision, clicks: FloatArray) -> None:
        """Learn from clicks [B, K] that were checked before."""
        self.belief.update(state.belief, decision, self.feedback.read(decision.items, clicks))
        state.t += 1

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


def in_sequence(policy: Ranks) -> bool:
    """Whether `learn_in_sequence` knows how."""
    return isinstance(policy, Policy) and hasattr(policy.belief, "catch_up")


def learn_in_sequence(policy: Any, state: Any, decisions: Decision, clicks: ArrayLike) -> None:
    """Take in T lists [T, K] of one learner in their order: the same, bit for bit, as `learn` T times.

    Args:
        policy: one whose belief can catch up.
        state: of one learner.
        decisions: T lists, as if for T learners.
        clicks: [T, K].
    """
    T = len(decisions.items)
    y = reading.check(decisions, clicks, learners=T, single=policy.feedback.single, binary=policy.belief.binary)
    policy.belief.catch_up(state.belief, decisions, policy.feedback.read(decisions.items, y))
    state.t += T
