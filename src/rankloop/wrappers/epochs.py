"""A list is kept until nobody clicks, and learned from as one epoch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from rankloop import feedback as reading
from rankloop.feedback import Choice, Feedback
from rankloop.math.columns import take
from rankloop.plan.base import check_slots
from rankloop.policy import Policy, PolicyState
from rankloop.propensity import closed_forms
from rankloop.propensity.closed_forms import ListProbabilities
from rankloop.propensity.list_distribution import ListDistribution
from rankloop.state import State
from rankloop.types import EMPTY, BoolArray, Decision, Evidence, FloatArray, IntArray, Request
from rankloop.wrappers.base import Wrapper

S = TypeVar("S", bound=State)


@dataclass
class EpochState(State, Generic[S]):
    """A policy's state, and the epoch that each learner is in."""

    inner: PolicyState[S]
    items: IntArray  # [B, K] the list that is kept
    clicks: FloatArray  # [B, K] on it so far
    open: BoolArray  # [B] the epoch has begun and not ended

    @property
    def t(self) -> IntArray:
        """l, the number of the epoch that each learner is in, [B]."""
        return self.inner.t


@dataclass(frozen=True, eq=False)
class EpochRepeat(Wrapper[EpochState[S], PolicyState[S]], Generic[S]):
    """Keep a list until nobody clicks; only then learn, from the clicks of the whole epoch (paper `choice`).

    An epoch exposes slot k once with weight exposure_k. An unfinished epoch teaches nothing, and an empty list is
    no epoch. Where another list must be shown before anybody passed (its items or its length are no longer
    allowed), the clicks count without exposure: to drop them would keep only the epochs without clicks. Learners
    of one batch are at different phases.
    """

    policy: Policy[S]
    exposure: FloatArray  # [K]
    binary = True  # each list has one click or none, though an epoch may have several
    learns_off_policy = False  # only its own lists are repeated until nobody clicks

    @property
    def inner(self) -> Policy[S]:
        """The policy that makes a new list when an epoch begins."""
        return self.policy

    def inner_state(self, state: EpochState[S]) -> PolicyState[S]:
        """The policy's own."""
        return state.inner

    @property
    def feedback(self) -> Feedback:
        """One choice, or none."""
        return Choice()

    def init(self, learners: int) -> EpochState[S]:
        """No epoch has begun."""
        K = len(self.exposure)
        return EpochState(
            inner=self.policy.init(learners),
            items=np.full((learners, K), EMPTY, dtype=np.int64),
            clicks=np.zeros((learners, K)),
            open=np.zeros(learners, dtype=np.bool_),
        )

    def decide(self, state: EpochState[S], request: Request, rng: np.random.Generator) -> Decision:
        """The kept list, or a new one where no epoch is open (or the kept one is no longer allowed)."""
        check_slots(request, len(self.exposure))
        kept = self.kept(state, request)
        if kept.all():
            return self.policy.adopt(request, state.items[:, : request.k])
        new = self.policy.decide(state.inner, request, rng)
        if not kept.any():
            return new
        return self.policy.adopt(request, np.where(kept[:, None], state.items[:, : request.k], new.items))

    def kept(self, state: EpochState[S], request: Request) -> BoolArray:
        """Who shows the list of an open epoch again, [B]."""
        whole = (state.items != EMPTY).sum(axis=1) <= request.k
        return np.asarray(state.open & whole & _still_allowed(state.items[:, : request.k], request))

    def check(self, decision: Decision, clicks: ArrayLike) -> FloatArray:
        """One click or none in each list, and what the belief could refuse."""
        y = reading.check(decision, clicks, single=True, binary=True)
        self.policy.belief.check(decision)
        return y

    def update(self, state: EpochState[S], decision: Decision, clicks: FloatArray) -> None:
        """Add the click to the epoch, or end it and learn."""
        y, k = clicks, clicks.shape[1]
        same = (
            state.open & (state.items[:, :k] == decision.items).all(axis=1) & (state.items[:, k:] == EMPTY).all(axis=1)
        )
        self._close(state, state.open & ~same, decision.request)
        state.clicks[~same] = 0.0
        state.items[:, :k] = decision.items
        state.items[:, k:] = EMPTY
        state.clicks[:, :k] += y
        clicked: BoolArray = np.any(y, axis=1)
        state.open[...] = clicked
        ended = ~clicked & (decision.items != EMPTY).any(axis=1)
        if not ended.any():
            return
        shown = np.where((decision.items != EMPTY) & ended[:, None], self.exposure[:k], 0.0)
        evidence = Evidence(np.where(ended[:, None], state.clicks[:, :k], 0.0), shown)
        self.policy.belief.update(state.inner.belief, decision, evidence)
        state.inner.t[ended] += 1

    def _close(self, state: EpochState[S], broken: BoolArray, request: Request) -> None:
        """Count the clicks of epochs [B] that another list has broken, without exposure."""
        if broken.any():
            items = np.where(broken[:, None], state.items, EMPTY)
            shown = Decision(items, self.policy.design.pick(request, items), request)
            clicks = np.where(broken[:, None], state.clicks, 0.0)
            self.policy.belief.update(state.inner.belief, shown, Evidence(clicks, np.zeros_like(clicks)))

    def predict(self, state: EpochState[S], decision: Decision) -> FloatArray | None:
        """One choice with weights exposure_k α_k, α by the inner belief; None where it has no estimates."""
        expected = self.policy.belief.expected_outcomes(state.inner.belief, decision)
        if expected is None:
            return None
        return self.feedback.click_probability(expected * self.exposure[: expected.shape[1]])

    def list_distribution(self) -> ListDistribution:
        """The kept list for certain, or a new one."""
        new = self.policy.list_distribution()

        def probability(state: EpochState[S], decision: Decision) -> ListProbabilities | None:
            if decision.scores is None and self.kept(state, decision.request)[0]:
                return closed_forms.point_mass(decision.items[0], state.items[0, : decision.request.k])
            return new.probability(state.inner, decision)

        return replace(new, why=f"a list is kept until nobody clicks; a new one: {new.why}", probability=probability)


def _still_allowed(items: IntArray, request: Request) -> BoolArray:
    """Whether these lists [B, k] are still what may be shown, and as long as they can be, [B]."""
    if request.pinned is not None and request.pinned.shape == items.shape[1:]:
        held = request.pinned != EMPTY
        if not (items[:, held] == request.pinned[held]).all():
            return np.zeros(len(items), dtype=np.bool_)
    shown = (items != EMPTY) & (items < request.items)
    if request.allowed is None:
        return np.asarray(shown.sum(axis=1) == min(request.k, request.items))
    at = np.where(shown, items, 0)
    fine = (request.allowed[at] if request.allowed.ndim == 1 else take(request.allowed, at)) | ~shown
    longest = np.minimum(request.k, request.allowed.sum(axis=-1))
    return np.asarray(fine.all(axis=1) & (shown.sum(axis=1) == longest))
