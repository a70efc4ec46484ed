"""The planner for position biases that a belief learns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from rankloop.plan.base import Plan, Planner, check_slots
from rankloop.plan.top_k import best_listed, best_of
from rankloop.propensity import list_distribution as lists
from rankloop.propensity.list_distribution import Composition, ListDistribution
from rankloop.shortlist import Shortlist
from rankloop.types import EMPTY, FloatArray, IntArray, Read, Request, SlotScore

T = TypeVar("T", np.int64, np.float64)


@dataclass(frozen=True, eq=False)
class ByLearnedBias(Planner):
    """Puts the item with the k-th largest price·score into the k-th most valuable slot, as the belief orders them.

    Until the belief has learned which slots are better, the slots are filled in their own order. Where n < k items are
    allowed, the first n slots are filled.
    """

    prices: FloatArray | None = None  # [L], of the policy's items; None: 1
    order: IntArray | None = None  # [B, K], slots from the most to the least valuable; None: their own order

    def with_slot_order(self, order: IntArray) -> ByLearnedBias:
        """Return the planner that fills slots in this order, [B, K]."""
        return replace(self, order=order)

    @property
    def reads(self) -> frozenset[Read]:
        """The prices of a request, where the objective has prices."""
        return frozenset() if self.prices is None else frozenset({"prices"})

    def __call__(self, score: SlotScore, request: Request, rng: np.random.Generator) -> Plan:
        """Return the best items, in order of the slots."""
        nothing = np.empty((request.learners, 0), dtype=np.int64)
        return self._placed(best_of(self._values(score(nothing, 0), request), request, rng), request)

    def needed(self, request: Request) -> int | None:
        """Return one more than the list has slots; None with prices, which may put any item first."""
        return request.k + 1 if self.prices is None else None

    def of_shortlist(self, found: Shortlist, request: Request, rng: np.random.Generator) -> Plan:
        """Return the best items, in order of the slots."""
        return self._placed(best_listed(found, request.k, rng), request)

    def _placed(self, best: Plan, request: Request) -> Plan:
        """Return the best items, in order of value, in the slots that they are given."""
        if self.order is None:
            return best
        check_slots(request, self.order.shape[1])
        filled = best.items != EMPTY
        if request.slots is None and request.k == self.order.shape[1] and filled.all():
            slots = self.order
        else:
            slots = _by_value(self.order, request, filled.sum(axis=1, keepdims=True))
        rivals = None if best.rivals is None else _placed(best.rivals, slots)
        return Plan(_placed(best.items, slots), _placed(best.scores, slots), rivals)

    @property
    def keeps_caps(self) -> bool:
        """True."""
        return True

    def _values(self, scores: FloatArray, request: Request) -> FloatArray:
        """Return the scores times the prices of the request or else of the policy's items, [B, L]."""
        if self.prices is None:
            return scores
        prices = request.prices
        if prices is None:
            prices = self.prices if request.columns is None else self.prices[request.columns]
        return np.asarray(scores * prices)

    def of_fixed_scores(self, policy: Composition) -> ListDistribution:
        """Return the distribution of the single best list."""
        return lists.settled(policy, "the largest scores, slots in order of their learned bias")


def _placed(listed: NDArray[T], slots: IntArray) -> NDArray[T]:
    """Return what was listed in order of value, [B, k], in the slots [B, k] of each place."""
    placed = np.empty_like(listed)
    placed[np.arange(len(slots))[:, None], slots] = listed
    return placed


def _by_value(order: IntArray, request: Request, filled: IntArray) -> IntArray:
    """Return the first `filled` [B, 1] requested slots from the most to the least valuable, then the others, [B, k].

    Args:
        order: all slots from the most to the least valuable, [B, K].
        request: which slots it asks for.
        filled: how many of them will have an item.
    """
    own = np.arange(request.k) if request.slots is None else request.slots
    place = np.argsort(order, axis=1)[:, own]  # the place of each requested slot among all
    last = np.where(np.arange(request.k) < filled, place, place.shape[1] + order.shape[1])
    return np.argsort(last, axis=1, kind="stable")
