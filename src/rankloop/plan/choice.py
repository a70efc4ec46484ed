"""Planners of largest revenue under multinomial logit choice."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankloop.math.columns import take
from rankloop.math.links import RATE
from rankloop.math.revenue import choice_revenue
from rankloop.objective import Objective
from rankloop.plan.base import Held, Plan, Planner, check_slots
from rankloop.plan.capped_revenue import choice_revenue_under
from rankloop.plan.prices import prices_of
from rankloop.plan.revenue import PRICES, scores_at, unknown_rivals
from rankloop.plan.slots import MAX_FULL_ITEMS, best_matching
from rankloop.propensity import list_distribution as lists
from rankloop.propensity.list_distribution import Composition, ListDistribution
from rankloop.types import EMPTY, BoolArray, FloatArray, IntArray, Read, Request, SlotScore

MAX_STEPS = 200
"""Steps of Dinkelbach's method; it takes a handful."""


@dataclass(frozen=True, eq=False)
class ChoiceRevenue(Planner):
    """The list of largest expected revenue Σ λ_k α_i p_i / (1 + Σ λ_k α_i), exactly, by Dinkelbach's method.

    A score is an attraction α; or, where biases are estimated, the product λ_k·α for each slot. Attractions are clipped
    to [0, 1]. Where λ falls from slot to slot, items that would lower the revenue are left out and the list ends early,
    unless an item is pinned further down; otherwise all slots are filled. Where no price is above 0, every list is
    worth nothing, and all slots are filled. Equal items are in random order.
    """

    objective: Objective
    bias: FloatArray | None = None  # λ [K]; None: scores are products of estimated bias and attraction

    def __call__(self, score: SlotScore, request: Request, rng: np.random.Generator) -> Plan:
        """Return the optimal lists."""
        return self._filled(score, request, None, rng)

    def fill(self, score: SlotScore, request: Request, held: Held, rng: np.random.Generator) -> Plan:
        """Return the optimal items of the free slots, given the pinned ones."""
        return self._filled(score, request, held, rng)

    @property
    def keeps_caps(self) -> bool:
        """True."""
        return True

    @property
    def reads(self) -> frozenset[Read]:
        """The prices."""
        return PRICES

    @property
    def ends_early(self) -> bool:
        """True, where biases fall."""
        return True

    @property
    def offers(self) -> frozenset[Read]:
        """The slot, where scores are products with its bias."""
        return frozenset({"slot"}) if self.bias is None else frozenset()

    def of_fixed_scores(self, policy: Composition) -> ListDistribution:
        """Return the distribution of the single best list."""
        return lists.settled(policy, "the list of largest revenue under multinomial logit choice")

    def _filled(self, score: SlotScore, request: Request, held: Held | None, rng: np.random.Generator) -> Plan:
        B, L, k = request.learners, request.items, request.k
        if k == 0:
            return Plan(np.empty((B, 0), dtype=np.int64), np.empty((B, 0)))
        scores, alpha, bias = self._weights(score, request)
        task = _Task(
            alpha,
            np.ascontiguousarray(prices_of(self.objective, request)),
            bias,
            np.ones((1, L), dtype=np.bool_) if request.allowed is None else np.atleast_2d(request.allowed),
            np.zeros((B, 2)) if held is None else self._pinned(held, request),
            held is None or request.slots is None or bool(held.slots.max(initial=-1) < request.slots[0]),
        )
        caps = request.active_caps()
        if caps is not None:
            items, tied = choice_revenue_under(
                caps, task.alpha, task.prices, task.bias, task.held, task.may_end, request, rng
            )
            return Plan(items, scores_at(scores, items), unknown_rivals(tied, k))
        items, tied = task.solved(np.broadcast_to(np.arange(L), (B, L)), k)
        mixed = np.flatnonzero(tied)
        if mixed.size:
            shuffled = np.argsort(rng.random((len(mixed), L)), axis=1)
            items[mixed], _ = task.of_learners(mixed).solved(shuffled, k)
        return Plan(items, scores_at(scores, items), unknown_rivals(tied, k))

    def _weights(self, score: SlotScore, request: Request) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the scores of the first slot, the attractions, each [B, L], and the biases [1 or B, k]."""
        B, k = request.learners, request.k
        nothing = np.empty((B, 0), dtype=np.int64)
        scores = score(nothing, 0)
        if self.bias is not None:
            check_slots(request, len(self.bias))
            bias = self.bias[:k] if request.slots is None else self.bias[request.slots]
            return scores, RATE.attraction(scores), np.ascontiguousarray(bias[None])
        # Products of two factors: the biases relative to the first slot are the same for every item.
        first = RATE.attraction(scores)
        largest = first.argmax(axis=1)[:, None]
        by_slot = np.stack([take(RATE.attraction(score(nothing, slot)), largest)[:, 0] for slot in range(k)], axis=1)
        top = by_slot[:, :1]
        return scores, first, np.where(top > 0.0, by_slot / np.where(top > 0.0, top, 1.0), 1.0)

    def _pinned(self, held: Held, request: Request) -> FloatArray:
        """Return Σ λα and Σ λαp of the pinned items, [B, 2]."""
        B = request.learners
        nothing = np.empty((B, 0), dtype=np.int64)
        prices = np.broadcast_to(prices_of(self.objective, request), (B, request.items))
        sums = np.zeros((B, 2))
        for item, slot in zip(held.items.tolist(), held.slots.tolist(), strict=True):
            weight = RATE.attraction(held.score(nothing, slot)[:, item])
            weight = weight if self.bias is None else weight * self.bias[slot]
            sums += np.stack([weight, weight * prices[:, item]], axis=1)
        return sums


@dataclass(frozen=True)
class _Task:
    """The input of the kernel, with a leading axis of B learners, or 1 where all learners share it."""

    alpha: FloatArray  # [B, L]
    prices: FloatArray  # [1 or B, L]
    bias: FloatArray  # [1 or B, k]
    allowed: BoolArray  # [1 or B, L]
    held: FloatArray  # [B, 2]
    may_end: bool  # lists may end early

    def of_learners(self, rows: IntArray) -> _Task:
        """Return the task of some learners."""
        prices, bias = (array if len(array) == 1 else array[rows] for array in (self.prices, self.bias))
        allowed = self.allowed if len(self.allowed) == 1 else self.allowed[rows]
        return _Task(self.alpha[rows], prices, bias, allowed, self.held[rows], self.may_end)

    def solved(self, order: IntArray, k: int) -> tuple[IntArray, BoolArray]:
        """Return the lists [B, k], equal items in this order [B, L], and where such a tie affected the list [B]."""
        items, tied = np.empty((len(order), k), dtype=np.int64), np.empty(len(order), dtype=np.bool_)
        arrays = (np.ascontiguousarray(array) for array in (self.alpha, self.prices, self.bias))
        alpha, prices, bias = arrays
        allowed = np.ascontiguousarray(self.allowed)
        choice_revenue(alpha, prices, bias, allowed, np.ascontiguousarray(order), self.held, self.may_end, items, tied)
        return items, tied


@dataclass(frozen=True)
class ChoiceMatching(Planner):
    """The full list of largest expected revenue Σ γ_ik p_i / (1 + Σ γ_ik) for weights γ of pairs of item and slot.

    Dinkelbach's method over matchings: from z = 0, the matching of largest Σ γ_ik (p_i - z) gives the next z, until z
    stays. Each step is an exact maximum over the finitely many full lists, and the denominator is positive, so the
    fixed point is the exact maximum. Scores are clipped to [0, 1]; every slot is filled.
    """

    objective: Objective
    max_full_items: int = MAX_FULL_ITEMS

    def __call__(self, score: SlotScore, request: Request, rng: np.random.Generator) -> Plan:
        """Return the optimal lists."""
        return self._filled(score, request, np.zeros((request.learners, 2)), rng)

    def fill(self, score: SlotScore, request: Request, held: Held, rng: np.random.Generator) -> Plan:
        """Return the optimal items of the free slots, given the pinned ones."""
        return self._filled(score, request, ChoiceRevenue(self.objective)._pinned(held, request), rng)

    @property
    def keeps_caps(self) -> bool:
        """True."""
        return True

    @property
    def reads(self) -> frozenset[Read]:
        """The prices."""
        return PRICES

    @property
    def offers(self) -> frozenset[Read]:
        """The slot: each slot has its own scores."""
        return frozenset({"slot"})

    def working_bytes(self, items: int, slots: int) -> int:
        """Return the bytes of scores, weights and their copies by slot and item, [k, L]."""
        return 8 * items * slots * np.dtype(np.float64).itemsize

    def of_fixed_scores(self, policy: Composition) -> ListDistribution:
        """Return the distribution of the single best matching."""
        return lists.settled(policy, "the matching of largest revenue under multinomial logit choice")

    def _filled(self, score: SlotScore, request: Request, pinned: FloatArray, rng: np.random.Generator) -> Plan:
        B, k, L = request.learners, request.k, request.items
        if k == 0:
            return Plan(np.empty((B, 0), dtype=np.int64), np.empty((B, 0)))
        nothing = np.empty((B, 0), dtype=np.int64)
        scores = np.stack([np.broadcast_to(score(nothing, slot), (B, L)) for slot in range(k)], axis=1)
        gamma = RATE.attraction(scores)
        prices = np.broadcast_to(prices_of(self.objective, request), (B, L))
        z = np.zeros(B)
        for _ in range(MAX_STEPS):
            gains = gamma * (prices - z[:, None])[:, None, :]
            items, sole = best_matching(gains, request, rng, self.max_full_items)
            weight = np.where(items != EMPTY, _of_pairs(gamma, items), 0.0)
            income = pinned[:, 1] + (weight * take(prices, np.maximum(items, 0))).sum(axis=1)
            better = income / (1.0 + pinned[:, 0] + weight.sum(axis=1))
            if not (better > z * (1.0 + 1e-15)).any():
                break
            z = np.maximum(z, better)
        return Plan(items, _of_pairs(scores, items), unknown_rivals(~sole, k))


def _of_pairs(table: FloatArray, items: IntArray) -> FloatArray:
    """Return table[b, k, items[b, k]], [B, k]; arbitrary in empty slots."""
    return np.take_along_axis(table, np.maximum(items, 0)[:, :, None], axis=2)[:, :, 0]
