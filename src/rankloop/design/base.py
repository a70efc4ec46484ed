"""The contract of a design, and how it reads a request."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from rankloop.errors import MISSING, InvalidInput, Unsupported, Words
from rankloop.math.columns import take
from rankloop.types import FloatArray, IntArray, Model, Read, Request, RowLayout, Rows


class Design(Protocol):
    """Turns items in slots into rows of a belief.

    A request may have candidates of its own (`Request.columns`). The models of `rows` are then numbered within
    `candidate_models`, if there are such, since the belief's state is gathered before it scores; those of `pick` are
    the policy's own, since an update changes the whole state.
    """

    def rows(self, request: Request, prefix: IntArray, slot: int) -> Rows:
        """Return the rows of all L candidates for this slot after this prefix [B, slot]."""

    def pick(self, request: Request, items: IntArray) -> Rows:
        """Return the rows of lists [B, K], equal to those that `rows` gave when each slot was filled."""

    def list_models(self, items: IntArray) -> Model:
        """Return the models that lists [B, K] of the policy's own items feed, as `pick` does."""
        raise Unsupported(f"the design {type(self).__name__} does not say which models a list feeds (`list_models`).")

    def candidate_models(self, columns: IntArray) -> IntArray | None:
        """Return the belief's models, or its entries by item, of these items [L], in the order of `rows`.

        By default the items themselves. None where rows name the policy's own models, or no model belongs to an item:
        then every request reads the whole state.
        """
        return columns

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


def item_features(request: Request) -> FloatArray:
    """Return the features of the candidates, [L, d] or [B, L, d]."""
    if request.features is None:
        raise Unsupported("this policy scores items by their features, and the request has none.")
    return request.features


def features_at(request: Request, items: IntArray) -> FloatArray:
    """Return the features of listed candidates, [B, K, d]; those of an empty slot are arbitrary."""
    return at(item_features(request), items)


def at(table: FloatArray, items: IntArray) -> FloatArray:
    """Return the rows of listed candidates [B, K] in a table [L, d] or [B, L, d], as [B, K, d]."""
    return table[items] if table.ndim == 2 else take(table, items)


def context_of(request: Request, length: int) -> FloatArray:
    """Return the visitors' contexts, [B, dx]; dx = 0 without a context."""
    context = np.empty((request.learners, 0)) if request.context is None else request.context
    if context.shape[1] != length:
        given = MISSING if request.context is None else Words(f"of {context.shape[1]} numbers")
        raise InvalidInput("request.context", given, f"{length} numbers for each learner, as the policy was built for")
    return context
