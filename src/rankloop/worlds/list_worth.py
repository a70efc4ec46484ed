"""What lists are worth under a click model and an objective, and the best of them: one class for each pair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rankloop.math.cascade_revenue import best_cascade_revenue
from rankloop.math.columns import take
from rankloop.types import FloatArray
from rankloop.worlds.click_models import ClickModel, most_attractive


class ListWorth(Protocol):
    """The value of lists. Attractions and prices of an empty slot are 0."""

    def value(self, p: FloatArray, prices: FloatArray | None) -> FloatArray:
        """Return the expected value [B] of lists whose items have attractions p and prices [B, K]."""

    def best(self, nu: FloatArray, k: int, prices: FloatArray | None) -> FloatArray:
        """Return the value of the best lists of k slots [B] for attractions nu and prices [B, L]."""

    def reward(self, outcomes: FloatArray, own: FloatArray, prices: FloatArray | None) -> FloatArray:
        """Return the realised value [B] of outcomes [B, K], whose reward in the click model's own terms is own [B]."""


@dataclass(frozen=True)
class ModelWorth:
    """The click model's own value."""

    model: ClickModel

    def value(self, p: FloatArray, prices: FloatArray | None) -> FloatArray:
        """Return the model's value."""
        return self.model.value(p)

    def best(self, nu: FloatArray, k: int, prices: FloatArray | None) -> FloatArray:
        """Return the value of the k most attractive items, in the click model's best order."""
        top = np.partition(nu, -k, axis=1)[:, -k:]  # unordered: a full sort would cost more
        return self.model.value(take(top, self.model.best(top, k)))

    def reward(self, outcomes: FloatArray, own: FloatArray, prices: FloatArray | None) -> FloatArray:
        """Return the model's own reward."""
        return own


@dataclass(frozen=True, eq=False)
class AnyClickWorth:
    """P(at least one click) = 1 - ∏(1 - λ_k ν), where slots differ by λ alone."""

    weights: FloatArray  # [K], λ

    def value(self, p: FloatArray, prices: FloatArray | None) -> FloatArray:
        """Return P(at least one click)."""
        return np.asarray(1.0 - np.prod(1.0 - self.weights[: p.shape[1]] * p, axis=1))

    def best(self, nu: FloatArray, k: int, prices: FloatArray | None) -> FloatArray:
        """Return the value of the best lists: the more attractive, the larger the λ, as -log(1-xy) is supermodular."""
        items = most_attractive(nu, np.argsort(-self.weights[:k], kind="stable"))
        return self.value(take(nu, items), None)

    def reward(self, outcomes: FloatArray, own: FloatArray, prices: FloatArray | None) -> FloatArray:
        """Return 1 where anything was clicked, else 0."""
        return np.asarray(outcomes.any(axis=1), dtype=np.float64)


def of_prices(prices: FloatArray | None) -> FloatArray:
    """Return the prices, which a revenue needs."""
    if prices is None:
        raise TypeError("a revenue needs prices")
    return prices


class RevenueReward:
    """The reward of all revenues: the prices of what was clicked."""

    def reward(self, outcomes: FloatArray, own: FloatArray, prices: FloatArray | None) -> FloatArray:
        """Return the sum of the prices of clicked items."""
        return np.asarray((of_prices(prices) * outcomes).sum(axis=1))


@dataclass(frozen=True)
class CascadeRevenueWorth(RevenueReward):
    """The expected price of the clicked item of a cascade: Σ p_k ν_k ∏_{j<k}(1-ν_j)."""

    def value(self, p: FloatArray, prices: FloatArray | None) -> FloatArray:
        """Return the expected price."""
        passed = np.cumprod(1.0 - p, axis=1)
        reached = np.concatenate([np.ones_like(passed[:, :1]), passed[:, :-1]], axis=1)
        return np.asarray((of_prices(prices) * p * reached).sum(axis=1))

    def best(self, nu: FloatArray, k: int, prices: FloatArray | None) -> FloatArray:
        """Return the value of the best lists, by a recursion over the items in order of price."""
        return best_cascade_revenue(nu, of_prices(prices), k)


@dataclass(frozen=True, eq=False)
class SlotRevenueWorth(RevenueReward):
    """The expected revenue of independent slots: Σ λ_k price ν."""

    bias: FloatArray  # [K], λ

    def value(self, p: FloatArray, prices: FloatArray | None) -> FloatArray:
        """Return the expected revenue."""
        return np.asarray((of_prices(prices) * p) @ self.bias[: p.shape[1]])

    def best(self, nu: FloatArray, k: int, prices: FloatArray | None) -> FloatArray:
        """Return the value of the best lists: the larger price·ν, the larger the bias."""
        earns = of_prices(prices) * nu
        items = most_attractive(earns, np.argsort(-self.bias[:k], kind="stable"))
        return take(earns, items) @ self.bias[:k]


@dataclass(frozen=True, eq=False)
class ChoiceWorth:
    """P(click) of a multinomial logit choice: Σ λα/(1 + Σ λα)."""

    bias: FloatArray  # [K], λ

    def value(self, p: FloatArray, prices: FloatArray | None) -> FloatArray:
        """Return P(click)."""
        return np.asarray(choice_probabilities(p, self.bias).sum(axis=1))

    def best(self, nu: FloatArray, k: int, prices: FloatArray | None) -> FloatArray:
        """Return the value of the best lists: the more attractive, the larger the bias."""
        items = most_attractive(nu, np.argsort(-self.bias[:k], kind="stable"))
        return self.value(take(nu, items), None)

    def reward(self, outcomes: FloatArray, own: FloatArray, prices: FloatArray | None) -> FloatArray:
        """Return 1 where anything was clicked, else 0."""
        return own


@dataclass(frozen=True, eq=False)
class ChoiceRevenueWorth(RevenueReward):
    """The expected price of the chosen item: Σ λα·price/(1 + Σ λα)."""

    bias: FloatArray  # [K], λ

    def value(self, p: FloatArray, prices: FloatArray | None) -> FloatArray:
        """Return the expected price."""
        return np.asarray((of_prices(prices) * choice_probabilities(p, self.bias)).sum(axis=1))

    def best(self, nu: FloatArray, k: int, prices: FloatArray | None) -> FloatArray:
        """Return the value of the best lists, by Dinkelbach's method.

        z is the value of the k largest α(price - z), the larger into the larger bias, until z stays: z rises in each
        step. Where the bias does not increase down the list, an item with price below z is left out, and the list ends
        early; otherwise all slots are filled.
        """
        bias, cost = self.bias[:k], of_prices(prices)
        slots = np.argsort(-bias, kind="stable")
        may_end = not (np.diff(bias) > 0).any()
        z = np.zeros(len(nu))
        while True:
            items = most_attractive(nu * (cost - z[:, None]), slots)
            p, price = take(nu, items), take(cost, items)
            if may_end:
                p = np.where(price > z[:, None], p, 0.0)
            better = self.value(p, price)
            if not (better > z).any():
                return z
            z = np.maximum(z, better)


def choice_probabilities(alpha: FloatArray, bias: FloatArray) -> FloatArray:
    """Return P(slot k is chosen) = λ_k α/(1 + Σ λ_v α) for the attractions of lists [B, K], 0 where empty, [B, K]."""
    weight = bias[: alpha.shape[1]] * alpha
    return np.asarray(weight / (1.0 + weight.sum(axis=1, keepdims=True)))
