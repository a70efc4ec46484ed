"""The items that a rank request names and the values that it brings, as columns and arrays."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from rankloop.arrays import Array
from rankloop.eventlog.events import DecisionMade
from rankloop.serving.config import RankerConfig
from rankloop.serving.items.item_table import ItemTable
from rankloop.types import EMPTY, FloatArray, IntArray, Request


class NamedItems(NamedTuple):
    """What a request says about items, as its decision records it. C candidates, K slots, d features."""

    candidates: IntArray | None = None  # [C] columns that may be listed, rising; None: all enabled ones
    excluded: IntArray | None = None  # columns that may not be listed, where there are no candidates
    rows: FloatArray | None = None  # [C, d] features of all candidates, where the request brings some
    given_scores: FloatArray | None = None  # [C] scores of the request, NaN where it brings none
    given_prices: FloatArray | None = None  # [C] prices of the request, NaN where it brings none
    order: IntArray | None = None  # columns in the caller's order, where the policy reads it
    rewards: FloatArray | None = None  # [K] rewards of the request
    losses: FloatArray | None = None  # [K + 1] losses of the request

    @classmethod
    def of(cls, event: DecisionMade) -> NamedItems:
        """Return what the request of a decision said about items."""
        candidates, excluded, order = (
            None if columns is None else columns.astype(np.int64)
            for columns in (event.candidates, event.excluded, event.order)
        )
        return cls(
            candidates,
            excluded,
            event.rows,
            event.given_scores,
            event.given_prices,
            order,
            event.rewards,
            event.losses,
        )

    def candidate_of(self, columns: IntArray) -> IntArray:
        """Return the candidates that these columns are; EMPTY stays EMPTY."""
        if self.candidates is None:
            return columns
        return np.where(columns == EMPTY, EMPTY, np.searchsorted(self.candidates, columns))


def in_own_features(event: DecisionMade, config: RankerConfig, table: ItemTable, former: Array | None) -> DecisionMade:
    """Return the decision of another configuration with the context and the rows that its fields have in this one.

    Args:
        event: the decision.
        config: of the ranker.
        table: its items.
        former: features of all items where they are not those that the items have now.
    """
    encoding, stored = table.encoding, table.features if former is None else np.asarray(former, dtype=np.float64)
    if encoding is None:  # both configurations have the same `dim` and `context`, or none
        rows = None if config.dim is None else event.rows
        return replace(event, context=None if config.context is None else event.context, rows=rows)
    context, rows = encoding.logged_context(event.context_fields, event.position), None
    if event.item_fields is not None and event.candidates is not None and stored is not None:
        rows = encoding.logged_rows(stored[event.candidates], event.item_fields, event.position)
    return replace(event, context=None if context is None else context[0], rows=rows)


NOTHING_NAMED = NamedItems()
"""A request that names no items."""


def candidates_request(
    config: RankerConfig,
    table: ItemTable,
    k: int,
    context: FloatArray | None,
    named: NamedItems,
    pinned: IntArray | None,
    *,
    with_scores: bool,
) -> Request:
    """Return a request for k of the candidates; its cost is that of these, however many other items there are.

    Args:
        config: of the ranker.
        table: its items.
        k: slots to fill.
        context: [1, dx].
        named: the candidates, and the values that the request brings for them.
        pinned: [k] candidates that are pinned, EMPTY where a slot is free.
        with_scores: whether the policy reads the caller's own scores and order.
    """
    columns, allowed, rows = named.candidates, None, named.rows
    if columns is None or not len(columns):  # policies rank at least one item: here one that may not be listed
        columns, allowed, rows = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.bool_), None
        named = NamedItems(rewards=named.rewards, losses=named.losses)
    arrays: dict[str, Array | None] = {
        "columns": columns,
        "allowed": allowed,
        "features": _at(table.features, columns) if rows is None else rows,
        "coverage": _at(table.coverage, columns),
        "context": context,
        "pinned": pinned,
        "rewards": named.rewards,
        "losses": named.losses,
    }
    if config.objective == "revenue":
        arrays["prices"] = _overridden(table.prices[columns], named.given_prices)
    if with_scores:
        arrays["scores"] = scores = _overridden(_at(table.scores, columns), named.given_scores)
        if named.order is not None:
            arrays["ranks"] = ranks_in(named.candidate_of(named.order), len(columns))
        elif scores is None:
            arrays["ranks"] = _at(table.default_ranks, columns)
    return Request.trusted(1, len(columns), k, **arrays)


def ranks_in(order: IntArray, items: int) -> FloatArray:
    """Return the rank 0, 1, … of each of these items in an order, NaN where it is not in it."""
    ranks = np.full(items, np.nan)
    ranks[order] = np.arange(float(len(order)))
    return ranks


def _at(table: FloatArray | None, columns: IntArray) -> FloatArray | None:
    return None if table is None else table[columns]


def _overridden(stored: FloatArray | None, given: FloatArray | None) -> FloatArray | None:
    """Return given values, and stored ones where they are NaN."""
    return stored if given is None else given if stored is None else np.where(np.isnan(given), stored, given)
