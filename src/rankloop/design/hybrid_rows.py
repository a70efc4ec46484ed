"""Rows of the hybrid belief: a known offset, an intercept, the caller's score or order, and the fields."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankloop.design.base import Design, context_of
from rankloop.errors import InvalidInput, Unsupported, Words
from rankloop.math.columns import take
from rankloop.math.crossed import crossed, width_of
from rankloop.math.hybrid.kernels import HEAD, complete_rows, has_nan, head_columns
from rankloop.types import FloatArray, IntArray, Model, Products, Read, Request, Rows

OFFSET = 0.05
"""Prior mean of an item without score and rank: the known offset of its row."""


@dataclass(frozen=True)
class HybridRows(Design):
    """x = (offset, 1, score, order, 0.1·fields), one model of its own for each item.

    offset: 0.05 for an item without score and rank, else 0; its coefficient is 1 and is not learned.
    score: the caller's score, 0 where there is none.
    order: 1/√(1+r) for an item of rank r without score, else 0.
    fields: the item's features y; with a context c, (c, y, c⊗y), or a selection of the products.
    """

    dim: int | None = None  # d, None without features
    context: int | None = None  # length of the visitor's context, None without one
    products: Products | None = None  # the products of context and features; None: all

    def __post_init__(self) -> None:
        """Refuse a context without features, which would be the same for all items."""
        if self.context is not None and self.dim is None:
            raise Unsupported("needs item features beside a context, and this world offers none.")

    @property
    def fields(self) -> int:
        """Number of fields of a row."""
        return width_of(self.context or 0, self.dim or 0, self.products if self.context is not None else None)

    @property
    def reads(self) -> frozenset[Read]:
        """The caller's scores, and what the fields are made of."""
        found: set[Read] = {"scores"}
        if self.dim is not None:
            found.add("features")
        if self.context is not None:
            found.add("context")
        return frozenset(found)

    @property
    def row_features(self) -> int | None:
        """The offset, the intercept, score, order and fields."""
        return HEAD + self.fields

    def working_bytes(self, items: int) -> int:
        """Return the bytes of the crossed fields and of the first columns of all items."""
        crossed = 0 if self.context is None else self.fields
        return items * (crossed + 3) * np.dtype(np.float64).itemsize

    def rows(self, request: Request, prefix: IntArray, slot: int) -> Rows:
        """Return the raw fields of every item as `x`, and offset, score and order as `head`.

        They are kept apart and without factor, so that a decision does not copy the features of all items.
        """
        shape = (request.learners, request.items)
        if self.dim is None:
            fields = np.empty((1, request.items, 0))
        elif self.context is None:
            fields = self._features(request)
        else:
            features = np.broadcast_to(self._features(request), (*shape, self.dim))
            fields = crossed(context_of(request, self.context), features, self.products)
        chosen = slice(None) if request.columns is None else request.columns
        return Rows(model=chosen, x=fields, head=_head(request))

    def pick(self, request: Request, items: IntArray) -> Rows:
        """Return the complete rows of the listed items, [B, K, 4 + fields]."""
        if self.dim is None:
            fields = np.empty((*items.shape, 0))
        else:
            table = self._features(request)
            fields = table[items] if table.ndim == 2 else take(table, items)
            if self.context is not None:
                fields = crossed(context_of(request, self.context), fields, self.products)
        x = np.empty((*items.shape, HEAD + self.fields))
        complete_rows(_listed(request.scores, items), _listed(request.ranks, items), OFFSET, fields, x)
        return Rows(model=request.item_of(items), x=x)

    def list_models(self, items: IntArray) -> Model:
        """Return the items."""
        return items

    def candidate_models(self, columns: IntArray) -> IntArray | None:
        """Return None: scores are computed from the whole state, of the chosen models alone."""
        return None

    def _features(self, request: Request) -> FloatArray:
        """Return the features of the items, [L, d] or [B, L, d]."""
        if request.features is None:
            raise Unsupported("this policy scores items by their features, and the request has none.")
        if request.features.shape[-1] != self.dim:
            given = Words(f"{request.features.shape[-1]} numbers a row")
            raise InvalidInput("request.features", given, f"{self.dim} numbers a row")
        return request.features


def _head(request: Request) -> FloatArray:
    """Return the scores [1 or B, 1, L] where every item has one, else offset, score and order [1 or B, 3, 1 or L]."""
    scores, ranks = request.scores, request.ranks
    if scores is None and ranks is None:
        return _NOTHING
    s, r = (_NONE if given is None else np.ascontiguousarray(np.atleast_2d(given)) for given in (scores, ranks))
    if scores is not None and not has_nan(s):
        return np.asarray(s[:, None, :])
    head = np.empty((max(len(s), len(r)), 3, request.items))
    head_columns(s, r, OFFSET, head)
    return head


def _listed(table: FloatArray | None, items: IntArray) -> FloatArray:
    """Return the entries of listed items, [B, K], from a table [L] or [B, L]; NaN without a table."""
    if table is None:
        return _NONE
    return table[items] if table.ndim == 1 else take(table, items)


_NONE = np.full((1, 1), np.nan)
_NOTHING = np.array([[[OFFSET], [0.0], [0.0]]])
