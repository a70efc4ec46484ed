"""A policy composed of a design, a belief, an exploration rule, a planner and a feedback model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from rankloop import explore as rules
from rankloop import feedback as reading
from rankloop.belief.base import Belief
from rankloop.design import Design
from rankloop.errors import InvalidInput, Unsupported, Words
from rankloop.explore.base import ExplorationRule
from rankloop.feedback import Feedback
from rankloop.math.columns import take
from rankloop.math.kernels import left_of_variance
from rankloop.ownership import overridden
from rankloop.plan.base import Planner
from rankloop.plan.pinned import around_pins
from rankloop.propensity.list_distribution import ListDistribution, SupportsDecide
from rankloop.ranking_policy import BatchWrapper, GreedyPolicy, LearnerState, RankingPolicy
from rankloop.shortlist import MIN_ITEMS, Search, Shortlist
from rankloop.state import State
from rankloop.types import (
    EMPTY,
    Decision,
    FloatArray,
    IntArray,
    Read,
    Request,
    RowLayout,
    Rows,
    ScoreTrust,
    SlotEffects,
    SlotScore,
)

S = TypeVar("S", bound=State)


@dataclass
class PolicyState(State, Generic[S]):
    """The state of a composed policy: rounds and the belief's state."""

    t: IntArray  # [B] the round that each learner decides next, from 1
    belief: S


class SupportsRanking(SupportsDecide, Protocol):
    """What a simulator needs of a policy: `init`, `decide`, `learn`, `adopt` and its feedback model."""

    @property
    def feedback(self) -> Feedback:
        """The feedback model that reads clicks."""

    def init(self, learners: int) -> object:
        """Return the state of B learners without observations."""

    def learn(self, state: Any, decision: Decision, clicks: ArrayLike) -> None:
        """Learn from the clicks on a decision, or refuse them with nothing changed."""

    def adopt(self, request: Request, items: ArrayLike) -> Decision:
        """Return the decision that shows given lists."""


@dataclass(frozen=True)
class Policy(RankingPolicy[PolicyState[S]], Generic[S]):
    """The composition. Parts that do not fit are refused when it is built."""

    design: Design
    belief: Belief[S]
    explore: ExplorationRule[S]
    plan: Planner
    feedback: Feedback
    overridden: ClassVar[frozenset[str]] = frozenset()  # methods that a subclass defines itself

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.overridden = overridden(cls, Policy, ("check", "update", "amend", "scores"))

    def __post_init__(self) -> None:
        """Refuse parts that do not fit."""
        features, wanted = self.design.row_features, self.belief.row_features
        if features is not None and features != wanted and not self.plan.explores_itself:
            raise Unsupported(
                f"the design {_name(self.design)} makes rows of {features} features, and the belief "
                f"{_name(self.belief)} takes rows of {wanted}."
            )
        for what, where in (("slot", "the slot"), ("prefix", "the items above")):
            if what in self.design.reads - self.plan.offers:
                raise Unsupported(
                    f"the design {_name(self.design)} scores items by {where}, and the planner {_name(self.plan)} "
                    "uses one score for each item; choose a planner that scores slot by slot."
                )

    def init(self, learners: int) -> PolicyState[S]:
        """Return the state of B learners without observations."""
        return PolicyState(np.ones(learners, dtype=np.int64), self.belief.init(learners))

    def working_bytes(self, items: int, slots: int) -> int:
        """Return the bytes of the design's rows of all items, and of the planner's scores."""
        return self.design.working_bytes(items) + self.plan.working_bytes(items, slots)

    def decide(self, state: PolicyState[S], request: Request, rng: np.random.Generator) -> Decision:
        """Return lists [B, k] for this request; the state is only read."""
        if request.learners != len(state.t):
            raise InvalidInput("request.learners", request.learners, f"{len(state.t)}, as many as the state has")
        if request.caps is not None and not self.plan.keeps_caps:
            raise Unsupported(f"the planner {_name(self.plan)} does not keep caps; leave out the request's caps.")
        order = self.belief.slot_order(state.belief)
        plan = self.plan if order is None else self.plan.with_slot_order(order)
        own = "scores" in self.overridden
        belief = state.belief if own else self.belief_state(state, request)
        found = None if own else self._shortlist(belief, state.t, plan, request, rng)
        if found is not None:
            items, scores, rivals = plan.of_shortlist(found, request, rng)
        else:
            score = self.scores(state, request, rng) if own else self._scores(belief, state.t, request, rng)
            planned = plan(score, request, rng) if request.pinned is None else around_pins(plan, score, request, rng)
            items, scores, rivals = planned
        return Decision(items, self.design.pick(request, items), request, scores, rivals)

    def _shortlist(
        self, belief: S, t: IntArray, plan: Planner, request: Request, rng: np.random.Generator
    ) -> Shortlist | None:
        """Return the largest scores, where the plan needs no others and the rule has a faster way to find them."""
        if request.items < MIN_ITEMS or request.pinned is not None or request.active_caps() is not None:
            return None
        needed = plan.needed(request)
        if needed is None or needed > request.items:
            return None

        def rows() -> Rows:
            return self.design.rows(request, np.empty((request.learners, 0), dtype=np.int64), 0)

        return self.explore.shortlist(belief, Search(rows, needed, request.allowed), t, rng)

    def scores(self, state: PolicyState[S], request: Request, rng: np.random.Generator) -> SlotScore:
        """Return the planner's input: a function that scores all items [B, L] for a slot after a prefix."""
        return self._scores(self.belief_state(state, request), state.t, request, rng)

    def _scores(self, belief: S, t: IntArray, request: Request, rng: np.random.Generator) -> SlotScore:
        score = self.explore(belief, t, rng)

        def score_slot(prefix: IntArray, slot: int) -> FloatArray:
            scores = score(self.design.rows(request, prefix, slot))
            if scores.shape != (request.learners, request.items):
                known = scores.shape[1]
                raise InvalidInput("request.items", request.items, f"{known}, the items that this policy was built for")
            return scores

        return score_slot

    def belief_state(self, state: PolicyState[S], request: Request) -> S:
        """Return the belief's state, of the request's candidates alone where the request has its own."""
        models = None if request.columns is None else self.design.candidate_models(request.columns)
        if models is None:
            return state.belief
        try:
            return self.belief.of_items(state.belief, models)
        except IndexError:
            most = int(request.columns.max()) if request.columns is not None else 0
            raise InvalidInput("request.columns", most, "items that this policy was built for") from None

    def rows(self, request: Request, prefix: IntArray, slot: int) -> Rows:
        """Return the rows of all items for a slot after a prefix."""
        return self.design.rows(request, prefix, slot)

    def rows_of_lists(self, request: Request, lists: IntArray) -> Rows:
        """Return the rows of lists [B, K]."""
        return self.design.pick(request, lists)

    def check(self, decision: Decision, clicks: ArrayLike) -> FloatArray:
        """Return the clicks as floats, or refuse what the feedback model or the belief cannot learn from."""
        y = reading.check(decision, clicks, single=self.feedback.single, binary=self.binary)
        self.belief.check(decision)
        self.belief.check_outcomes(y)
        return y

    def update(self, state: PolicyState[S], decision: Decision, clicks: FloatArray) -> None:
        """Learn from clicks [B, K] that `check` returned."""
        self.belief.update(state.belief, decision, self.feedback.read(decision.items, clicks))
        state.t += 1

    def catch_up(self, state: PolicyState[S], decisions: Decision, clicks: FloatArray) -> bool:
        """Learn from T lists [T, K] of one learner in order, if the belief has a faster way than T updates."""
        done = self.belief.catch_up(state.belief, decisions, self.feedback.read(decisions.items, clicks))
        if done:
            state.t += len(decisions.items)
        return done

    def amendable(self, items: IntArray, before: FloatArray, after: FloatArray) -> bool:
        """Return whether the belief amends, and the same slots are observed with the same exposure."""
        old, new = (self.feedback.read(items, clicks).exposure for clicks in (before, after))
        return self.amends and np.array_equal(old, new)

    def amend(self, state: PolicyState[S], decision: Decision, before: FloatArray, after: FloatArray) -> None:
        """Replace the outcomes in what the belief has learned."""
        items = decision.items
        self.belief.amend(state.belief, decision, self.feedback.read(items, before).y, self.feedback.read(items, after))

    def adopt(self, request: Request, items: ArrayLike) -> Decision:
        """Return the decision that shows these lists [B, k], made elsewhere, so that the policy can learn from it."""
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

    # Capabilities, as the parts have them

    @property
    def amends(self) -> bool:
        """Whether the belief can amend; False for a subclass with its own `update`, unless it has its own `amend`."""
        return self.belief.amends and ("update" not in self.overridden or "amend" in self.overridden)

    @property
    def binary(self) -> bool:
        """Whether the belief requires outcomes 0 or 1."""
        return self.belief.binary

    @property
    def fractional(self) -> bool:
        """Whether the belief can learn from an exposure between 0 and 1."""
        return self.belief.fractional

    @property
    def reads(self) -> frozenset[Read]:
        """What the design and the planner read besides the items."""
        return self.design.reads | self.plan.reads

    @property
    def checks_rows(self) -> bool:
        """Whether the belief may refuse a decision; always True for a subclass with its own `check`."""
        return "check" in self.overridden or self.belief.checks_rows

    @property
    def keeps_caps(self) -> bool:
        """Whether the planner does."""
        return self.plan.keeps_caps

    def approximate(self, request: Request) -> bool:
        """Return whether the planner keeps the request's caps greedily."""
        caps = request.active_caps()
        return caps is not None and self.plan.approximate(caps, request)

    @property
    def explores(self) -> bool:
        """Whether the exploration rule or the planner explores."""
        return self.explore.explores or self.plan.explores_itself

    @property
    def learns_off_policy(self) -> bool:
        """Whether the belief learns as well from lists of another policy."""
        return self.belief.learns_off_policy

    @property
    def pools(self) -> bool:
        """Whether the belief pools segments."""
        return self.belief.pools

    @property
    def ignores_slots(self) -> bool:
        """Whether neither the rows nor the belief depend on the slot of an item."""
        return not self.reads & {"slot", "prefix"} and self.belief.learns_off_policy

    @property
    def estimates_rates(self) -> bool:
        """Whether the belief estimates the mean of an item's own outcomes, and nothing else is read."""
        return not self.design.reads and self.belief.estimates_rates

    def layout(self, width: int) -> RowLayout | None:
        """Return the design's layout."""
        return self.design.layout(width)

    def predict(self, state: PolicyState[S], decision: Decision) -> FloatArray | None:
        """Return the probability of a click in each slot of a decision, [B, K]; None without estimates."""
        expected = self.belief.expected_outcomes(state.belief, decision)
        return None if expected is None else self.feedback.click_probability(expected)

    def estimates(self, state: PolicyState[S], request: Request) -> tuple[FloatArray, FloatArray | None] | None:
        """Return mean and width of every item in the first slot, from the belief's state."""
        belief = self.belief_state(state, request)
        means, widths = self.belief.estimates(belief), self.belief.uncertainty(belief)
        if means is None:
            found = self.belief.item_estimates(state.belief)
            chosen: slice | IntArray = slice(None) if request.columns is None else request.columns
            return None if found is None else (found[0][:, chosen], found[1][:, chosen])
        rows = self.design.rows(request, np.empty((request.learners, 0), dtype=np.int64), 0)
        shape = (request.learners, request.items)
        width = None if widths is None else np.broadcast_to(widths.width(rows), shape)
        return np.broadcast_to(means.mean(rows), shape), width

    def slot_effects(self, state: PolicyState[S]) -> SlotEffects | None:
        """Return what the belief has learned about slots."""
        return self.belief.slot_effects(state.belief)

    def score_trust(self, state: PolicyState[S]) -> ScoreTrust | None:
        """Return how far the belief trusts the caller's scores."""
        return self.belief.score_trust(state.belief)

    def explain(self, state: PolicyState[S], fresh: PolicyState[S], decision: Decision) -> FloatArray | None:
        """Return the mean, the width, and the share of the prior's variance that is left."""
        means, widths = self.belief.estimates(state.belief), self.belief.uncertainty(state.belief)
        before = self.belief.uncertainty(fresh.belief)
        if means is None:
            return None
        explained, rows = np.full((3, decision.items.shape[1]), np.nan), decision.rows.of_learner(0)
        explained[0] = means.mean(rows)[0]
        if widths is not None and before is not None:
            explained[1] = widths.width(rows)[0]
            left_of_variance(explained[1], before.width(rows)[0], explained[2])
        return explained

    def greedy(self) -> GreedyPolicy[PolicyState[S]] | None:
        """Return the same parts with the greedy rule, where the belief has estimates and the planner uses scores."""
        if self.plan.explores_itself or self.belief.estimates(self.belief.init(0)) is None:
            return None
        rule: ExplorationRule[Any] = rules.Greedy()  # the belief's states have estimates, see above
        return self.with_rule(rule)

    def list_distribution(self) -> ListDistribution:
        """Return the closed form that the exploration rule selects from the planner's."""
        return self.plan.list_distribution(self.explore, self)

    def without_exploration(self) -> Policy[S] | None:
        """Return the policy with the exploration rule's radius set to 0, if it has one."""
        rule = self.explore.without_exploration()
        return None if rule is None else self.with_rule(rule)

    def with_rule(self, rule: ExplorationRule[S]) -> Policy[S]:
        """Return the same policy with another exploration rule."""
        return replace(self, explore=rule)

    @property
    def forgets(self) -> bool:
        """Whether the belief can forget."""
        return self.belief.forgets

    def forget(self, state: PolicyState[S], prior: PolicyState[S], share: float) -> None:
        """Let the belief forget; the rounds stay."""
        self.belief.forget(state.belief, prior.belief, share)

    @property
    def takes_priors(self) -> bool:
        """Whether the belief accepts a prior for an item."""
        return self.belief.takes_priors

    @property
    def replaces_priors(self) -> bool:
        """Whether the belief can remove the prior of an item."""
        return self.belief.replaces_priors

    def believe(self, state: PolicyState[S], request: Request, item: int, score: float, strength: float) -> None:
        """Add pseudo-observations to every model that the item feeds."""
        self.belief.believe(state.belief, self._list_of_item(request, item), score, strength)

    def disbelieve(self, state: PolicyState[S], request: Request, item: int, score: float, strength: float) -> None:
        """Remove the pseudo-observations that `believe` added."""
        self.belief.disbelieve(state.belief, self._list_of_item(request, item), score, strength)

    def _list_of_item(self, request: Request, item: int) -> Decision:
        """Return a list that shows an item once for each model that it feeds."""
        lists = np.full((1, self.design.models_of_item(request.k)), item, dtype=np.int64)
        return Decision(lists, self.design.pick(request, lists), request)

    @property
    def takes_feedback(self) -> bool:
        """True: a composition works with every feedback model."""
        return True

    def with_feedback(self, feedback: Feedback) -> Policy[S]:
        """Return the same parts with another feedback model."""
        return replace(self, feedback=feedback)

    def in_batches(self, wrap: BatchWrapper) -> RankingPolicy[LearnerState]:
        """Return this composition, wrapped."""
        return wrap(self)


def _name(part: object) -> str:
    return type(part).__name__
