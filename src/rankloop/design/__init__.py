"""Designs: which model a slot feeds, and with which features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rankloop.errors import MISSING, InvalidInput, Words
from rankloop.math.columns import take
from rankloop.types import EMPTY, FloatArray, IntArray, Read, Request, RowLayout, Rows, Setting

__all__ = [
    "Coverage",
    "Design",
    "Interaction",
    "PerItem",
    "PerItemSlot",
    "PerSlot",
    "Positional",
    "Shared",
    "SlotOnly",
    "shared_rows",
]


class Design(Protocol):
    """Turns items in slots into rows of a belief."""

    def rows(self, request: Request, prefix: IntArray, slot: int) -> Rows:
        """Return the rows of all L items for this slot after this prefix [B, slot]."""

    def pick(self, request: Request, items: IntArray) -> Rows:
        """Return the rows of lists [B, K], equal to those that `rows` gave when each slot was filled."""

    @property
    def reads(self) -> frozenset[Read]:
        """What a row depends on besides the item."""
        return frozenset()

    @property
    def row_features(self) -> int | None:
        """Number of features of a row; None where the request determines it."""
        return 0

    def models_of_item(self, slots: int) -> int:
        """Return how many models an item feeds, each in a slot of its own.

        A prior of the item is a row in each of them.
        """
        return 1

    def layout(self, width: int) -> RowLayout | None:
        """Return where the features of a row of this width, made for fewer items, are now; None: unmoved."""
        return None

    def working_bytes(self, items: int) -> int:
        """Return the most bytes that the rows of all items take, where the items themselves do not contain them."""
        return 0


def features_at(request: Request, items: IntArray) -> FloatArray:
    """Return the features of listed items, [B, K, d]; those of an empty slot are arbitrary."""
    table = item_features(request)
    return table[items] if table.ndim == 2 else take(table, items)


class PerItem(Design):
    """One model for each item, without features: the classic bandit."""

    def rows(self, request: Request, prefix: IntArray, slot: int) -> Rows:
        """Return model i for item i."""
        return Rows(model=slice(None))

    def pick(self, request: Request, items: IntArray) -> Rows:
        """Return the models of the listed items."""
        return Rows(model=items)


@dataclass(frozen=True)
class Shared(Design):
    """One model for all items, fed with their features."""

    dim: int | None = None  # d, where it is known

    @property
    def width(self) -> int:
        """The number of features of a row, which must be known."""
        if self.dim is None:
            raise TypeError("the design was built without its number of features")
        return self.dim

    @property
    def reads(self) -> frozenset[Read]:
        """The features."""
        return frozenset({"features"})

    @property
    def row_features(self) -> int | None:
        """The number of item features."""
        return self.dim

    def rows(self, request: Request, prefix: IntArray, slot: int) -> Rows:
        """Return model 0 and the features of every item."""
        return Rows(model=0, x=request.features)

    def pick(self, request: Request, items: IntArray) -> Rows:
        """Return model 0 and the features of the listed items."""
        return Rows(model=0, x=features_at(request, items))


def shared_rows(setting: Setting, policy: str) -> Shared:
    """Return the design of a policy that has one model for all items."""
    return Shared(setting.need_dim(policy))


@dataclass(frozen=True)
class PerSlot(Design):
    """One model for each slot, fed with the features of the item in the slot."""

    dim: int | None = None  # d, where it is known

    @property
    def reads(self) -> frozenset[Read]:
        """The features and the slot."""
        return frozenset({"features", "slot"})

    @property
    def row_features(self) -> int | None:
        """The number of item features."""
        return self.dim

    def models_of_item(self, slots: int) -> int:
        """Return one model for each slot."""
        return slots

    def rows(self, request: Request, prefix: IntArray, slot: int) -> Rows:
        """Return model `slot` for every item."""
        return Rows(model=slot, x=request.features)

    def pick(self, request: Request, items: IntArray) -> Rows:
        """Return model k for slot k."""
        return Rows(model=np.arange(items.shape[1]), x=features_at(request, items))


class SlotOnly(Design):
    """Rows whose model is their slot: for beliefs that hold all items of a slot in one model."""

    @property
    def reads(self) -> frozenset[Read]:
        """The slot."""
        return frozenset({"slot"})

    def rows(self, request: Request, prefix: IntArray, slot: int) -> Rows:
        """Return model `slot`."""
        return Rows(model=slot)

    def pick(self, request: Request, items: IntArray) -> Rows:
        """Return model k for slot k."""
        return Rows(model=np.arange(items.shape[1]))


@dataclass(frozen=True)
class PerItemSlot(Design):
    """One model for each pair of item and slot: item i in slot k feeds model i·K + k."""

    slots: int  # K

    @property
    def reads(self) -> frozenset[Read]:
        """The slot."""
        return frozenset({"slot"})

    def models_of_item(self, slots: int) -> int:
        """Return one model for each slot."""
        return slots

    def rows(self, request: Request, prefix: IntArray, slot: int) -> Rows:
        """Return the models of all items in this slot."""
        return Rows(model=slice(slot, None, self.slots))

    def pick(self, request: Request, items: IntArray) -> Rows:
        """Return the models of the listed pairs."""
        model = items * self.slots + np.arange(items.shape[1])
        return Rows(model=np.where(items != EMPTY, model, EMPTY))


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
        """Return z, the same for all items, [B, 1, 1 + dx]."""
        return Rows(
            model=slice(None), x=_with_position(context_of(request, self.context)[:, None, :], np.array([slot + 1.0]))
        )

    def pick(self, request: Request, items: IntArray) -> Rows:
        """Return z of each slot, [B, K, 1 + dx]."""
        K = items.shape[1]
        context = np.repeat(context_of(request, self.context)[:, None, :], K, axis=1)
        return Rows(model=items, x=_with_position(context, np.arange(1.0, K + 1.0)))


@dataclass(frozen=True)
class Interaction(Design):
    """One model for all items, fed with z = (k, x, y, x⊗y): slot, context, item features and their products."""

    context: int  # dx
    one_hot: int | None = None  # number of items, where each is its own feature
    dim: int | None = None  # dy, where items have features and it is known

    @property
    def reads(self) -> frozenset[Read]:
        """Features, context and slot."""
        return frozenset({"features", "context", "slot"})

    @property
    def row_features(self) -> int | None:
        """The slot, the context, the features and their products."""
        dx, dy = self.context, self.dim if self.one_hot is None else self.one_hot
        return None if dy is None else 1 + dx + dy + dx * dy

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
        """Return z of every item in this slot, [B, L, 1 + dx + dy + dx·dy]."""
        y = np.broadcast_to(item_features(request), (request.learners, request.items, item_features(request).shape[-1]))
        return Rows(
            model=0,
            x=_with_position(_crossed(context_of(request, self.context), y), np.full(request.items, slot + 1.0)),
        )

    def pick(self, request: Request, items: IntArray) -> Rows:
        """Return z of the listed items."""
        z = _crossed(context_of(request, self.context), features_at(request, items))
        return Rows(model=0, x=_with_position(z, np.arange(1.0, items.shape[1] + 1.0)))


@dataclass(frozen=True)
class Coverage(Design):
    """One model, fed with the coverage that an item adds to the topics covered by the prefix.

    c̄ = (2c′-1)/√topics with c′_i = c_i(x)·∏_{y in prefix}(1 - c_i(y)) (paper `long-sequences`, Section 4).
    """

    topics: int | None = None  # d′, where it is known

    @property
    def reads(self) -> frozenset[Read]:
        """The topics, and the items above."""
        return frozenset({"coverage", "prefix"})

    @property
    def row_features(self) -> int | None:
        """One for each topic."""
        return self.topics

    def rows(self, request: Request, prefix: IntArray, slot: int) -> Rows:
        """Return c̄ of every item after this prefix, [B, L, topics]."""
        covered = _coverage_at(request, prefix)
        left = np.prod(1.0 - covered, axis=1)[:, None, :]
        return Rows(model=0, x=_centred(coverage_of(request) * left))

    def pick(self, request: Request, items: IntArray) -> Rows:
        """Return c̄ of each listed item after the items above it, [B, K, topics]."""
        covered = _coverage_at(request, items)
        left = np.cumprod(1.0 - covered, axis=1)
        left = np.concatenate([np.ones_like(left[:, :1]), left[:, :-1]], axis=1)
        return Rows(model=0, x=_centred(covered * left))


def context_of(request: Request, length: int) -> FloatArray:
    """Return the visitors' contexts, [B, dx]; dx = 0 without a context."""
    context = np.empty((request.learners, 0)) if request.context is None else request.context
    if context.shape[1] != length:
        given = MISSING if request.context is None else Words(f"of {context.shape[1]} numbers")
        raise InvalidInput("request.context", given, f"{length} numbers for each learner, as the policy was built for")
    return context


def item_features(request: Request) -> FloatArray:
    """Return the features of the items, [L, d] or [B, L, d]; one-hot by item where there are none."""
    return np.eye(request.items) if request.features is None else request.features


def coverage_of(request: Request) -> FloatArray:
    """Return the topics covered by the items, [L, topics] or [B, L, topics]."""
    if request.coverage is None:
        raise TypeError("a coverage design needs a request with coverage")
    return request.coverage


def _coverage_at(request: Request, items: IntArray) -> FloatArray:
    """Return the topics covered by listed items, [B, K, topics]; an empty slot covers none."""
    table = coverage_of(request)
    covered = table[items] if table.ndim == 2 else take(table, items)
    return np.where((items != EMPTY)[:, :, None], covered, 0.0)


def _centred(coverage: FloatArray) -> FloatArray:
    return np.asarray((2.0 * coverage - 1.0) / np.sqrt(coverage.shape[-1]))


def _with_position(x: FloatArray, position: FloatArray) -> FloatArray:
    """Return (k, x): positions [n] prepended to x [B, n, d]."""
    first = np.broadcast_to(position[:, None], (*x.shape[:2], 1))
    return np.concatenate([first, x], axis=2)


def _crossed(context: FloatArray, y: FloatArray) -> FloatArray:
    """Return (x, y, x⊗y) for context x [B, dx] and features y [B, n, dy]."""
    B, n, _ = y.shape
    x = np.broadcast_to(context[:, None, :], (B, n, context.shape[1]))
    return np.concatenate([x, y, (x[..., :, None] * y[..., None, :]).reshape(B, n, x.shape[2] * y.shape[2])], axis=2)
