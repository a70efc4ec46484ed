"""Lists of large revenue under caps."""

from __future__ import annotations

import numpy as np

from rankloop.math.caps.cascade import capped_cascade_revenue, greedy_cascade_revenue, undominated
from rankloop.math.columns import take
from rankloop.plan.caps import allowed_of, best_under, rooms
from rankloop.types import EMPTY, BoolArray, Caps, FloatArray, IntArray, Request

MAX_STATES = 256
"""States of the exact recursion: for every value that can reach its cap, one more than the cap, multiplied."""
MAX_STEPS = 200
"""Steps of Dinkelbach's method; it takes a handful."""


def exactly_solved(caps: Caps, request: Request) -> BoolArray:
    """Return for which learners [B] the list of largest cascade revenue under these caps is found exactly."""
    if len(caps.at_most) > 1:
        return np.zeros(request.learners, dtype=np.bool_)
    return np.asarray(_states(*_groups(caps, request), request)[1] <= MAX_STATES)


def cascade_revenue_under(
    caps: Caps, prices: FloatArray, attraction: FloatArray, request: Request, rng: np.random.Generator
) -> tuple[IntArray, BoolArray]:
    """Return lists of large revenue under the cascade model [B, k], and where equal items were chosen at random [B].

    Args:
        caps: they are kept.
        prices: [1 or B, L].
        attraction: [B, L].
        request: what may be listed.
        rng: breaks ties.
    """
    B, k = len(attraction), request.k
    items, random = np.empty((B, k), dtype=np.int64), np.empty(B, dtype=np.bool_)
    exact = exactly_solved(caps, request)
    some = np.flatnonzero(exact)
    if some.size:
        items[some], random[some] = _by_recursion(caps, prices, attraction, request, some, rng)
    some = np.flatnonzero(~exact)
    if some.size:
        may, groups, price = (_of_learners(array, some) for array in (allowed_of(request), caps.groups, prices))
        own = np.empty((some.size, k), dtype=np.int64), np.empty(some.size, dtype=np.bool_)
        w, draws = np.ascontiguousarray(attraction[some]), rng.random((some.size, k))
        greedy_cascade_revenue(price, w, may, groups, caps.at_most, caps.counted, draws, *own)
        items[some], random[some] = own
    return items, random


def _of_learners(array: np.ndarray, rows: IntArray) -> np.ndarray:
    """Return the part of an array [..., 1 or B, L] that belongs to some learners."""
    return np.ascontiguousarray(array if array.shape[-2] == 1 else array[..., rows, :])


def _groups(caps: Caps, request: Request) -> tuple[IntArray, IntArray]:
    """Return the group of each item [B, L], and how many items of each group fit, [B, G]."""
    everything = np.broadcast_to(np.arange(request.items), (request.learners, request.items))
    return rooms(caps, everything)


def _states(group: IntArray, room: IntArray, request: Request) -> tuple[BoolArray, FloatArray]:
    """Return the groups that have more items than fit, [B, G], and the states of the recursion, [B]."""
    B, G = room.shape
    may = allowed_of(request) & (group >= 0)
    flat = (np.arange(B)[:, None] * max(G, 1) + group)[may]
    there = np.bincount(flat, minlength=B * max(G, 1)).reshape(B, -1)[:, :G]
    reach = (there > room) & (room < request.k)
    with np.errstate(over="ignore"):
        return reach, np.where(reach, room + 1.0, 1.0).prod(axis=1)


def _by_recursion(
    caps: Caps, prices: FloatArray, attraction: FloatArray, request: Request, rows: IntArray, rng: np.random.Generator
) -> tuple[IntArray, BoolArray]:
    """Return the lists of largest revenue of some learners, and where equal items were chosen at random."""
    group, room = _groups(caps, request)
    reach, states = _states(group, room, request)
    B, L, k = len(rows), request.items, request.k
    group, room, reach, w = group[rows], np.minimum(room[rows], k), reach[rows], attraction[rows]
    price = np.broadcast_to(prices, (request.learners, L))[rows]
    may = np.broadcast_to(allowed_of(request), (request.learners, L))[rows]
    # Items that cannot be listed form a last group without room.
    own = np.where(may, group, room.shape[1])
    padded = np.concatenate([room, np.zeros((B, 1), dtype=np.int64), np.full((B, 1), k)], axis=1)
    order = np.lexsort((-w, -price, own), axis=1)
    needed = np.empty((B, L), dtype=np.bool_)
    sorted_groups = take(own, order)
    undominated(take(price, order), take(w, order), sorted_groups, take(padded, sorted_groups), needed)
    count = needed.sum(axis=1)
    first = np.argsort(~needed, axis=1, kind="stable")[:, : max(1, int(count.max()))]
    chosen = take(order, first)
    left_out = np.arange(chosen.shape[1]) >= count[:, None]
    keys = rng.random(chosen.shape)
    again = np.lexsort((keys, -take(w, chosen), -take(price, chosen), left_out), axis=1)
    chosen = take(chosen, again)
    price, w, group = take(price, chosen), take(w, chosen), take(group, chosen)
    twin = np.zeros(price.shape, dtype=np.bool_)
    same = (price[:, 1:] == price[:, :-1]) & (w[:, 1:] == w[:, :-1]) & ~left_out[:, 1:]
    twin[:, 1:] |= same
    twin[:, :-1] |= same
    base = np.where(reach, room + 1, 1)
    step = np.where(
        reach, np.cumprod(np.concatenate([np.ones((B, 1), dtype=np.int64), base], axis=1), axis=1)[:, :-1], 0
    )
    nothing = np.zeros((B, 1), dtype=np.int64)
    step, base = np.concatenate([step, nothing], axis=1), np.concatenate([base, nothing + 1], axis=1)
    places = np.empty((B, k), dtype=np.int64)
    capped_cascade_revenue(price, w, take(step, group), take(base, group), states[rows].astype(np.int64), count, places)
    listed = np.maximum(places, 0)
    items = np.where(places >= 0, take(chosen, listed), EMPTY)
    return items, np.asarray((take(twin, listed) & (places >= 0)).any(axis=1))


def choice_revenue_under(
    caps: Caps,
    alpha: FloatArray,
    prices: FloatArray,
    bias: FloatArray,
    held: FloatArray,
    may_end: bool,
    request: Request,
    rng: np.random.Generator,
) -> tuple[IntArray, BoolArray]:
    """Return lists of largest revenue under multinomial logit choice [B, k], and where others are equally good [B].

    Dinkelbach's method as in `math.revenue.choice_revenue`: for a fixed z the items of largest α(p - z) that the caps
    allow are the best list of every length under one cap, so that the fixed point is the best list.

    Args:
        caps: they are kept.
        alpha: [B, L].
        prices: [1 or B, L].
        bias: λ, [1 or B, k].
        held: [B, 2], Σ λα and Σ λαp of items that are in the list anyway.
        may_end: whether lists may end early; otherwise all slots are filled.
        request: what may be listed.
        rng: breaks ties.
    """
    B, k = len(alpha), request.k
    cost = np.broadcast_to(prices, alpha.shape)
    dear = (held[:, 1] > 0.0) | ((cost > 0.0) & allowed_of(request)).any(axis=1)
    z = np.zeros(B)
    kept, tied, value = np.full((B, k), EMPTY, dtype=np.int64), np.zeros(B, dtype=np.bool_), np.full(B, -1.0)
    for _ in range(MAX_STEPS):
        best = best_under(caps, alpha * (cost - z[:, None]), request, rng)
        filled = best.items != EMPTY
        place = np.where(np.arange(k) < filled.sum(axis=1, keepdims=True), bias, -np.inf)
        slots = np.argsort(-place, axis=1, kind="stable")
        ends = may_end & dear & (slots == np.arange(k)).all(axis=1)
        listed = filled & ((best.scores > 0.0) | ~ends[:, None])
        weight = np.where(
            listed, take(np.broadcast_to(bias, (B, k)), slots) * take(alpha, np.maximum(best.items, 0)), 0.0
        )
        income = held[:, 1] + (weight * take(cost, np.maximum(best.items, 0))).sum(axis=1)
        revenue = income / (1.0 + held[:, 0] + weight.sum(axis=1))
        # Equal revenue: the last list of the iteration, since ties of earlier ones need not be ties of the best list.
        better = revenue >= value * (1.0 - 1e-15)
        items = np.full((B, k), EMPTY, dtype=np.int64)
        np.put_along_axis(items, slots, np.where(listed, best.items, EMPTY), axis=1)
        random = False if best.rivals is None else ((best.rivals > 0) & listed).any(axis=1)
        kept = np.where(better[:, None], items, kept)
        tied = np.where(better, random, tied)
        value = np.maximum(value, revenue)
        if not (revenue > z * (1.0 + 1e-15)).any():
            break
        z = np.maximum(z, revenue)
    return kept, np.asarray(tied, dtype=np.bool_)
