"""Planners of largest revenue, where a click on an item is worth its price."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankloop.math.columns import take
from rankloop.math.links import Link
from rankloop.math.revenue import cascade_revenue, worth_listing
from rankloop.objective import Objective
from rankloop.plan.base import Plan, Planner, check_slots
from rankloop.plan.capped_revenue import cascade_revenue_under, exactly_solved
from rankloop.plan.prices import PricedGains, prices_of
from rankloop.plan.top_k import best_of
from rankloop.propensity import list_distribution as lists
from rankloop.propensity.list_distribution import Composition, ListDistribution
from rankloop.types import EMPTY, BoolArray, Caps, FloatArray, IntArray, Read, Request, SlotScore

PRICES = frozenset[Read]({"prices"})
MAX_PRICE_BUCKETS = 64
"""Buckets of prices by which items are compared before those that may be listed are sorted."""


@dataclass(frozen=True, eq=False)
class ByRevenue(Planner):
    """Puts the item with the k-th largest price·attraction into the slot with the k-th largest bias.

    Exact for the position-based model; equal biases in slot order. Where n < k items are allowed, the first n slots are
    filled. The plan's scores are the exploration rule's, without prices.
    """

    objective: Objective
    link: Link
    bias: FloatArray | None = None  # [K]; None: slots in order, as where biases are equal or unknown

    def __call__(self, score: SlotScore, request: Request, rng: np.random.Generator) -> Plan:
        """Return the items of largest expected revenue, in order of bias."""
        scores = score(np.empty((request.learners, 0), dtype=np.int64), 0)
        best = best_of(PricedGains(self.objective, self.link)(scores, request), request, rng)
        items, rivals = best.items, best.rivals
        if self.bias is not None:
            check_slots(request, len(self.bias))
            filled = np.arange(request.k) < (items != EMPTY).sum(axis=1, keepdims=True)
            own = self.bias[: request.k] if request.slots is None else self.bias[request.slots]
            slots = np.argsort(np.where(filled, -own, np.inf), axis=1, kind="stable")
            items = _put(items, slots)
            rivals = None if rivals is None else _put(rivals, slots)
        return Plan(items, scores_at(scores, items), rivals)

    @property
    def keeps_caps(self) -> bool:
        """True."""
        return True

    @property
    def reads(self) -> frozenset[Read]:
        """The prices."""
        return PRICES

    def of_fixed_scores(self, policy: Composition) -> ListDistribution:
        """Return the distribution of the single best list."""
        return lists.settled(policy, "the largest expected revenues")


@dataclass(frozen=True, eq=False)
class CascadeRevenue(Planner):
    """The list of largest revenue under the cascade model: the price of the first attractive item.

    For a fixed set of items the order by falling price is best, so a recursion over the items sorted by price finds the
    best list exactly, in O(L·k): V_k(i) = max(V_k(i+1), p_i w_i + (1-w_i) V_{k-1}(i+1)), V_0 = 0. Only items that may
    be needed are sorted. Items of equal price are in order of attraction, equal ones of these in random order.

    With pinned items the list is exact where all pinned slots are above the free ones; otherwise it is approximate: the
    free slots get the best list of the items that are left, as if the others were empty.

    Under one cap that only few values can reach, the recursion also counts the items of these values, and is exact.
    Otherwise items are added greedily by what they contribute, and the list is approximate.
    """

    objective: Objective
    link: Link

    def __call__(self, score: SlotScore, request: Request, rng: np.random.Generator) -> Plan:
        """Return the optimal lists."""
        B, L, k = request.learners, request.items, request.k
        if k == 0:
            return Plan(np.empty((B, 0), dtype=np.int64), np.empty((B, 0)))
        scores = np.broadcast_to(score(np.empty((B, 0), dtype=np.int64), 0), (B, L))
        prices, attraction = prices_of(self.objective, request), self.link.attraction(scores)
        caps = request.active_caps()
        if caps is not None:
            items, random = cascade_revenue_under(caps, prices, attraction, request, rng)
            return Plan(items, scores_at(scores, items), unknown_rivals(random, k))
        chosen, count = _worth_listing(prices, attraction, request)
        price, w = take(np.broadcast_to(prices, (B, L)), chosen), take(attraction, chosen)
        left_out = np.arange(chosen.shape[1]) >= count[:, None]
        order = np.lexsort((-w, -price, left_out), axis=1)
        twin = _twins(take(price, order), take(w, order), ~left_out)
        mixed = np.flatnonzero(twin.any(axis=1))
        if mixed.size:  # equal items keep their places in the order, in which they are shuffled
            keys = rng.random((len(mixed), chosen.shape[1]))
            order[mixed] = np.lexsort((keys, -w[mixed], -price[mixed], left_out[mixed]), axis=1)
        places = np.empty((B, k), dtype=np.int64)
        cascade_revenue(take(price, order), take(w, order), count, places)
        listed = np.maximum(places, 0)
        items = np.where(places >= 0, take(take(chosen, order), listed), EMPTY)
        random = np.asarray((take(twin, listed) & (places >= 0)).any(axis=1))
        return Plan(items, scores_at(scores, items), unknown_rivals(random, k))

    @property
    def keeps_caps(self) -> bool:
        """True."""
        return True

    def approximate(self, caps: Caps, request: Request) -> bool:
        """Return whether too many values can reach the cap for the recursion."""
        return not bool(exactly_solved(caps, request).all())

    @property
    def reads(self) -> frozenset[Read]:
        """The prices."""
        return PRICES

    def of_fixed_scores(self, policy: Composition) -> ListDistribution:
        """Return the distribution of the single best list."""
        return lists.settled(policy, "the list of largest revenue under the cascade model")


def _worth_listing(prices: FloatArray, attraction: FloatArray, request: Request) -> tuple[IntArray, IntArray]:
    """Return the items that an optimal list may need, [B, C], and how many there are for each learner, [B]."""
    B, L = attraction.shape
    sample = np.sort(prices.ravel()[:: max(1, prices.size // (16 * MAX_PRICE_BUCKETS))])
    edges = np.unique(sample[:: max(1, len(sample) // MAX_PRICE_BUCKETS)])
    allowed = np.ones((1, L), dtype=np.bool_) if request.allowed is None else np.atleast_2d(request.allowed)
    chosen, count = np.zeros((B, L), dtype=np.int64), np.empty(B, dtype=np.int64)
    price, w, may = np.ascontiguousarray(prices), np.ascontiguousarray(attraction), np.ascontiguousarray(allowed)
    worth_listing(price, w, may, edges, request.k, chosen, count)
    return chosen[:, : max(1, int(count.max()))], count


def _twins(price: FloatArray, w: FloatArray, allowed: BoolArray) -> BoolArray:
    """Return which of the sorted items [B, L] have a neighbour of the same price and attraction."""
    same = (price[:, 1:] == price[:, :-1]) & (w[:, 1:] == w[:, :-1]) & allowed[:, 1:] & allowed[:, :-1]
    twin = np.zeros(price.shape, dtype=np.bool_)
    twin[:, 1:] |= same
    twin[:, :-1] |= same
    return twin


def unknown_rivals(random: BoolArray, k: int) -> IntArray | None:
    """Return rivals [B, k], -1 in lists [B] of which others are equally good; None where there are no such lists."""
    return np.repeat(np.where(random, -1, 0)[:, None], k, axis=1) if random.any() else None


def _put(values: IntArray, slots: IntArray) -> IntArray:
    """Return values [B, k] with the j-th one in slot slots[b, j]."""
    placed = np.empty_like(values)
    np.put_along_axis(placed, slots, values, axis=1)
    return placed


def scores_at(scores: FloatArray, items: IntArray) -> FloatArray:
    """Return the scores [B, L] of listed items [B, k]; arbitrary in empty slots."""
    return take(scores, np.maximum(items, 0))
