"""Feedback: what did these clicks reveal?

Every interpreter reads clicks [B, K] into evidence (outcome, exposure). The world's click model is
not the learner's feedback: `keep` says what a log of this kind would hold of a visitor who did
something else.
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
    """Reads clicks."""

    @property
    def name(self) -> str:
        """The name that users know it by."""

    @property
    def single(self) -> bool:
        """True where a list can receive at most one click."""

    @property
    def every_slot(self) -> bool:
        """True where every slot is observed, whatever happened in the others: only then are amounts understood."""

    def read(self, items: IntArray, clicks: FloatArray) -> Evidence:
        """What these clicks [B, K] on these lists [B, K] reveal."""

    def keep(self, clicks: FloatArray) -> FloatArray:
        """What a log of this kind keeps of clicks made under another model."""

    def click_probability(self, p: FloatArray) -> FloatArray:
        """Marginal probability [B, K] of a click in each slot, from attractions p [B, K], 0 in empty slots."""


def numbers(field: str, given: ArrayLike, *, kinds: str) -> NDArray[Any]:
    """An array whose dtype is of these kinds (b, i, u, f), or an error."""
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
    """Clicks as floats [B, K], or an error before anything has changed."""
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
        """Exposure 1 down to the first click."""
        clicked = clicks != 0
        before = np.cumsum(clicked, axis=1) - clicked
        exposure = ((before == 0) & (items != EMPTY)).astype(np.float64)
        return Evidence(clicks * exposure, exposure)

    def keep(self, clicks: FloatArray) -> FloatArray:
        """The first click only."""
        clicked = clicks != 0
        return np.where(np.cumsum(clicked, axis=1) - clicked == 0, clicks, 0.0)

    def click_probability(self, p: FloatArray) -> FloatArray:
        """p_k ∏_{j<k} (1 - p_j): attracted by this item, and by none above it."""
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
        """Exposure 1 down to the last click."""
        clicked = clicks != 0
        later = np.cumsum(clicked[:, ::-1], axis=1)[:, ::-1]
        seen = (later > 0) | ~clicked.any(axis=1, keepdims=True)
        return Evidence(clicks, (seen & (items != EMPTY)).astype(np.float64))

    def keep(self, clicks: FloatArray) -> FloatArray:
        """All clicks."""
        return clicks

    def click_probability(self, p: FloatArray) -> FloatArray:
        """The attraction itself: this model does not say who stops after a click."""
        return np.clip(p, 0.0, 1.0)


@dataclass(frozen=True)
class SemiBandit:
    """Every slot is observed."""

    name = "semi-bandit"
    every_slot = True
    single = False

    def read(self, items: IntArray, clicks: FloatArray) -> Evidence:
        """Exposure 1 everywhere."""
        return Evidence(clicks, (items != EMPTY).astype(np.float64))

    def keep(self, clicks: FloatArray) -> FloatArray:
        """All clicks."""
        return clicks

    def click_probability(self, p: FloatArray) -> FloatArray:
        """The attraction itself."""
        return np.clip(p, 0.0, 1.0)


@dataclass(frozen=True, eq=False)
class PositionBased:
    """Every slot is observed with a known exposure, its probability of being looked at."""

    bias: FloatArray  # [K]
    name = "position-based"
    every_slot = True
    single = False

    def read(self, items: IntArray, clicks: FloatArray) -> Evidence:
        """Exposure bias_k in slot k."""
        exposure = np.where(items != EMPTY, self.bias[: items.shape[1]], 0.0)
        return Evidence(np.where(exposure > 0, clicks, 0.0), exposure)

    def keep(self, clicks: FloatArray) -> FloatArray:
        """All clicks."""
        return clicks

    def click_probability(self, p: FloatArray) -> FloatArray:
        """bias_k p_k: the slot is looked at, and its item attracts."""
        return self.bias[: p.shape[1]] * np.clip(p, 0.0, 1.0)


@dataclass(frozen=True)
class Choice:
    """One choice among the whole list, or none; every slot was considered."""

    name = "choice"
    every_slot = False
    single = True

    def read(self, items: IntArray, clicks: FloatArray) -> Evidence:
        """Exposure 1 everywhere."""
        return SemiBandit().read(items, clicks)

    def keep(self, clicks: FloatArray) -> FloatArray:
        """The first click only."""
        return Cascade().keep(clicks)

    def click_probability(self, p: FloatArray) -> FloatArray:
        """α_k / (1 + Σ_j α_j): multinomial logit choice, where attractions are weights of at least 0."""
        weight = np.maximum(p, 0.0)
        return np.asarray(weight / (1.0 + weight.sum(axis=1, keepdims=True)))
