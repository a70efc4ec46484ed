"""Designs: which model does a slot feed, and with which features?"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from rankloop.math.arrays import take
from rankloop.types import FloatArray, IntArray, Request, Rows

__all__ = ["Design", "PerItem", "PerSlot", "Shared", "features_at"]


class Design(Protocol):
    """Turns items in slots into rows of a belief."""

    def rows(self, request: Request, prefix: IntArray, slot: int) -> Rows:
        """Rows of all L items for this slot after this prefix [B, slot]."""

    def pick(self, request: Request, items: IntArray) -> Rows:
        """Rows of the lists [B, K], each slot's as `rows` gave it when the slot was filled."""


def features_at(request: Request, items: IntArray) -> FloatArray:
    """Features of listed items, [B, K, d]; those of an empty slot are arbitrary."""
    if request.features is None:
        raise TypeError("a design over features needs a request that has them")
    if request.features.ndim == 2:
        return request.features[items]
    return take(request.features, items)


class PerItem:
    """One model for each item, without features: the classic bandit."""

    def rows(self, request: Request, prefix: IntArray, slot: int) -> Rows:
        """Model i for item i."""
        return Rows(model=slice(None))

    def pick(self, request: Request, items: IntArray) -> Rows:
        """The listed items' own models."""
        return Rows(model=items)


class Shared:
    """One model for all items, fed with their features."""

    def rows(self, request: Request, prefix: IntArray, slot: int) -> Rows:
        """Model 0 for every item."""
        return Rows(model=0, x=request.features)

    def pick(self, request: Request, items: IntArray) -> Rows:
        """The listed items' features."""
        return Rows(model=0, x=features_at(request, items))


class PerSlot:
    """One model for each slot, fed with the features of the item placed there."""

    def rows(self, request: Request, prefix: IntArray, slot: int) -> Rows:
        """Model `slot` for every item."""
        return Rows(model=slot, x=request.features)

    def pick(self, request: Request, items: IntArray) -> Rows:
        """Model k for slot k."""
        return Rows(model=np.arange(items.shape[1]), x=features_at(request, items))
