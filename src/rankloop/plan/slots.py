"""Planners for slots that differ: by known bias, by assignment, and with a chosen length."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankloop.errors import InvalidInput
from rankloop.math.assignment import assign
from rankloop.math.columns import take
from rankloop.math.links import Link
from rankloop.math.logistic import sigmoid
from rankloop.objective import Objective
from rankloop.plan.base import Plan, Planner, check_slots
from rankloop.plan.caps import matching_under
from rankloop.plan.prices import prices_of
from rankloop.plan.top_k import best_listed, best_of
from rankloop.propensity import list_distribution as lists
from rankloop.propensity.list_distribution import Composition, Levels, ListDistribution
from rankloop.shortlist import Shortlist
from rankloop.types import EMPTY, BoolArray, Caps, FloatArray, IntArray, Read, Request, SlotScore

UNKNOWN_RIVALS = -1
"""Rivals of a matching that ties with others: which of them is found is random, but not uniform."""
MAX_FULL_ITEMS = 256
"""Number of items up to which a matching considers all of them; measured faster than selecting the best first."""


@dataclass(frozen=True, eq=False)
class BySlotBias(Planner):
    """Puts the item with the k-th largest score into the slot with the k-th largest bias; equal biases at random.

    Where n < k items are allowed, the first n slots are filled.
    """

    bias: FloatArray  # [K]

    def __call__(self, score: SlotScore, request: Request, rng: np.random.Generator) -> Plan:
        """Return the best items, in order of bias."""
        check_slots(request, len(self.bias))
        nothing = np.empty((request.learners, 0), dtype=np.int64)
        return self._placed(best_of(score(nothing, 0), request, rng), request, rng)

    def needed(self, request: Request) -> int | None:
        """Return one more than the list has slots."""
        return request.k + 1

    def of_shortlist(self, found: Shortlist, request: Request, rng: np.random.Generator) -> Plan:
        """Return the best items, in order of bias."""
        check_slots(request, len(self.bias))
        return self._placed(best_listed(found, request.k, rng), request, rng)

    def _placed(self, best: Plan, request: Request, rng: np.random.Generator) -> Plan:
        """Return the best items, in order of score, in the slots in order of bias."""
        filled = np.arange(request.k) < (best.items != EMPTY).sum(axis=1, keepdims=True)
        own = self.bias[: request.k] if request.slots is None else self.bias[request.slots]
        bias = np.where(filled, own, -np.inf)
        order = np.broadcast_to(rng.random(request.k), bias.shape)
        slots = np.lexsort((order, -bias), axis=1)
        items, scores = np.empty_like(best.items), np.empty_like(best.scores)
        np.put_along_axis(items, slots, best.items, axis=1)
        np.put_along_axis(scores, slots, best.scores, axis=1)
        if best.rivals is None:
            return Plan(items, scores)
        rivals = np.empty_like(best.rivals)
        np.put_along_axis(rivals, slots, best.rivals, axis=1)
        return Plan(items, scores, rivals)

    @property
    def keeps_caps(self) -> bool:
        """True."""
        return True

    def of_fixed_scores(self, policy: Composition) -> ListDistribution:
        """Return the distribution of the largest scores in order of bias, ties of either broken at random."""
        return lists.ranked(policy, self.bias, ", slots in order of bias")

    def of_levels(self, policy: Composition, levels: Levels) -> ListDistribution:
        """Return the distribution of blocks in order, each shuffled, over slots in order of bias."""
        return lists.by_levels(policy, levels, self.bias)

    def of_random_scores(self, policy: Composition) -> ListDistribution:
        """Return the uniform distribution over lists."""
        return lists.uniform()


@dataclass(frozen=True, eq=False)
class Assignment(Planner):
    """A maximum-weight matching of items and slots, every slot filled; weights are the objective's gains.

    An infinite gain (a pair that was never shown) precedes any finite one. Exact for any number of items: an
    optimal matching needs only the K best items of each slot, so only those are matched where there are many items.
    """

    objective: Objective
    max_full_items: int = MAX_FULL_ITEMS
    link: Link | None = None  # of the scores; None: the gains of the objective are functions of the scores themselves
    weights: FloatArray | None = None  # [K], factor of the gain in each slot; None: 1

    def __call__(self, score: SlotScore, request: Request, rng: np.random.Generator) -> Plan:
        """Return the optimal lists."""
        B, k, L = request.learners, request.k, request.items
        if k == 0:
            return Plan(np.empty((B, 0), dtype=np.int64), np.empty((B, 0)))
        if self.weights is not None:
            check_slots(request, len(self.weights))
        nothing = np.empty((B, 0), dtype=np.int64)
        scores = np.stack([np.broadcast_to(score(nothing, slot), (B, L)) for slot in range(k)], axis=1)
        gains = np.stack([self._gain(scores[:, slot], slot, request) for slot in range(k)], axis=1)
        items, sole = best_matching(gains, request, rng, self.max_full_items)
        shown = np.take_along_axis(scores, np.maximum(items, 0)[:, :, None], axis=2)[:, :, 0]
        rivals = None if sole.all() else np.repeat(np.where(sole, 0, UNKNOWN_RIVALS)[:, None], k, axis=1)
        return Plan(items, shown, rivals)

    @property
    def keeps_caps(self) -> bool:
        """True."""
        return True

    def working_bytes(self, items: int, slots: int) -> int:
        """Return the bytes of scores, gains and their copies by slot and item, [k, L]."""
        return 6 * items * slots * np.dtype(np.float64).itemsize

    @property
    def offers(self) -> frozenset[Read]:
        """The slot: each slot has its own scores."""
        return frozenset({"slot"})

    @property
    def reads(self) -> frozenset[Read]:
        """The prices, if the objective has any."""
        return frozenset() if self.objective.prices is None else frozenset({"prices"})

    def of_fixed_scores(self, policy: Composition) -> ListDistribution:
        """Return the distribution of the single best matching."""
        return lists.settled(policy, "the best matching of items and slots")

    def _gain(self, scores: FloatArray, slot: int, request: Request) -> FloatArray:
        """Return the gains [B, L] of all items in a slot of the request."""
        prices = None if self.objective.prices is None else prices_of(self.objective, request)
        if self.link is None:
            gains = self.objective.gain(scores, prices)
        else:
            gains = self.objective.gain_of_mean(self.link.attraction(scores), prices)
        if self.weights is None:
            return gains
        weight = self.weights[slot if request.slots is None else request.slots[slot]]
        return gains * weight if weight > 0.0 else np.zeros_like(gains)  # an infinite gain times 0 is nothing


@dataclass(frozen=True, eq=False)
class BestLength(Planner):
    """Another planner's list, cut to the length of largest expected value under rewards r and losses ℓ.

    Scores are log-odds of success; ties go to the longest list (paper `long-sequences`, Section 3). Rewards and losses
    of a request replace those of the policy.
    """

    planner: Planner
    rewards: FloatArray  # [K]
    losses: FloatArray  # [K + 1]

    def __call__(self, score: SlotScore, request: Request, rng: np.random.Generator) -> Plan:
        """Return the inner planner's list, cut."""
        check_rewards(request.rewards, request.losses)
        rewards = self.rewards if request.rewards is None else request.rewards
        losses = self.losses if request.losses is None else request.losses
        check_slots(request, min(len(rewards), len(losses) - 1))
        plan = self.planner(score, request, rng)
        p = np.where(plan.items != EMPTY, sigmoid(plan.scores), 0.0)
        length = best_length(p, (plan.items != EMPTY).sum(axis=1), rewards, losses)
        kept = np.arange(request.k) < length[:, None]
        return Plan(np.where(kept, plan.items, EMPTY), plan.scores, plan.rivals)

    @property
    def keeps_caps(self) -> bool:
        """Whether the inner planner does."""
        return self.planner.keeps_caps

    def approximate(self, caps: Caps, request: Request) -> bool:
        """Delegate to the inner planner: under one cap its first n items are the best n."""
        return self.planner.approximate(caps, request)

    @property
    def reads(self) -> frozenset[Read]:
        """The rewards and losses by slot, and what the inner planner reads."""
        return self.planner.reads | {"rewards"}

    @property
    def ends_early(self) -> bool:
        """True: the length is chosen."""
        return True

    @property
    def offers(self) -> frozenset[Read]:
        """What the inner planner offers."""
        return self.planner.offers

    @property
    def explores_itself(self) -> bool:
        """Whether the inner planner explores by itself."""
        return self.planner.explores_itself

    def of_fixed_scores(self, policy: Composition) -> ListDistribution:
        """Return the inner planner's distribution, where a cut list determines the whole one."""
        return self.planner.cut(policy)


def values_by_length(p: FloatArray, rewards: FloatArray, losses: FloatArray) -> FloatArray:
    """Return the value Σ r_i p_i ∏_{h<i}(1-p_h) + ℓ_s ∏(1-p) of the first s slots, s = 0 … K, [B, K + 1]."""
    B, K = p.shape
    failed = np.concatenate([np.ones((B, 1)), np.cumprod(1.0 - p, axis=1)], axis=1)
    won = np.cumsum(rewards[:K] * p * failed[:, :-1], axis=1)
    return np.asarray(np.concatenate([np.zeros((B, 1)), won], axis=1) + losses[: K + 1] * failed)


def best_length(p: FloatArray, most: IntArray, rewards: FloatArray, losses: FloatArray) -> IntArray:
    """Return the length s in 0 … most [B] of largest value, the longest of equal ones, [B].

    Values that differ by rounding only count as equal: sums of decimal rewards rarely tie to the last bit.
    """
    values = values_by_length(p, rewards, losses)
    values = np.where(np.arange(values.shape[1]) <= most[:, None], values, -np.inf)
    best = values.max(axis=1, keepdims=True)
    ties = values >= best - 4.0 * np.spacing(np.maximum(np.abs(best), np.abs(losses).max(initial=0.0)))
    return np.asarray(values.shape[1] - 1 - ties[:, ::-1].argmax(axis=1))


def check_rewards(rewards: FloatArray | None, losses: FloatArray | None) -> None:
    """Refuse rewards and losses by position for which the order by attraction is not optimal.

    Ordering items by attraction and then choosing the length is exact for rewards that are at least 0 and never rise
    from slot to slot, and losses that are at most 0 and never rise.
    """
    for name, values, sign, bound in (("rewards", rewards, 1.0, "at least 0"), ("losses", losses, -1.0, "at most 0")):
        if values is None:
            continue
        numbers = np.asarray(values, dtype=np.float64)
        if not (np.isfinite(numbers).all() and (sign * numbers >= 0.0).all() and (np.diff(numbers) <= 0.0).all()):
            raise InvalidInput(name, numbers.tolist(), f"numbers of {bound} that never rise from slot to slot")


def best_matching(
    gains: FloatArray, request: Request, rng: np.random.Generator, max_full_items: int = MAX_FULL_ITEMS
) -> tuple[IntArray, BoolArray]:
    """Return the matchings [B, k] of largest total gain, and whether no other is equally good, [B].

    Args:
        gains: [B, k, L], finite or +inf.
        request: what may be listed.
        rng: breaks ties.
        max_full_items: up to this number of items all are matched, and the best of each slot otherwise.
    """
    finite = _finite(gains, min(gains.shape[1:]))
    needed, left_out = _candidates(finite, request, rng, max_full_items)
    candidates, caps = _shuffled(needed, rng), request.active_caps()
    weights = np.take_along_axis(finite, np.maximum(candidates, 0)[:, None, :], axis=2)
    if caps is None:
        items, sole = _match(weights, candidates, rng)
    else:
        items, sole = matching_under(caps, weights, candidates, rng)
    return items, sole & ~left_out


def _candidates(
    gains: FloatArray, request: Request, rng: np.random.Generator, max_full_items: int
) -> tuple[IntArray, BoolArray]:
    """Return the items that an optimal matching may need, [B, C], padded with EMPTY.

    The second result says where tied items were left out, [B].
    """
    B, k, L = gains.shape
    left_out, caps = np.zeros(B, dtype=np.bool_), request.active_caps()
    if max_full_items >= L or (caps is not None and len(caps.at_most) > 1):
        everything = np.broadcast_to(np.arange(L), (B, L))
        return np.where(True if request.allowed is None else request.allowed, everything, EMPTY), left_out
    # Under one cap a slot's best list of k items holds, for any item outside, one of its group that is as good, or k
    # such items of any group. Which of several equal items of a group it holds is random.
    best = [best_of(gains[:, slot], request, rng) for slot in range(k)]
    for plan in best:
        if plan.rivals is not None:
            left_out |= plan.rivals.any(axis=1) if caps is not None else plan.rivals[:, -1] > 0
    ordered = np.sort(np.concatenate([plan.items for plan in best], axis=1), axis=1)
    ordered[:, 1:][ordered[:, 1:] == ordered[:, :-1]] = EMPTY
    return ordered, left_out


def _finite(gains: FloatArray, slots: int) -> FloatArray:
    """Return gains [B, k, L] with infinite ones replaced by more than any sum of `slots` finite ones of the learner."""
    endless = np.isposinf(gains)
    if not endless.any():
        return gains
    spread = np.where(endless, 0.0, np.abs(gains)).max(axis=(1, 2), keepdims=True)
    return np.where(endless, 1e3 * slots * (1.0 + spread), gains)


def _shuffled(items: IntArray, rng: np.random.Generator) -> IntArray:
    """Return the items of each row in random order without EMPTY columns, so that ties are broken at random."""
    keys = np.where(items == EMPTY, 2.0, rng.random(items.shape))
    shuffled = np.take_along_axis(items, np.argsort(keys, axis=1), axis=1)
    most = int((shuffled != EMPTY).sum(axis=1).max(initial=0))
    return np.asarray(shuffled[:, :most])


def _match(weights: FloatArray, candidates: IntArray, rng: np.random.Generator) -> tuple[IntArray, BoolArray]:
    """Return the best matching [B, k] of candidates [B, C], and whether no other is equally good, [B].

    The last slots stay empty where there are too few candidates.
    """
    B, k, _ = weights.shape
    items = np.full((B, k), EMPTY, dtype=np.int64)
    sole = np.ones(B, dtype=np.bool_)
    counts = (candidates != EMPTY).sum(axis=1)
    for count in np.unique(counts):
        rows = np.flatnonzero(counts == count)
        n = min(int(count), k)
        # Slots are shuffled as well: equal slots would otherwise always be filled in the same way.
        slots = np.argsort(rng.random((len(rows), n)), axis=1)
        index = np.empty((len(rows), n), dtype=np.int64)
        alone = np.empty(len(rows), dtype=np.bool_)
        assign(np.take_along_axis(weights[rows, :n, :count], slots[:, :, None], axis=1), index, alone)
        placed = np.empty_like(index)
        np.put_along_axis(placed, slots, index, axis=1)
        items[rows, :n] = take(candidates[rows], placed)
        sole[rows] = alone
    return items, sole
