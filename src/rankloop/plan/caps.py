"""Lists under caps: at most n items with one value of a field."""

from __future__ import annotations

import numpy as np

from rankloop.math.assignment import assign
from rankloop.math.caps.matching import assign_under_cap
from rankloop.math.caps.selection import best_pairs, best_under_caps
from rankloop.math.columns import take
from rankloop.plan.base import Plan
from rankloop.types import EMPTY, BoolArray, Caps, FloatArray, IntArray, Request


def allowed_of(request: Request) -> BoolArray:
    """Return which items may be listed, [1 or B, L]."""
    if request.allowed is None:
        return np.ones((1, request.items), dtype=np.bool_)
    return np.ascontiguousarray(np.atleast_2d(request.allowed))


def best_under(caps: Caps, scores: FloatArray, request: Request, rng: np.random.Generator) -> Plan:
    """Return the best items that the caps allow, [B, k], largest first; exact ties in random order.

    Under one cap the first n items are the best n, for every n. Under several caps they are chosen greedily.
    """
    B, k = len(scores), request.k
    may, groups = allowed_of(request), np.ascontiguousarray(caps.groups)
    at_most, counted, scores = caps.at_most, caps.counted, np.ascontiguousarray(scores)
    order, rivals = np.empty((2, B, k), dtype=np.int64)
    values = np.empty((B, k))
    best_under_caps(scores, may, groups, at_most, counted, np.zeros((B, k)), order, values, rivals)
    tied = np.flatnonzero(rivals.any(axis=1))
    if not tied.size:
        return Plan(order, values)
    own = order[tied], values[tied], rivals[tied]
    may = may if len(may) == 1 else may[tied]
    groups = groups if groups.shape[1] == 1 else np.ascontiguousarray(groups[:, tied])
    best_under_caps(scores[tied], may, groups, at_most, counted, rng.random((len(tied), k)), *own)
    order[tied], values[tied], rivals[tied] = own
    return Plan(order, values, rivals)


def first_under(caps: Caps, order: IntArray, allowed: BoolArray, held: IntArray, n: int) -> IntArray:
    """Return the first items of an order that may be listed under caps, at most n.

    Args:
        caps: they are kept.
        order: all items that may be listed, and perhaps others.
        allowed: [L].
        held: items that are in the list anyway.
        n: number of slots.
    """
    falling = np.full((1, len(allowed)), -np.inf)
    falling[0, order] = -np.arange(float(len(order)))
    chosen, values, rivals = np.empty((1, n), dtype=np.int64), np.empty((1, n)), np.empty((1, n), dtype=np.int64)
    may, groups = allowed[None] & (falling > -np.inf), np.ascontiguousarray(caps.groups)
    best_under_caps(falling, may, groups, caps.at_most, held, np.zeros((1, n)), chosen, values, rivals)
    return np.asarray(chosen[0][chosen[0] != EMPTY])


def matching_under(
    caps: Caps, gains: FloatArray, candidates: IntArray, rng: np.random.Generator
) -> tuple[IntArray, BoolArray]:
    """Return matchings [B, k] of large total gain under caps, and whether no other is equally good, [B].

    Under one cap the gain is the largest. Under several, the items are chosen greedily by pairs of slot and item, and
    then matched to the slots exactly. The last slots stay empty where fewer items fit.

    Args:
        caps: of all items.
        gains: [B, k, C] of the candidates, finite.
        candidates: [B, C] items, EMPTY where there is none.
        rng: breaks ties.
    """
    B, k, C = gains.shape
    index, sole = np.empty((B, k), dtype=np.int64), np.empty(B, dtype=np.bool_)
    if len(caps.at_most) == 1 and C:
        group, room = rooms(caps, np.maximum(candidates, 0))
        turn = np.argsort(rng.random((B, k)), axis=1)
        assign_under_cap(np.ascontiguousarray(gains), np.where(candidates == EMPTY, -2, group), room, turn, index, sole)
    else:
        best_pairs(np.ascontiguousarray(gains), candidates, np.ascontiguousarray(caps.groups), *caps[1:], index)
        index, sole = _placed(gains, index), np.zeros(B, dtype=np.bool_)
    return np.where(index == EMPTY, EMPTY, take(candidates, index) if C else EMPTY), sole


def _placed(gains: FloatArray, chosen: IntArray) -> IntArray:
    """Return the best matching [B, k] of chosen candidates [B, k] to as many slots from the first one on."""
    placed = np.full_like(chosen, EMPTY)
    counts = (chosen != EMPTY).sum(axis=1)
    for n in np.unique(counts[counts > 0]).tolist():
        rows = np.flatnonzero(counts == n)
        own = chosen[rows, :n]
        weights = np.take_along_axis(gains[rows, :n], own[:, None, :], axis=2)
        index, sole = np.empty((len(rows), n), dtype=np.int64), np.empty(len(rows), dtype=np.bool_)
        assign(np.ascontiguousarray(weights), index, sole)
        placed[rows, :n] = take(own, index)
    return placed


def rooms(caps: Caps, items: IntArray) -> tuple[IntArray, IntArray]:
    """Return the group of each of the items [B, C] under one cap, and how many items of each group still fit, [B, G].

    Groups are numbered from 0 in the order of their values; an item without a value has group -1.
    """
    B, own = len(items), caps.groups[0]
    values = own[0][items] if len(own) == 1 else take(own, items)
    known, group = np.unique(values, return_inverse=True)
    group = group.reshape(values.shape) - int(np.count_nonzero(known < 0))
    known = known[known >= 0]
    counted = np.broadcast_to(own[:, caps.counted], (B, len(caps.counted)))
    there = (counted[:, :, None] == known).sum(axis=1)
    return np.maximum(group, -1), np.maximum(caps.at_most[0] - there, 0)


def close_full(free: BoolArray, items: IntArray, caps: Caps) -> None:
    """Set free [B, L] to False where an item's value is full after the items of the lists [B, j] and the counted ones.

    Only the values of the last items of the lists are looked at, or those of the counted ones if the lists are empty.
    """
    B = len(free)
    everybody = np.arange(B)
    for groups, at_most in zip(caps.groups, caps.at_most.tolist(), strict=True):
        own = np.broadcast_to(groups, free.shape)
        listed = np.where(items == EMPTY, -1, own[everybody[:, None], items])
        there = np.concatenate([np.broadcast_to(own[:, caps.counted], (B, len(caps.counted))), listed], axis=1)
        for value in there.T if not items.shape[1] else there[:, -1:].T:
            full = (value >= 0) & ((there == value[:, None]).sum(axis=1) >= at_most)
            rows = np.flatnonzero(full)
            free[rows] &= own[rows] != value[rows, None]
