"""Click models: how visitors click, given which items attract them. One class for each model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rankloop.math.columns import take
from rankloop.types import BoolArray, FloatArray, IntArray


class ClickModel(Protocol):
    """A click model. The attraction of an empty slot is 0."""

    @property
    def bias(self) -> FloatArray | None:
        """Return the examination probabilities [K] that policies are given; None where there are none."""

    @property
    def termination(self) -> FloatArray | None:
        """Return the probabilities [K] to leave satisfied after a click; None where there are none."""

    def value(self, p: FloatArray) -> FloatArray:
        """Return the expected reward [B] of lists whose items attract with probability p [B, K]."""

    def best(self, nu: FloatArray, k: int) -> IntArray:
        """Return the best lists [B, k] for attraction probabilities nu [B, L]."""

    def slot_uniforms(self, learners: int, k: int, rng: np.random.Generator) -> FloatArray:
        """Draw the random numbers that belong to slots, not to items: uniforms [B, K], or [B, 0] for none."""

    def outcomes(
        self, p: FloatArray, shown: BoolArray, uniforms: FloatArray, slot_uniforms: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the outcomes [B, K] and the reward [B] of lists.

        Args:
            p: attractions of the listed items [B, K].
            shown: which slots show an item [B, K].
            uniforms: a uniform number for each listed item [B, K].
            slot_uniforms: as drawn by `slot_uniforms`.
        """


class BinaryClicks(ABC):
    """Models in which an item attracts or not, and is clicked or not."""

    def outcomes(
        self, p: FloatArray, shown: BoolArray, uniforms: FloatArray, slot_uniforms: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the clicks of visitors whom an item attracts if its uniform number is below its attraction."""
        return self.click(uniforms < p, slot_uniforms)

    @abstractmethod
    def click(self, attracted: BoolArray, slot_uniforms: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the clicks [B, K] and the reward [B] of visitors attracted by the items of these slots [B, K]."""


def most_attractive(nu: FloatArray, slots: IntArray) -> IntArray:
    """Return lists [B, K] with the k-th most attractive item in slot slots[k]."""
    order = np.argsort(-nu, axis=1, kind="stable")[:, : len(slots)]
    items = np.empty_like(order)
    items[:, slots] = order
    return items


@dataclass(frozen=True)
class CascadeClicks(BinaryClicks):
    """Cascade model: examines slots from the top, clicks the first attractive item and stops. Value 1 - ∏(1-ν)."""

    bias = None
    termination = None

    def value(self, p: FloatArray) -> FloatArray:
        """Return P(at least one item attracts)."""
        return np.asarray(1.0 - np.prod(1.0 - p, axis=1))

    def best(self, nu: FloatArray, k: int) -> IntArray:
        """Return the k most attractive items, in order."""
        return most_attractive(nu, np.arange(k))

    def slot_uniforms(self, learners: int, k: int, rng: np.random.Generator) -> FloatArray:
        """Return an empty array: the model has no randomness per slot."""
        return np.empty((learners, 0))

    def click(self, attracted: BoolArray, slot_uniforms: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return a click on the first attractive slot."""
        first = attracted & (np.cumsum(attracted, axis=1) == 1)
        return first.astype(np.float64), np.any(attracted, axis=1).astype(np.float64)


@dataclass(frozen=True, eq=False)
class DependentClicks(BinaryClicks):
    """Dependent click model: clicks examined attractive items; after a click in slot k leaves with P = termination_k.

    Value P(leaves satisfied) = 1 - ∏(1 - termination_k ν).
    """

    termination: FloatArray  # [K]
    bias = None

    def value(self, p: FloatArray) -> FloatArray:
        """Return P(leaves satisfied)."""
        return np.asarray(1.0 - np.prod(1.0 - self.termination[: p.shape[1]] * p, axis=1))

    def best(self, nu: FloatArray, k: int) -> IntArray:
        """Return lists with more attractive items in slots of higher termination: -log(1-xy) is supermodular."""
        return most_attractive(nu, np.argsort(-self.termination[:k], kind="stable"))

    def slot_uniforms(self, learners: int, k: int, rng: np.random.Generator) -> FloatArray:
        """Draw uniforms that decide whether a click in each slot would satisfy, [B, K]."""
        return rng.random((learners, k))

    def click(self, attracted: BoolArray, slot_uniforms: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return clicks on the attractive slots up to the first one that satisfies."""
        satisfied = attracted & (slot_uniforms < self.termination[: slot_uniforms.shape[1]])
        continues: BoolArray = np.cumsum(satisfied, axis=1) - satisfied == 0
        return (attracted & continues).astype(np.float64), np.any(satisfied, axis=1).astype(np.float64)


@dataclass(frozen=True, eq=False)
class PositionClicks(BinaryClicks):
    """Position-based model: examines slot k with P = bias_k, independently, clicks what attracts. Value Σ bias_k ν."""

    bias: FloatArray  # [K]
    termination = None

    def value(self, p: FloatArray) -> FloatArray:
        """Return the expected number of clicks."""
        return p @ self.bias[: p.shape[1]]

    def best(self, nu: FloatArray, k: int) -> IntArray:
        """Return lists with more attractive items in slots of higher bias: the rearrangement inequality."""
        return most_attractive(nu, np.argsort(-self.bias[:k], kind="stable"))

    def slot_uniforms(self, learners: int, k: int, rng: np.random.Generator) -> FloatArray:
        """Draw uniforms that decide whether each slot is examined, [B, K]."""
        return rng.random((learners, k))

    def click(self, attracted: BoolArray, slot_uniforms: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return clicks on the attractive slots that are examined."""
        clicks = (attracted & (slot_uniforms < self.bias[: slot_uniforms.shape[1]])).astype(np.float64)
        return clicks, clicks.sum(axis=1)


def listed(table: FloatArray, items: IntArray) -> FloatArray:
    """Return table[b, items[b, k]], 0 in empty slots, [B, K]."""
    return np.where(items >= 0, take(table, items), 0.0)
