"""Feedback models: what clicks reveal about the items of a list.

Every model reads clicks [B, K] as evidence (outcome, exposure). A learner's feedback model may differ from the world's
click model: `keep` returns what a log of this model would hold of a visitor who behaves differently.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankloop.errors import InvalidInput, Words
from rankloop.math.kernels import possible, repeats
from rankloop.types import EMPTY, Decision, Evidence, FloatArray, IntArray


class Feedback(Protocol):
    """A feedback model: turns clicks into evidence."""

    @property
    def name(self) -> str:
        """The name in settings and specs."""

    @property
    def single(self) -> bool:
        """Whether a list can receive at most one click."""

    @property
    def every_slot(self) -> bool:
        """Whether every slot is observed, whatever happened in the others; amounts require it."""

    def read(self, items: IntArray, clicks: FloatArray) -> Evidence:
        """Return what these clicks [B, K] on these lists [B, K] reveal."""

    def keep(self, clicks: FloatArray) -> FloatArray:
        """Return the part of clicks made under another model that a log of this model holds."""

    def click_probability(self, p: FloatArray) -> FloatArray:
        """Return the marginal probability [B, K] of a click in each slot from attractions p [B, K], 0 if empty."""


def numbers(field: str, given: ArrayLike, *, kinds: str) -> NDArray[Any]:
    """Return an array whose dtype is of these kinds (b, i, u, f), or refuse."""
    try:
        array = np.asarray(given)
    except ValueError:
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in kinds:
        raise InvalidInput(field, given, f"an array of {'numbers' if 'f' in kinds else 'whole numbers'}, one per slot")
    return array


def distinct(items: IntArray) -> None:
    """Refuse lists [B, K] that show an item twice."""
    if repeats(items):
        raise InvalidInput("items", items.tolist(), "lists of distinct items")


def check(decision: Decision, given: ArrayLike, *, single: bool, binary: bool) -> FloatArray:
    """Return the clicks as floats [B, K], or refuse impossible ones before anything changes."""
    items = decision.items
    clicks = numbers("clicks", given, kinds="biuf").astype(np.float64)
    if clicks.shape != items.shape:
        raise InvalidInput(
            "clicks", Words(f"an array of shape {clicks.shape}"), f"shape {items.shape}, one for each slot"
        )
    if possible(items, clicks, single, binary):
        return clicks
    distinct(items)
    clicked = clicks != 0
    if (clicked & (items == EMPTY)).any():
        raise InvalidInput("clicks", clicks.tolist(), "no click on an empty slot")
    if single and clicked.sum(axis=1).max(initial=0) > 1:
        raise InvalidInput("clicks", clicks.tolist(), "at most one click in a list, as the cascade ends at the first")
    if not np.isfinite(clicks).all() or (binary and (clicks[clicked] != 1).any()):
        raise InvalidInput("clicks", clicks.tolist(), "0 or 1 in each slot" if binary else "finite numbers")
    return clicks


@dataclass(frozen=True)
class Cascade:
    """Slots up to and including the first click are observed; all of them if there is none."""

    name = "cascade"
    every_slot = False
    single = True

    def read(self, items: IntArray, clicks: FloatArray) -> Evidence:
        """Return exposure 1 down to the first click."""
        clicked = clicks != 0
        before = np.cumsum(clicked, axis=1) - clicked
        exposure = ((before == 0) & (items != EMPTY)).astype(np.float64)
        return Evidence(clicks * exposure, exposure)

    def keep(self, clicks: FloatArray) -> FloatArray:
        """Return the first click only."""
        clicked = clicks != 0
        return np.where(np.cumsum(clicked, axis=1) - clicked == 0, clicks, 0.0)

    def click_probability(self, p: FloatArray) -> FloatArray:
        """Return p_k ∏_{j<k} (1 - p_j): this item attracts, and none above it does."""
        attraction = np.clip(p, 0.0, 1.0)
        passed = np.cumprod(1.0 - attraction, axis=1)
        return np.asarray(attraction * np.concatenate([np.ones_like(passed[:, :1]), passed[:, :-1]], axis=1))


@dataclass(frozen=True)
class LastClick:
    """Slots up to the last click are observed; all of them if there is none (dependent click)."""

    name = "last-click"
    every_slot = False
    single = False

    def read(self, items: IntArray, clicks: FloatArray) -> Evidence:
        """Return exposure 1 down to the last click."""
        clicked = clicks != 0
        later = np.cumsum(clicked[:, ::-1], axis=1)[:, ::-1]
        seen = (later > 0) | ~clicked.any(axis=1, keepdims=True)
        return Evidence(clicks, (seen & (items != EMPTY)).astype(np.float64))

    def keep(self, clicks: FloatArray) -> FloatArray:
        """Return all clicks."""
        return clicks

    def click_probability(self, p: FloatArray) -> FloatArray:
        """Return the attraction itself: this model does not say who stops after a click."""
        return np.clip(p, 0.0, 1.0)


@dataclass(frozen=True)
class SemiBandit:
    """Every slot is observed."""

    name = "semi-bandit"
    every_slot = True
    single = False

    def read(self, items: IntArray, clicks: FloatArray) -> Evidence:
        """Return exposure 1 in every slot."""
        return Evidence(clicks, (items != EMPTY).astype(np.float64))

    def keep(self, clicks: FloatArray) -> FloatArray:
        """Return all clicks."""
        return clicks

    def click_probability(self, p: FloatArray) -> FloatArray:
        """Return the attraction itself."""
        return np.clip(p, 0.0, 1.0)


@dataclass(frozen=True, eq=False)
class PositionBased:
    """Every slot is observed with a known exposure, its position bias."""

    bias: FloatArray  # [K]
    name = "position-based"
    every_slot = True
    single = False

    def read(self, items: IntArray, clicks: FloatArray) -> Evidence:
        """Return exposure bias_k in slot k."""
        exposure = np.where(items != EMPTY, self.bias[: items.shape[1]], 0.0)
        return Evidence(np.where(exposure > 0, clicks, 0.0), exposure)

    def keep(self, clicks: FloatArray) -> FloatArray:
        """Return all clicks."""
        return clicks

    def click_probability(self, p: FloatArray) -> FloatArray:
        """Return bias_k p_k: the slot is examined, and its item attracts."""
        return self.bias[: p.shape[1]] * np.clip(p, 0.0, 1.0)


@dataclass(frozen=True)
class LearnedBias:
    """Every slot is observed, with a position bias that the belief learns and adds to the exposure itself."""

    name = "position-based"
    every_slot = True
    single = False

    def read(self, items: IntArray, clicks: FloatArray) -> Evidence:
        """Return exposure 1 in every slot, a multiple of which is the learned bias."""
        return SemiBandit().read(items, clicks)

    def keep(self, clicks: FloatArray) -> FloatArray:
        """Return all clicks."""
        return clicks

    def click_probability(self, p: FloatArray) -> FloatArray:
        """Return the expected outcomes, in which the belief has included the bias."""
        return np.clip(p, 0.0, 1.0)


@dataclass(frozen=True)
class Choice:
    """At most one choice from the whole list; every slot is considered."""

    name = "choice"
    every_slot = False
    single = True

    def read(self, items: IntArray, clicks: FloatArray) -> Evidence:
        """Return exposure 1 in every slot."""
        return SemiBandit().read(items, clicks)

    def keep(self, clicks: FloatArray) -> FloatArray:
        """Return the first click only."""
        return Cascade().keep(clicks)

    def click_probability(self, p: FloatArray) -> FloatArray:
        """Return α_k / (1 + Σ_j α_j): multinomial logit choice, where attractions are non-negative weights."""
        weight = np.maximum(p, 0.0)
        return np.asarray(weight / (1.0 + weight.sum(axis=1, keepdims=True)))
