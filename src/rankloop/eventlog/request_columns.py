"""The columns of an exported log that hold what a request said about its items.

`candidates` is repeated in every slot of a decision. All others, which may be long, are in the first slot only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

import numpy as np

from rankloop.eventlog.events.decision import DecisionMade

COLUMNS = {
    "candidates": "list",  # numbers of the items that could be listed, null for all enabled ones
    "excluded": "list",  # numbers of the items that could not be listed, where there are no candidates
    "candidate_features": "list",  # of all candidates one after the other, if the request brought some
    "candidate_scores": "list",  # that the request brought, NaN where it brought none
    "candidate_prices": "list",  # that the request brought, NaN where it brought none
    "order": "list",  # numbers of the items in the caller's order, if the policy reads it
    "rewards": "list",  # of this request
    "losses": "list",  # of this request
    "context_fields": "string",  # of the request's context, as JSON
    "item_fields": "string",  # that the request brought for each candidate or null, as a JSON list
}
FIELDS = {
    "candidate_features": "rows",
    "candidate_scores": "given_scores",
    "candidate_prices": "given_prices",
    **{name: name for name in ("excluded", "order", "rewards", "losses")},
}
"""Fields of the decision event by the columns that only the first slot has."""
TEXTS = ("context_fields", "item_fields")
"""Texts of the decision event that only the first slot has."""
NUMBERS_OF_ITEMS = ("candidates", "excluded", "order")


class RequestRow(TypedDict):
    """The columns that an import reads."""

    candidates: list[float] | None
    excluded: list[float] | None
    candidate_features: list[float] | None
    candidate_scores: list[float] | None
    candidate_prices: list[float] | None
    order: list[float] | None
    rewards: list[float] | None
    losses: list[float] | None
    context_fields: str | None
    item_fields: str | None


def write(decisions: Sequence[DecisionMade], sizes: Sequence[int]) -> dict[str, Sequence[object]]:
    """Return the columns of some decisions, given the numbers of their slots, all at least 1."""
    columns: dict[str, Sequence[object]] = {
        "candidates": [
            None if columns is None else columns.astype(np.float64)
            for columns, size in zip((one.candidate_columns() for one in decisions), sizes, strict=True)
            for _ in range(size)
        ]
    }
    for column, field in FIELDS.items():
        rows: list[object] = []
        for one, size in zip(decisions, sizes, strict=True):
            value = getattr(one, field)
            rows += [None if value is None else value.ravel().astype(np.float64), *[None] * (size - 1)]
        columns[column] = rows
    for name in TEXTS:
        texts = [(getattr(one, name), size) for one, size in zip(decisions, sizes, strict=True)]
        columns[name] = [text for first, size in texts for text in (first, *[None] * (size - 1))]
    return columns


def with_request(event: DecisionMade, first: Mapping[str, object]) -> DecisionMade:
    """Return a new event after its fields about the request are set from the row of its first slot."""
    for column, field in (("candidates", "candidates"), *FIELDS.items()):
        if first[column] is not None:
            setattr(event, field, np.array(first[column], dtype=np.int32 if field in NUMBERS_OF_ITEMS else np.float64))
    for name in TEXTS:
        setattr(event, name, first[name])
    if event.rows is not None and event.candidates is not None:
        event.rows = event.rows.reshape(len(event.candidates), -1)
    return event
