"""Epochs: repeat a list until a round without a click, then learn from the epoch as a whole."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from rankloop import feedback as reading
from rankloop.errors import Unsupported
from rankloop.feedback import Choice, Feedback
from rankloop.math.columns import take
from rankloop.plan.base import check_slots
from rankloop.plan.caps import close_full
from rankloop.policy import Policy, PolicyState
from rankloop.propensity import closed_forms
from rankloop.propensity.closed_forms import ListProbabilities
from rankloop.propensity.list_distribution import ListDistribution
from rankloop.state import State
from rankloop.types import EMPTY, BoolArray, Decision, Evidence, FloatArray, IntArray, Request, Rows
from rankloop.wrappers.base import Wrapper

S = TypeVar("S", bound=State)


@dataclass
class EpochState(State, Generic[S]):
    """A policy's state, and the current epoch of each learner."""

    inner: PolicyState[S]
    items: IntArray  # [B, K] the list of the epoch, items of the policy
    clicks: FloatArray  # [B, K] clicks of the epoch so far
    open: BoolArray  # [B] whether the epoch has begun and not ended

    @property
    def t(self) -> IntArray:
        """l, the number of the current epoch of each learner, [B]."""
        return self.inner.t


@dataclass(frozen=True, eq=False)
class EpochRepeat(Wrapper[EpochState[S], PolicyState[S]], Generic[S]):
    """Repeats a list until a round without a click, then learns from the whole epoch (paper `choice`).

    An epoch exposes slot k once with weight exposure_k. An unfinished epoch teaches nothing, and an empty list is
    no epoch. Where another list must be shown before the epoch has ended (its items or its length are no longer
    allowed), its clicks count without exposure: dropping them would keep only epochs without clicks. A list of which
    only some slots were seen is an epoch of one round, in which the visitor chose among the items of these slots: the
    odds of a click on an item against no click do not depend on the other items. Learners of one batch are in different
    phases.
    """

    policy: Policy[S]
    exposure: FloatArray  # [K]
    binary = True  # a list has at most one click, though an epoch may have several
    learns_off_policy = False  # only its own lists are repeated until a round without a click

    def __post_init__(self) -> None:
        """Refuse rows with features: an epoch that another list interrupts is learned without them."""
        if self.policy.design.row_features != 0:
            raise Unsupported("a policy that repeats lists learns from whole epochs, which have no features.")

    @property
    def inner(self) -> Policy[S]:
        """The policy that makes a new list when an epoch begins."""
        return self.policy

    def inner_state(self, state: EpochState[S]) -> PolicyState[S]:
        """Return the inner policy's state."""
        return state.inner

    @property
    def feedback(self) -> Feedback:
        """At most one choice."""
        return Choice()

    def init(self, learners: int) -> EpochState[S]:
        """Return a state without open epochs."""
        K = len(self.exposure)
        return EpochState(
            inner=self.policy.init(learners),
            items=np.full((learners, K), EMPTY, dtype=np.int64),
            clicks=np.zeros((learners, K)),
            open=np.zeros(learners, dtype=np.bool_),
        )

    def decide(self, state: EpochState[S], request: Request, rng: np.random.Generator) -> Decision:
        """Return the list of the open epoch, or a new one where no epoch is open or its list is no longer allowed."""
        check_slots(request, len(self.exposure))
        kept, old = self.kept(state, request)
        if kept.all():
            return self.policy.adopt(request, old)
        new = self.policy.decide(state.inner, request, rng)
        if not kept.any():
            return new
        return self.policy.adopt(request, np.where(kept[:, None], old, new.items))

    def kept(self, state: EpochState[S], request: Request) -> tuple[BoolArray, IntArray]:
        """Return which learners [B] show the list of an open epoch again, and the lists as candidates [B, k]."""
        listed, old = state.items != EMPTY, request.candidates_of(state.items[:, : request.k])
        whole = listed.sum(axis=1) == (old != EMPTY).sum(axis=1)  # in the first k slots, and all of them candidates
        as_long = not self.policy.plan.ends_early
        return np.asarray(state.open & whole & _still_allowed(old, request, as_long)), old

    def check(self, decision: Decision, clicks: ArrayLike) -> FloatArray:
        """Refuse more than one click in a list, and what the belief cannot learn from."""
        y = reading.check(decision, clicks, single=True, binary=True)
        self.policy.belief.check(decision)
        return y

    def update(self, state: EpochState[S], decision: Decision, clicks: FloatArray) -> None:
        """Add the click to the epoch, or end the epoch and learn."""
        y, k, items = clicks, clicks.shape[1], decision.columns
        same = state.open & (state.items[:, :k] == items).all(axis=1) & (state.items[:, k:] == EMPTY).all(axis=1)
        self._close(state, state.open & ~same, decision.request)
        state.clicks[~same] = 0.0
        state.items[:, :k] = items
        state.items[:, k:] = EMPTY
        state.clicks[:, :k] += y
        clicked: BoolArray = np.any(y, axis=1)
        state.open[...] = clicked
        if decision.partly_seen is not None:  # what was not seen cannot be repeated
            self._close(state, clicked & decision.partly_seen, decision.request)
            state.open &= ~decision.partly_seen
        ended = ~clicked & decision.shown.any(axis=1)
        if not ended.any():
            return
        shown = np.where(decision.shown & ended[:, None], self.exposure[:k], 0.0)
        evidence = Evidence(np.where(ended[:, None], state.clicks[:, :k], 0.0), shown)
        self.policy.belief.update(state.inner.belief, decision, evidence)
        state.inner.t[ended] += 1

    def _close(self, state: EpochState[S], broken: BoolArray, request: Request) -> None:
        """Learn the clicks of epochs [B] that another list interrupted, without exposure."""
        if broken.any():
            items = np.where(broken[:, None], state.items, EMPTY)  # some may be no candidates now
            rows = Rows(self.policy.design.list_models(items))
            shown = Decision(items, rows, request.of_items())
            clicks = np.where(broken[:, None], state.clicks, 0.0)
            self.policy.belief.update(state.inner.belief, shown, Evidence(clicks, np.zeros_like(clicks)))

    def predict(self, state: EpochState[S], decision: Decision) -> FloatArray | None:
        """Return the probabilities of one choice with weights exposure_k α_k; None without estimates."""
        expected = self.policy.belief.expected_outcomes(state.inner.belief, decision)
        if expected is None:
            return None
        return self.feedback.click_probability(expected * self.exposure[: expected.shape[1]])

    def list_distribution(self) -> ListDistribution:
        """Return the distribution: the list of the open epoch with probability 1, else a new one."""
        new = self.policy.list_distribution()

        def probability(state: EpochState[S], decision: Decision) -> ListProbabilities | None:
            if decision.scores is None:
                kept, old = self.kept(state, decision.request)
                if kept[0]:
                    return closed_forms.point_mass(decision.items[0], old[0])
            return new.probability(state.inner, decision)

        return replace(
            new, why=f"a list is repeated until a round without a click, then {new.why}", probability=probability
        )


def _still_allowed(items: IntArray, request: Request, as_long_as_possible: bool) -> BoolArray:
    """Return whether these lists [B, k] may still be shown, and are as long as they must be, [B]."""
    if request.pinned is not None and request.pinned.shape == items.shape[1:]:
        held = request.pinned != EMPTY
        if not (items[:, held] == request.pinned[held]).all():
            return np.zeros(len(items), dtype=np.bool_)
    shown = items != EMPTY
    if request.caps is not None:
        return _still_fits(items, request, as_long_as_possible)
    if not as_long_as_possible:
        present = np.ones(len(items), dtype=np.bool_)
    elif request.allowed is None:
        present = shown.sum(axis=1) == min(request.k, request.items)
    else:
        present = shown.sum(axis=1) == np.minimum(request.k, request.allowed.sum(axis=-1))
    if request.allowed is None:
        return np.asarray(present)
    at = np.where(shown, items, 0)
    fine = (request.allowed[at] if request.allowed.ndim == 1 else take(request.allowed, at)) | ~shown
    return np.asarray(fine.all(axis=1) & present)


def _still_fits(items: IntArray, request: Request, as_long_as_possible: bool) -> BoolArray:
    """Return whether lists [B, k] keep the caps of a request, and are as long as they must be, [B].

    Pinned items may exceed a cap. A list is long enough if it is full, or no further item fits.
    """
    shown, free = items != EMPTY, np.empty((len(items), request.items), dtype=np.bool_)
    free[...] = True if request.allowed is None else request.allowed
    fine = np.ones(len(items), dtype=np.bool_)
    caps = request.active_caps()
    held = np.zeros(items.shape[1], dtype=np.bool_) if request.pinned is None else request.pinned != EMPTY
    if caps is not None:
        held_first = np.argsort(~held, kind="stable")
        close_full(free, items[:, :0], caps)
    else:
        held_first = np.arange(items.shape[1])
    for place, slot in enumerate(held_first.tolist()):
        there = np.flatnonzero(shown[:, slot])
        item = items[there, slot]
        fine[there] &= free[there, item] | held[slot]
        free[there, item] = False
        if caps is not None:
            close_full(free, items[:, held_first[: place + 1]], caps)
    if as_long_as_possible:
        fine &= shown.all(axis=1) | ~free.any(axis=1)
    return fine
