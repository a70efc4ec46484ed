"""How visitors behave, given how attractive each item is to them. One class for each click model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rankloop.math.columns import take
from rankloop.types import BoolArray, FloatArray, IntArray


class ClickModel(Protocol):
    """A visitor's behaviour. Attraction of an empty slot is 0."""

    @property
    def bias(self) -> FloatArray | None:
        """Examination probabilities [K] that policies may be told."""

    def value(self, p: FloatArray) -> FloatArray:
        """Expected reward [B] of lists whose items attract with probability p [B, K]."""

    def best(self, nu: FloatArray, k: int) -> IntArray:
        """The best lists [B, k] for attraction probabilities nu [B, L]."""

    def slot_uniforms(self, learners: int, k: int, rng: np.random.Generator) -> FloatArray:
        """What of a visitor does not depend on items: uniforms [B, K], or [B, 0] if there is nothing."""

    def click(self, attracted: BoolArray, slot_uniforms: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Clicks [B, K] and reward [B] of a visitor attracted by these slots [B, K]."""


def most_attractive(nu: FloatArray, slots: IntArray) -> IntArray:
    """Lists [B, K] with the k-th most attractive item in slot slots[k]."""
    order = np.argsort(-nu, axis=1, kind="stable")[:, : len(slots)]
    items = np.empty_like(order)
    items[:, slots] = order
    return items


@dataclass(frozen=True)
class CascadeClicks:
    """Scans down, clicks the first attractive item and stops. Value 1 - ∏(1-ν)."""

    bias = None

    def value(self, p: FloatArray) -> FloatArray:
        """P(at least one attracts)."""
        return np.asarray(1.0 - np.prod(1.0 - p, axis=1))

    def best(self, nu: FloatArray, k: int) -> IntArray:
        """The k most attractive."""
        return most_attractive(nu, np.arange(k))

    def slot_uniforms(self, learners: int, k: int, rng: np.random.Generator) -> FloatArray:
        """None."""
        return np.empty((learners, 0))

    def click(self, attracted: BoolArray, slot_uniforms: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The first attractive slot."""
        first = attracted & (np.cumsum(attracted, axis=1) == 1)
        return first.astype(np.float64), np.any(attracted, axis=1).astype(np.float64)


@dataclass(frozen=True, eq=False)
class DependentClicks:
    """Clicks each examined attractive item; after a click in slot k leaves with probability termination_k.

    Value P(leaves satisfied) = 1 - ∏(1 - termination_k ν).
    """

    termination: FloatArray  # [K]
    bias = None

    def value(self, p: FloatArray) -> FloatArray:
        """P(leaves satisfied)."""
        return np.asarray(1.0 - np.prod(1.0 - self.termination[: p.shape[1]] * p, axis=1))

    def best(self, nu: FloatArray, k: int) -> IntArray:
        """The more attractive, the likelier to end there: -log(1-xy) is supermodular."""
        return most_attractive(nu, np.argsort(-self.termination[:k], kind="stable"))

    def slot_uniforms(self, learners: int, k: int, rng: np.random.Generator) -> FloatArray:
        """Whether a click in each slot would satisfy."""
        return rng.random((learners, k))

    def click(self, attracted: BoolArray, slot_uniforms: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Attractive slots down to the one that satisfies."""
        satisfied = attracted & (slot_uniforms < self.termination[: slot_uniforms.shape[1]])
        stays: BoolArray = np.cumsum(satisfied, axis=1) - satisfied == 0
        return (attracted & stays).astype(np.float64), np.any(satisfied, axis=1).astype(np.float64)


@dataclass(frozen=True, eq=False)
class PositionClicks:
    """Examines slot k with probability bias_k, independently, and clicks what attracts. Value Σ bias_k ν."""

    bias: FloatArray  # [K]

    def value(self, p: FloatArray) -> FloatArray:
        """Expected number of clicks."""
        return p @ self.bias[: p.shape[1]]

    def best(self, nu: FloatArray, k: int) -> IntArray:
        """The more attractive, the better seen: the rearrangement inequality."""
        return most_attractive(nu, np.argsort(-self.bias[:k], kind="stable"))

    def slot_uniforms(self, learners: int, k: int, rng: np.random.Generator) -> FloatArray:
        """Whether each slot is looked at."""
        return rng.random((learners, k))

    def click(self, attracted: BoolArray, slot_uniforms: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Attractive slots that are looked at."""
        clicks = (attracted & (slot_uniforms < self.bias[: slot_uniforms.shape[1]])).astype(np.float64)
        return clicks, clicks.sum(axis=1)


def listed(table: FloatArray, items: IntArray) -> FloatArray:
    """table[b, items[b, k]], 0 in empty slots, [B, K]."""
    return np.where(items >= 0, take(table, items), 0.0)
