"""Objectives: the value of a list, H(Σ_k g(slot k)), whose gains g an assignment maximises.

A score is on the link scale: u with P(click) = σ(u), or the expected amount where outcomes are amounts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from rankloop.arrays import FloatArray, IntArray
from rankloop.special_functions import expit


class Objective(Protocol):
    """A monotone function H of a sum of gains, one for each slot."""

    @property
    def name(self) -> str:
        """The name in settings and specs."""

    @property
    def prices(self) -> FloatArray | None:
        """The value of a click on each item [L]; None where all clicks have the same value."""

    def gain(self, u: FloatArray) -> FloatArray:
        """Return g of the scores [B, L] of all items for one slot: the weights of an assignment."""

    def value(self, p: FloatArray, items: IntArray) -> FloatArray:
        """Return the expected value [B] of lists [B, K] whose slots succeed with probability p [B, K], 0 if empty."""

    def reward(self, outcomes: FloatArray, items: IntArray) -> FloatArray:
        """Return the realised value [B] of outcomes [B, K] on lists [B, K]."""


@dataclass(frozen=True)
class AnyClick:
    """P(at least one click) = 1 - ∏(1-p): g = -log(1-σ(u)) = softplus(u), which does not saturate."""

    name: ClassVar = "any-click"
    prices: ClassVar = None

    def gain(self, u: FloatArray) -> FloatArray:
        """Return softplus(u)."""
        return np.logaddexp(0.0, u)

    def value(self, p: FloatArray, items: IntArray) -> FloatArray:
        """Return 1 - ∏(1-p)."""
        return np.asarray(1.0 - np.prod(1.0 - p, axis=1))

    def reward(self, outcomes: FloatArray, items: IntArray) -> FloatArray:
        """Return 1 where anything was clicked, else 0."""
        return np.asarray(outcomes.any(axis=1), dtype=np.float64)


@dataclass(frozen=True)
class Clicks:
    """Expected number of clicks: g = σ(u)."""

    name: ClassVar = "clicks"
    prices: ClassVar = None

    def gain(self, u: FloatArray) -> FloatArray:
        """Return σ(u)."""
        return np.asarray(expit(u))

    def value(self, p: FloatArray, items: IntArray) -> FloatArray:
        """Return Σp."""
        return np.asarray(p.sum(axis=1))

    def reward(self, outcomes: FloatArray, items: IntArray) -> FloatArray:
        """Return the number of clicks."""
        return np.asarray(outcomes.sum(axis=1))


@dataclass(frozen=True, eq=False)
class Revenue:
    """Expected revenue: g = price·σ(u)."""

    name: ClassVar = "revenue"
    prices: FloatArray  # [L]

    def gain(self, u: FloatArray) -> FloatArray:
        """Return price·σ(u)."""
        return np.asarray(self.prices * expit(u))

    def value(self, p: FloatArray, items: IntArray) -> FloatArray:
        """Return Σ price·p."""
        return np.asarray((self.prices[items] * p).sum(axis=1))

    def reward(self, outcomes: FloatArray, items: IntArray) -> FloatArray:
        """Return the sum of the prices of clicked items."""
        return np.asarray((self.prices[items] * outcomes).sum(axis=1))


@dataclass(frozen=True)
class Amount:
    """Expected total of a non-negative amount such as watch time: g = max(u, 0), the link is the identity."""

    name: ClassVar = "amount"
    prices: ClassVar = None

    def gain(self, u: FloatArray) -> FloatArray:
        """Return max(u, 0)."""
        return np.maximum(u, 0.0)

    def value(self, p: FloatArray, items: IntArray) -> FloatArray:
        """Return the sum of the expected amounts."""
        return np.asarray(p.sum(axis=1))

    def reward(self, outcomes: FloatArray, items: IntArray) -> FloatArray:
        """Return the sum of the amounts."""
        return np.asarray(outcomes.sum(axis=1))


@dataclass(frozen=True, eq=False)
class Satisfied:
    """P(the visitor leaves satisfied) = 1 - ∏(1 - τ_k p_k) under the dependent click model.

    Which click satisfies is not observed; Σ τ_k click_k has the same mean.
    """

    name: ClassVar = "satisfied"
    prices: ClassVar = None
    termination: FloatArray  # [K], τ

    def gain(self, u: FloatArray) -> FloatArray:
        """Return softplus(u), whose order is that of the attractions."""
        return np.logaddexp(0.0, u)

    def value(self, p: FloatArray, items: IntArray) -> FloatArray:
        """Return 1 - ∏(1 - τ_k p_k)."""
        return np.asarray(1.0 - np.prod(1.0 - self.termination[: p.shape[1]] * p, axis=1))

    def reward(self, outcomes: FloatArray, items: IntArray) -> FloatArray:
        """Return Σ τ_k click_k, an unbiased estimate."""
        return np.asarray((self.termination[: outcomes.shape[1]] * outcomes).sum(axis=1))
