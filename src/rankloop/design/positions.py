"""Designs whose rows hold the position as a number, as the models of paper `select-rank` need it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankloop.design.base import Design, at, context_of
from rankloop.math.crossed import crossed, width_of
from rankloop.types import FloatArray, IntArray, Model, Products, Read, Request, RowLayout, Rows


@dataclass(frozen=True)
class Positional(Design):
    """One model for each item, fed with z = (k, x): the slot, counted from 1, and the visitor's context."""

    context: int  # dx

    @property
    def reads(self) -> frozenset[Read]:
        """The context and the slot."""
        return frozenset({"context", "slot"})

    @property
    def row_features(self) -> int | None:
        """The slot and the context: 1 + dx."""
        return 1 + self.context

    def rows(self, request: Request, prefix: IntArray, slot: int) -> Rows:
        """Return z, the same for all candidates, [B, 1, 1 + dx]."""
        return Rows(
            model=slice(None), x=_with_position(context_of(request, self.context)[:, None, :], np.array([slot + 1.0]))
        )

    def pick(self, request: Request, items: IntArray) -> Rows:
        """Return z of each slot, [B, K, 1 + dx]."""
        K = items.shape[1]
        context = np.repeat(context_of(request, self.context)[:, None, :], K, axis=1)
        return Rows(model=request.item_of(items), x=_with_position(context, np.arange(1.0, K + 1.0)))

    def list_models(self, items: IntArray) -> Model:
        """Return the items."""
        return items


@dataclass(frozen=True)
class Interaction(Design):
    """One model for all items, fed with z = (k, x, y, x⊗y): slot, context, item features and their products."""

    context: int  # dx
    one_hot: int | None = None  # number of items, where each is its own feature
    dim: int | None = None  # dy, where items have features and it is known
    products: Products | None = None  # the products of context and features; None: all

    @property
    def reads(self) -> frozenset[Read]:
        """Features, context and slot."""
        return frozenset({"features", "context", "slot"})

    @property
    def row_features(self) -> int | None:
        """The slot, the context, the features and their products."""
        dx, dy = self.context, self.dim if self.one_hot is None else self.one_hot
        return None if dy is None else 1 + width_of(dx, dy, self.products)

    def layout(self, width: int) -> RowLayout | None:
        """Return the columns of features when items are added: y grows, and so does each of the dx blocks of x⊗y."""
        dx, now = self.context, self.one_hot
        if now is None:
            return None
        before = (width - 1 - dx) // (1 + dx)
        blocks = 1 + dx + np.arange(1 + dx)[:, None] * now + np.arange(before)
        return RowLayout(np.concatenate([np.arange(1 + dx), blocks.ravel()]), 1 + dx + now + dx * now)

    def working_bytes(self, items: int) -> int:
        """Return the bytes of z of all items, twice while the slot is put before it, and of one-hot features."""
        width = self.row_features or 0
        one_hot = 0 if self.one_hot is None else items * items
        return (2 * items * width + one_hot) * np.dtype(np.float64).itemsize

    def rows(self, request: Request, prefix: IntArray, slot: int) -> Rows:
        """Return z of every candidate in this slot, [B, L, 1 + dx + dy + dx·dy]."""
        features = self._features(request)
        y = np.broadcast_to(features, (request.learners, request.items, features.shape[-1]))
        z = crossed(context_of(request, self.context), y, self.products)
        return Rows(model=0, x=_with_position(z, np.full(request.items, slot + 1.0)))

    def pick(self, request: Request, items: IntArray) -> Rows:
        """Return z of the listed items."""
        z = crossed(context_of(request, self.context), at(self._features(request), items), self.products)
        return Rows(model=0, x=_with_position(z, np.arange(1.0, items.shape[1] + 1.0)))

    def list_models(self, items: IntArray) -> Model:
        """Return model 0."""
        return 0

    def candidate_models(self, columns: IntArray) -> IntArray | None:
        """Return None: the model belongs to no item."""
        return None

    def _features(self, request: Request) -> FloatArray:
        """Return the features of the candidates, [L, dy] or [B, L, dy]; one-hot by item where items have none."""
        if request.features is not None:
            return request.features
        if request.columns is None or self.one_hot is None:
            return np.eye(request.items)
        y = np.zeros((request.items, self.one_hot))
        y[np.arange(request.items), request.columns] = 1.0
        return y


def _with_position(x: FloatArray, position: FloatArray) -> FloatArray:
    """Return (k, x): positions [n] prepended to x [B, n, d]."""
    first = np.broadcast_to(position[:, None], (*x.shape[:2], 1))
    return np.concatenate([first, x], axis=2)
