"""Objectives: the value of a list, H(Σ_k g(slot k)), whose gains g an assignment maximises.

A score is on the link scale: u with P(click) = σ(u), or the expected amount where outcomes are amounts. Prices are
those of the request, by item for gains and by slot for values; without them the prices of the objective count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from rankloop.arrays import FloatArray, IntArray
from rankloop.special_functions import expit


class Objective(Protocol):
    """A monotone function H of a sum of gains, one for each slot.

    H is 1 - e⁻ˢ where the value is the probability of a click, and the sum s itself elsewhere. It does not change
    which list is best.
    """

    @property
    def name(self) -> str:
        """The name in settings and specs."""

    @property
    def unit(self) -> str:
        """What a value counts, for reports."""

    @property
    def prices(self) -> FloatArray | None:
        """The value of a click on each item [L]; None where all clicks have the same value."""

    def gain(self, u: FloatArray, prices: FloatArray | None = None) -> FloatArray:
        """Return g of the scores [B, L] of all items for one slot: the weights of an assignment."""

    def gain_of_mean(self, mean: FloatArray, prices: FloatArray | None = None) -> FloatArray:
        """Return g of expected outcomes [B, L] instead of scores."""

    def value(self, p: FloatArray, items: IntArray, prices: FloatArray | None = None) -> FloatArray:
        """Return the expected value [B] of lists [B, K].

        Args:
            p: the expected outcome of each slot [B, K], 0 if empty; for the net reward and satisfied visitors the
                probability that an examined slot is clicked.
            items: the lists [B, K], -1 for an empty slot.
            prices: of the listed items [B, K], or of all slots [K]; None: those of the objective.
        """

    def reward(self, outcomes: FloatArray, items: IntArray, prices: FloatArray | None = None) -> FloatArray:
        """Return the realised value [B] of outcomes [B, K] on lists [B, K]; prices as in `value`."""


@dataclass(frozen=True)
class AnyClick:
    """P(at least one click) = 1 - ∏(1-p): g = -log(1-σ(u)) = softplus(u), which does not saturate."""

    name: ClassVar = "any-click"
    unit: ClassVar = "lists with a click"
    prices: ClassVar = None

    def gain(self, u: FloatArray, prices: FloatArray | None = None) -> FloatArray:
        """Return softplus(u)."""
        return np.logaddexp(0.0, u)

    def gain_of_mean(self, mean: FloatArray, prices: FloatArray | None = None) -> FloatArray:
        """Return -log(1-p)."""
        with np.errstate(divide="ignore"):
            return np.asarray(-np.log1p(-mean))

    def value(self, p: FloatArray, items: IntArray, prices: FloatArray | None = None) -> FloatArray:
        """Return 1 - ∏(1-p)."""
        return np.asarray(1.0 - np.prod(1.0 - p, axis=1))

    def reward(self, outcomes: FloatArray, items: IntArray, prices: FloatArray | None = None) -> FloatArray:
        """Return 1 where anything was clicked, else 0."""
        return np.asarray(outcomes.any(axis=1), dtype=np.float64)


@dataclass(frozen=True)
class Clicks:
    """Expected number of clicks: g = σ(u)."""

    name: ClassVar = "clicks"
    unit: ClassVar = "clicks"
    prices: ClassVar = None

    def gain(self, u: FloatArray, prices: FloatArray | None = None) -> FloatArray:
        """Return σ(u)."""
        return np.asarray(expit(u))

    def gain_of_mean(self, mean: FloatArray, prices: FloatArray | None = None) -> FloatArray:
        """Return p."""
        return mean

    def value(self, p: FloatArray, items: IntArray, prices: FloatArray | None = None) -> FloatArray:
        """Return Σp."""
        return np.asarray(p.sum(axis=1))

    def reward(self, outcomes: FloatArray, items: IntArray, prices: FloatArray | None = None) -> FloatArray:
        """Return the number of clicks."""
        return np.asarray(outcomes.sum(axis=1))


@dataclass(frozen=True, eq=False)
class Revenue:
    """Expected revenue: g = price·σ(u)."""

    name: ClassVar = "revenue"
    unit: ClassVar = "revenue"
    prices: FloatArray  # [L]

    def gain(self, u: FloatArray, prices: FloatArray | None = None) -> FloatArray:
        """Return price·σ(u)."""
        return np.asarray((self.prices if prices is None else prices) * expit(u))

    def gain_of_mean(self, mean: FloatArray, prices: FloatArray | None = None) -> FloatArray:
        """Return price·p."""
        return np.asarray((self.prices if prices is None else prices) * mean)

    def value(self, p: FloatArray, items: IntArray, prices: FloatArray | None = None) -> FloatArray:
        """Return Σ price·p."""
        return np.asarray((self._of_slots(items, prices) * p).sum(axis=1))

    def reward(self, outcomes: FloatArray, items: IntArray, prices: FloatArray | None = None) -> FloatArray:
        """Return the sum of the prices of clicked items."""
        return np.asarray((self._of_slots(items, prices) * outcomes).sum(axis=1))

    def _of_slots(self, items: IntArray, prices: FloatArray | None) -> FloatArray:
        return self.prices[items] if prices is None else prices


@dataclass(frozen=True)
class Amount:
    """Expected total of a non-negative amount such as watch time: g = max(u, 0), the link is the identity."""

    name: ClassVar = "amount"
    unit: ClassVar = "amount"
    prices: ClassVar = None

    def gain(self, u: FloatArray, prices: FloatArray | None = None) -> FloatArray:
        """Return max(u, 0)."""
        return np.maximum(u, 0.0)

    def gain_of_mean(self, mean: FloatArray, prices: FloatArray | None = None) -> FloatArray:
        """Return the expected amount."""
        return mean

    def value(self, p: FloatArray, items: IntArray, prices: FloatArray | None = None) -> FloatArray:
        """Return the sum of the expected amounts."""
        return np.asarray(p.sum(axis=1))

    def reward(self, outcomes: FloatArray, items: IntArray, prices: FloatArray | None = None) -> FloatArray:
        """Return the sum of the amounts."""
        return np.asarray(outcomes.sum(axis=1))


@dataclass(frozen=True, eq=False)
class Satisfied:
    """P(the visitor leaves satisfied) = 1 - ∏(1 - τ_k p_k) under the dependent click model.

    Whether a visitor left satisfied is not observed. Σ τ_k click_k has the same mean: each click in slot k is followed
    by satisfaction with probability τ_k.
    """

    name: ClassVar = "satisfied"
    unit: ClassVar = "satisfied visitors"
    prices: ClassVar = None
    termination: FloatArray  # [K], τ

    def gain(self, u: FloatArray, prices: FloatArray | None = None) -> FloatArray:
        """Return softplus(u), whose order is that of the attractions."""
        return np.logaddexp(0.0, u)

    def gain_of_mean(self, mean: FloatArray, prices: FloatArray | None = None) -> FloatArray:
        """Return p, whose order is that of the attractions."""
        return mean

    def value(self, p: FloatArray, items: IntArray, prices: FloatArray | None = None) -> FloatArray:
        """Return 1 - ∏(1 - τ_k p_k)."""
        return np.asarray(1.0 - np.prod(1.0 - self.termination[: p.shape[1]] * p, axis=1))

    def reward(self, outcomes: FloatArray, items: IntArray, prices: FloatArray | None = None) -> FloatArray:
        """Return Σ τ_k click_k, an unbiased estimate."""
        return np.asarray((self.termination[: outcomes.shape[1]] * outcomes).sum(axis=1))


@dataclass(frozen=True, eq=False)
class NetReward:
    """Reward r_j of the first success in slot j, loss ℓ_s where all s listed items fail, under the cascade model."""

    name: ClassVar = "net-reward"
    unit: ClassVar = "net reward"
    prices: ClassVar = None
    rewards: FloatArray  # [K], r
    losses: FloatArray  # [K + 1], ℓ

    def gain(self, u: FloatArray, prices: FloatArray | None = None) -> FloatArray:
        """Return softplus(u), whose order is that of the attractions."""
        return np.logaddexp(0.0, u)

    def gain_of_mean(self, mean: FloatArray, prices: FloatArray | None = None) -> FloatArray:
        """Return p, whose order is that of the attractions."""
        return mean

    def value(self, p: FloatArray, items: IntArray, prices: FloatArray | None = None) -> FloatArray:
        """Return Σ r_j p_j ∏_{h<j}(1-p_h) + ℓ_s ∏(1-p)."""
        B, K = p.shape
        failed = np.concatenate([np.ones((B, 1)), np.cumprod(1.0 - p, axis=1)], axis=1)
        won = (self.rewards[:K] * p * failed[:, :-1]).sum(axis=1)
        return np.asarray(won + self.losses[(items >= 0).sum(axis=1)] * failed[:, -1])

    def reward(self, outcomes: FloatArray, items: IntArray, prices: FloatArray | None = None) -> FloatArray:
        """Return r_j of the first success, or ℓ_s where nothing succeeded."""
        success = outcomes != 0
        lost = self.losses[(items >= 0).sum(axis=1)]
        if not outcomes.shape[1]:
            return np.asarray(lost)
        return np.asarray(np.where(success.any(axis=1), self.rewards[success.argmax(axis=1)], lost))


def objective_of(
    name: str,
    *,
    prices: FloatArray | None = None,
    termination: FloatArray | None = None,
    rewards: FloatArray | None = None,
    losses: FloatArray | None = None,
    slots: int = 0,
) -> Objective:
    """Return the objective of this name; any-click with rewards or losses is the net reward.

    Args:
        name: any-click, clicks, satisfied, revenue or amount.
        prices: [L] of the items, for the revenue.
        termination: [K], for satisfied visitors; 1 in each slot where it is not given.
        rewards: [K]; 1 where only losses are given.
        losses: [K + 1]; 0 where only rewards are given.
        slots: K, where neither of the arrays above says it.
    """
    if name == Revenue.name:
        return Revenue(np.zeros(0) if prices is None else prices)
    if name == Satisfied.name:
        return Satisfied(np.ones(slots) if termination is None else termination)
    if rewards is not None or losses is not None:
        K = len(losses) - 1 if losses is not None else len(rewards) if rewards is not None else slots
        return NetReward(np.ones(K) if rewards is None else rewards, np.zeros(K + 1) if losses is None else losses)
    plain: dict[str, Objective] = {AnyClick.name: AnyClick(), Clicks.name: Clicks(), Amount.name: Amount()}
    return plain[name]
