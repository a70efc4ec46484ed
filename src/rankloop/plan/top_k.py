"""The K best items in order of score, ties broken uniformly at random."""

from __future__ import annotations

import numpy as np

from rankloop.math.columns import take
from rankloop.math.kernels import equals_left, largest, largest_by_key, masked
from rankloop.plan.base import Plan, Planner
from rankloop.plan.caps import best_under
from rankloop.propensity import list_distribution as lists
from rankloop.propensity.list_distribution import Composition, Levels, Lines, ListDistribution
from rankloop.shortlist import Shortlist
from rankloop.types import EMPTY, BoolArray, FloatArray, IntArray, Request, SlotScore


class TopK(Planner):
    """Scores every item once and takes the K best."""

    def __call__(self, score: SlotScore, request: Request, rng: np.random.Generator) -> Plan:
        """Return the K best items of every learner."""
        nothing = np.empty((request.learners, 0), dtype=np.int64)
        return best_of(score(nothing, 0), request, rng)

    @property
    def keeps_caps(self) -> bool:
        """True."""
        return True

    def needed(self, request: Request) -> int | None:
        """Return one more than the list has slots."""
        return request.k + 1

    def of_shortlist(self, found: Shortlist, request: Request, rng: np.random.Generator) -> Plan:
        """Return the K best items of every learner."""
        return best_listed(found, request.k, rng)

    def of_fixed_scores(self, policy: Composition) -> ListDistribution:
        """Return the distribution of the largest scores, ties broken at random."""
        return lists.ranked(policy)

    def cut(self, policy: Composition) -> ListDistribution:
        """Return the distribution of the largest scores, cut to the best length."""
        return lists.ranked(policy, why=", cut to the best length")

    def of_levels(self, policy: Composition, levels: Levels) -> ListDistribution:
        """Return the distribution of blocks in order, each shuffled."""
        return lists.by_levels(policy, levels)

    def of_lines(self, policy: Composition, lines: Lines) -> ListDistribution:
        """Return the distribution in which a list is an interval of the normal number."""
        return lists.by_lines(policy, lines)

    def of_random_scores(self, policy: Composition) -> ListDistribution:
        """Return the uniform distribution over lists."""
        return lists.uniform()


def best_of(scores: FloatArray, request: Request, rng: np.random.Generator) -> Plan:
    """Return the k best items of a request by their scores [B, L], which its caps allow."""
    caps = request.active_caps()
    if caps is None:
        return best_k(scores, request.k, rng, allowed=request.allowed)
    return best_under(caps, scores, request, rng)


def top_k(scores: FloatArray, k: int, rng: np.random.Generator, *, allowed: BoolArray | None = None) -> IntArray:
    """Return the indices of the k largest scores of each row, [B, k], exact ties in random order.

    Args:
        scores: [B, L], finite or +inf; not changed.
        k: length of the lists; slots for which no allowed item is left are EMPTY.
        rng: used only for rows in which a tie affects the list.
        allowed: [L] or [B, L].
    """
    return best_k(scores, k, rng, allowed=allowed).items


def best_k(scores: FloatArray, k: int, rng: np.random.Generator, *, allowed: BoolArray | None = None) -> Plan:
    """Return the lists of `top_k` with the scores of the listed items and the ties that were broken at random."""
    if allowed is not None:
        scores = _masked(scores, allowed)
    L = scores.shape[1]
    n = min(k, L)
    order = np.empty((len(scores), min(n + 1, L)), dtype=np.int64)
    values = np.empty(order.shape)
    tied = np.empty(len(scores), dtype=np.bool_)
    largest(np.ascontiguousarray(scores), order, values, tied)
    listed, values, rivals = order[:, :n], values[:, :n], None
    if tied.any():
        equal = scores[tied]
        listed[tied] = _shuffled_ties(equal, n, rng)
        rivals = np.zeros(listed.shape, dtype=np.int64)
        rivals[tied] = _rivals(equal, values[tied])
    if allowed is not None:
        listed[values == -np.inf] = EMPTY
    if n < k:
        empty = ((0, 0), (0, k - n))
        listed, values = np.pad(listed, empty, constant_values=EMPTY), np.pad(values, empty)
        rivals = None if rivals is None else np.pad(rivals, empty)
    return Plan(listed, values, rivals)


def best_listed(found: Shortlist, k: int, rng: np.random.Generator) -> Plan:
    """Return the same as `best_k` for the scores of all items, from a shortlist for k slots."""
    if found.ordered:
        return Plan(found.items[:, :k], found.scores[:, :k])
    best = best_k(found.scores, k, rng)
    items = take(found.items, best.items)
    items[(best.items == EMPTY) | (best.scores == -np.inf)] = EMPTY
    if best.rivals is None:
        return best._replace(items=items)
    left_out = np.where(best.scores == found.scores[:, -1:], found.unlisted, 0)
    return best._replace(items=items, rivals=best.rivals + left_out)


def _masked(scores: FloatArray, allowed: BoolArray) -> FloatArray:
    """Return the scores with -inf where an item is not allowed; unlike `np.where`, without releasing the GIL."""
    may = allowed[None] if allowed.ndim == 1 else allowed
    if may.shape not in ((1, scores.shape[1]), scores.shape):  # compiled loops do not check their bounds
        raise ValueError(f"allowed of shape {allowed.shape} does not fit scores of shape {scores.shape}")
    out = np.empty(scores.shape)
    masked(np.ascontiguousarray(scores), may, out)
    return out


def _shuffled_ties(scores: FloatArray, n: int, rng: np.random.Generator) -> IntArray:
    """Return the n largest of each row; a fresh random key for every item decides between equal scores."""
    order = np.empty((len(scores), n), dtype=np.int64)
    largest_by_key(scores, rng.random(scores.shape), order)
    return order


def _rivals(scores: FloatArray, values: FloatArray) -> IntArray:
    """Return how many of the items left for each slot had exactly the score of the listed one, values [B, n]."""
    rivals = np.empty(values.shape, dtype=np.int64)
    equals_left(scores, np.ascontiguousarray(values), rivals)
    return rivals
