"""Planners for slots that differ: by known bias, by assignment, and of chosen length."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankloop.math.arrays import take
from rankloop.math.assignment import assign
from rankloop.math.logistic import sigmoid
from rankloop.objective import Objective
from rankloop.plan.base import Plan, Planner
from rankloop.plan.top_k import best_k
from rankloop.types import EMPTY, FloatArray, IntArray, Request, SlotScore


@dataclass(frozen=True, eq=False)
class BySlotBias:
    """The item with the k-th largest score into the slot with the k-th largest bias; equal biases at random."""

    bias: FloatArray  # [K]

    def __call__(self, score: SlotScore, request: Request, rng: np.random.Generator) -> Plan:
        """The best items, the best seen slots first."""
        nothing = np.empty((request.learners, 0), dtype=np.int64)
        best = best_k(score(nothing, 0), request.k, rng, allowed=request.allowed)
        slots = np.lexsort((rng.random(request.k), -self.bias[: request.k]))
        items, scores = np.empty_like(best.items), np.empty_like(best.scores)
        items[:, slots], scores[:, slots] = best.items, best.scores
        return Plan(items, scores)


@dataclass(frozen=True)
class Assignment:
    """A maximum-weight matching of items and slots, every slot filled; weights are the objective's gains.

    An infinite gain (a pair never tried) counts before any finite one. Exact for any number of items: an
    optimal matching needs only the K best items of each slot, so only those are matched.
    """

    objective: Objective

    def __call__(self, score: SlotScore, request: Request, rng: np.random.Generator) -> Plan:
        """The optimal lists."""
        B, k = request.learners, request.k
        nothing = np.empty((B, 0), dtype=np.int64)
        n = min(k, request.items)
        scores = [score(nothing, slot) for slot in range(k)]
        gains = [_finite(self.objective.gain(u), n) for u in scores]
        best = [best_k(gain, n, rng, allowed=request.allowed).items for gain in gains]
        candidates = _shuffled_union(np.concatenate(best, axis=1) if best else nothing, rng)
        weights = np.stack([_listed(gain, candidates) for gain in gains], axis=1) if gains else np.empty((B, 0, 0))
        chosen = np.empty((B, k), dtype=np.int64)
        _match(weights, candidates, chosen)
        used = (
            np.stack([take(u, chosen[:, [j]])[:, 0] for j, u in enumerate(scores)], axis=1) if k else np.empty((B, 0))
        )
        return Plan(chosen, used)


@dataclass(frozen=True, eq=False)
class BestLength:
    """Another planner's list, cut where its expected value with rewards r and losses ℓ is largest.

    Scores are log-odds of success; ties go to the longest list (paper `long-sequences`, Section 3).
    """

    planner: Planner
    rewards: FloatArray  # [K]
    losses: FloatArray  # [K + 1]

    def __call__(self, score: SlotScore, request: Request, rng: np.random.Generator) -> Plan:
        """The list of the inner planner, cut."""
        plan = self.planner(score, request, rng)
        p = np.where(plan.items != EMPTY, sigmoid(plan.scores), 0.0)
        length = best_length(p, (plan.items != EMPTY).sum(axis=1), self.rewards, self.losses)
        kept = np.arange(request.k) < length[:, None]
        return Plan(np.where(kept, plan.items, EMPTY), plan.scores)


def values_by_length(p: FloatArray, rewards: FloatArray, losses: FloatArray) -> FloatArray:
    """Value Σ r_i p_i ∏_{h<i}(1-p_h) + ℓ_s ∏(1-p) of the first s slots, s = 0 … K, [B, K + 1]."""
    B, K = p.shape
    failed = np.concatenate([np.ones((B, 1)), np.cumprod(1.0 - p, axis=1)], axis=1)
    won = np.cumsum(rewards[:K] * p * failed[:, :-1], axis=1)
    return np.asarray(np.concatenate([np.zeros((B, 1)), won], axis=1) + losses[: K + 1] * failed)


def best_length(p: FloatArray, most: IntArray, rewards: FloatArray, losses: FloatArray) -> IntArray:
    """The s in 0 … most [B] of largest value, the longest where several are, [B]."""
    values = values_by_length(p, rewards, losses)
    values = np.where(np.arange(values.shape[1]) <= most[:, None], values, -np.inf)
    return np.asarray(values.shape[1] - 1 - values[:, ::-1].argmax(axis=1))


def _finite(gain: FloatArray, slots: int) -> FloatArray:
    """Gains with each infinite one made larger than any sum of `slots` finite ones."""
    endless = np.isposinf(gain)
    if not endless.any():
        return gain
    spread = np.where(endless, 0.0, np.abs(gain)).max(axis=1, keepdims=True)
    return np.where(endless, 1e6 * (1.0 + spread), gain)


def _shuffled_union(items: IntArray, rng: np.random.Generator) -> IntArray:
    """The distinct items of each row in random order, [B, C], EMPTY where a row has fewer."""
    ordered = np.sort(items, axis=1)
    repeated = np.zeros(items.shape, dtype=np.bool_)
    repeated[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    ordered[repeated] = EMPTY
    keys = np.where(ordered == EMPTY, 2.0, rng.random(ordered.shape))
    shuffled = np.take_along_axis(ordered, np.argsort(keys, axis=1), axis=1)
    most = int((shuffled != EMPTY).sum(axis=1).max(initial=0))
    return shuffled[:, :most]


def _listed(table: FloatArray, items: IntArray) -> FloatArray:
    return np.where(items != EMPTY, take(np.broadcast_to(table, (len(items), table.shape[1])), items), 0.0)


def _match(weights: FloatArray, candidates: IntArray, chosen: IntArray) -> None:
    """Fill chosen [B, k] with the best matching; the last slots stay empty where candidates are too few."""
    k = weights.shape[1]
    counts = (candidates != EMPTY).sum(axis=1)
    for count in np.unique(counts):
        rows = np.flatnonzero(counts == count)
        n = min(int(count), k)
        index = np.empty((len(rows), n), dtype=np.int64)
        assign(np.ascontiguousarray(weights[rows, :n, :count]), index)
        chosen[rows, :n] = take(candidates[rows], index)
        chosen[rows, n:] = EMPTY
