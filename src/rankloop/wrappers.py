"""Wrappers: when do we decide and learn? A policy around a policy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from rankloop import feedback as reading
from rankloop.belief.base import check_rows, expected_outcomes
from rankloop.errors import InvalidInput
from rankloop.feedback import Choice, Feedback
from rankloop.math.arrays import take
from rankloop.plan.base import check_slots
from rankloop.plan.pinned import around_pins
from rankloop.plan.uniform import Uniform
from rankloop.policy import CheckedLearning, Policy, PolicyState, Servable
from rankloop.state import State
from rankloop.types import EMPTY, BoolArray, Decision, Evidence, FloatArray, IntArray, Layout, Request, Rows

S = TypeVar("S", bound=State)
P = TypeVar("P", bound=Servable)

When = Callable[[IntArray, np.random.Generator], BoolArray]
"""Which learners, [B], given their rounds t [B]. Propensities are known where it has a `chance` too."""


@dataclass(frozen=True)
class Before:
    """The rounds before this one."""

    round: int

    def __call__(self, t: IntArray, rng: np.random.Generator) -> BoolArray:
        """Whoever has not come so far."""
        return t < self.round

    def chance(self, t: IntArray) -> FloatArray:
        """1 or 0, [B]."""
        return np.asarray(t < self.round, dtype=np.float64)

    def __str__(self) -> str:
        return f"before round {self.round}"


@dataclass(frozen=True)
class WithChance:
    """Each learner in each round with this probability."""

    epsilon: float

    def __call__(self, t: IntArray, rng: np.random.Generator) -> BoolArray:
        """A draw for each learner."""
        return rng.random(len(t)) < self.epsilon

    def chance(self, t: IntArray) -> FloatArray:
        """The probability, [B]."""
        return np.full(len(t), self.epsilon)

    def __str__(self) -> str:
        return f"with probability {self.epsilon:g}"


def before(round: int) -> When:
    """The rounds before this one: a warm-up."""
    return Before(round)


def with_chance(epsilon: float) -> When:
    """Each learner in each round with this probability."""
    return WithChance(epsilon)


@dataclass(frozen=True)
class RandomLists(CheckedLearning, Generic[P]):
    """Uniformly random lists at times, another policy's otherwise; both are learned from."""

    policy: P
    when: When
    any_length: bool = False  # a length uniform on 0 … k instead of k

    @property
    def feedback(self) -> Feedback:
        """The inner policy's."""
        return self.policy.feedback

    def init(self, learners: int) -> Any:
        """The inner policy's state."""
        return self.policy.init(learners)

    def decide(self, state: Any, request: Request, rng: np.random.Generator) -> Decision:
        """Random lists for the learners whose time it is."""
        if request.learners != len(state.t):
            raise InvalidInput("request.learners", request.learners, f"{len(state.t)}, as many as the state has")
        random = self.when(state.t, rng)
        if not random.any():
            return self.policy.decide(state, request, rng)
        lists = around_pins(Uniform(), _unasked, request, rng).items
        if self.any_length:
            length = rng.integers(0, (lists != EMPTY).sum(axis=1), endpoint=True)
            held = False if request.pinned is None else request.pinned != EMPTY
            lists[(np.arange(request.k) >= length[:, None]) & ~np.asarray(held)] = EMPTY
        if not random.all():
            own = self.policy.decide(state, request, rng).items
            lists = np.where(random[:, None], lists, own)
        return self.policy.adopt(request, lists)

    @property
    def binary(self) -> bool:
        """As the inner policy."""
        return self.policy.binary

    def check(self, decision: Decision, clicks: ArrayLike) -> FloatArray:
        """As the inner policy."""
        return self.policy.check(decision, clicks)

    def update(self, state: Any, decision: Decision, clicks: FloatArray) -> None:
        """As the inner policy."""
        self.policy.update(state, decision, clicks)

    def adopt(self, request: Request, items: ArrayLike) -> Decision:
        """As the inner policy."""
        return self.policy.adopt(request, items)

    @property
    def checks_rows(self) -> bool:
        """As the inner policy."""
        return self.policy.checks_rows

    def layout(self, width: int) -> Layout | None:
        """As the inner policy."""
        return self.policy.layout(width)

    def predict(self, state: Any, decision: Decision) -> FloatArray | None:
        """As the inner policy: whoever made the list, its clicks are expected alike."""
        return self.policy.predict(state, decision)


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
class EpochRepeat(CheckedLearning, Generic[S]):
    """Keep a list until nobody clicks; only then learn, from the clicks of the whole epoch (paper `choice`).

    An epoch exposes slot k once with weight exposure_k. An unfinished epoch teaches nothing, and an empty list is
    no epoch. Where another list must be shown before anybody passed (its items or its length are no longer
    allowed), the clicks count without exposure: to drop them would keep only the epochs without clicks. Learners
    of one batch are at different phases.
    """

    policy: Policy[S]
    exposure: FloatArray  # [K]
    binary = True  # each list has one click or none, though an epoch may have several

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
        check_rows(self.policy.belief, decision)
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

    def adopt(self, request: Request, items: ArrayLike) -> Decision:
        """As the inner policy."""
        return self.policy.adopt(request, items)

    @property
    def checks_rows(self) -> bool:
        """As the inner policy."""
        return self.policy.checks_rows

    def layout(self, width: int) -> Layout | None:
        """As the inner policy."""
        return self.policy.layout(width)

    def predict(self, state: EpochState[S], decision: Decision) -> FloatArray | None:
        """One choice with weights exposure_k α_k, α by the inner belief; None where it has no estimates."""
        expected = expected_outcomes(state.inner.belief, decision)
        return (
            None if expected is None else self.feedback.click_probability(expected * self.exposure[: expected.shape[1]])
        )


@dataclass
class BatchState(State, Generic[S]):
    """A policy's state, and what has been seen since it last learned."""

    FEATURES: ClassVar = {"x": 1}

    inner: PolicyState[S]
    t: IntArray  # [B] rounds seen, the next one's number
    items: IntArray  # [B, n, K]
    x: FloatArray  # [B, n, K, d]
    clicks: FloatArray  # [B, n, K]


@dataclass(frozen=True)
class EveryN(CheckedLearning, Generic[S]):
    """Learn in batches: n rounds are collected, then taken in together. Decisions use the last update."""

    policy: Policy[S]
    every: int
    slots: int
    dim: int  # features of a row, 0 where there are none

    @property
    def feedback(self) -> Feedback:
        """The inner policy's."""
        return self.policy.feedback

    def init(self, learners: int) -> BatchState[S]:
        """Nothing collected."""
        shape = (learners, self.every, self.slots)
        return BatchState(
            inner=self.policy.init(learners),
            t=np.ones(learners, dtype=np.int64),
            items=np.full(shape, EMPTY, dtype=np.int64),
            x=np.zeros((*shape, self.dim)),
            clicks=np.zeros(shape),
        )

    def decide(self, state: BatchState[S], request: Request, rng: np.random.Generator) -> Decision:
        """As the inner policy, with what it knew at its last update."""
        return self.policy.decide(state.inner, request, rng)

    @property
    def binary(self) -> bool:
        """As the inner policy."""
        return self.policy.binary

    def check(self, decision: Decision, clicks: ArrayLike) -> FloatArray:
        """As the inner policy."""
        return self.policy.check(decision, clicks)

    def update(self, state: BatchState[S], decision: Decision, clicks: FloatArray) -> None:
        """Collect; every n rounds, let the inner policy learn all of them in order."""
        b, k = np.arange(len(state.t)), clicks.shape[1]
        at = (state.t - 1) % self.every
        state.items[b, at, :k], state.items[b, at, k:] = decision.items, EMPTY
        state.clicks[b, at, :k], state.clicks[b, at, k:] = clicks, 0.0
        if decision.rows.x is not None:
            state.x[b, at, :k] = decision.rows.x
        state.t += 1
        full = (state.t - 1) % self.every == 0
        for r in range(self.every if full.any() else 0):
            items = np.where(full[:, None], state.items[:, r], EMPTY)
            picked = self.policy.design.pick(decision.request, items)
            rows = Rows(picked.model, state.x[:, r] if self.dim else None)
            seen = self.policy.feedback.read(items, np.where(full[:, None], state.clicks[:, r], 0.0))
            self.policy.belief.update(state.inner.belief, Decision(items, rows, decision.request), seen)
            state.inner.t[full] += 1

    def adopt(self, request: Request, items: ArrayLike) -> Decision:
        """As the inner policy."""
        return self.policy.adopt(request, items)

    @property
    def checks_rows(self) -> bool:
        """As the inner policy."""
        return self.policy.checks_rows

    def layout(self, width: int) -> Layout | None:
        """As the inner policy."""
        return self.policy.layout(width)

    def predict(self, state: BatchState[S], decision: Decision) -> FloatArray | None:
        """As the inner policy, with what it knew at its last update."""
        return self.policy.predict(state.inner, decision)


def _unasked(prefix: IntArray, slot: int) -> FloatArray:
    raise TypeError("uniform lists ask for no scores")


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
