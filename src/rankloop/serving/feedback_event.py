"""Feedback as callers give it: slots, items or numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rankloop.errors import InvalidInput
from rankloop.schema import FeedbackEvent
from rankloop.types import FloatArray


def read(shown: Sequence[str | None], told: FeedbackEvent) -> FloatArray:
    """The outcome of every slot, [k]: 1 where something was clicked, or its value.

    Args:
        shown: the ids of the list, None where nothing stood.
        told: what happened.
    """
    outcome = np.zeros(len(shown))
    if told.values is not None:
        for slot, value in enumerate(_by_slot(told.values, shown)):
            outcome[slot] = value
            if value and shown[slot] is None:
                raise InvalidInput(f"values[{slot}]", value, "0, since nothing was shown in this slot")
    elif told.item_values is not None:
        for id, value in told.item_values.items():
            outcome[_of(f"item_values.{id}", id, shown)] = value
    elif told.items is not None:
        outcome[[_of(f"items[{i}]", id, shown) for i, id in enumerate(told.items)]] = 1.0
    elif told.clicked is not None:
        for i, slot in enumerate(told.clicked):
            outcome[_slot(f"clicked[{i}]", slot, shown)] = 1.0
    return outcome


def _by_slot(values: Sequence[float], shown: Sequence[str | None]) -> Sequence[float]:
    """A number for each slot; empty slots at the end may be left out."""
    k = len(shown)
    if len(values) > k or any(id is not None for id in shown[len(values) :]):
        accepted = f"a list of {k} numbers, one for each slot (numbers by item are item_values)"
        raise InvalidInput("values", values, accepted)
    return values


def _slot(field: str, slot: int, shown: Sequence[str | None]) -> int:
    most = len(shown) - 1
    if slot > most or shown[slot] is None:
        raise InvalidInput(field, slot, f"a slot in which something was shown, from 0 to {most}")
    return slot


def _of(field: str, id: str, shown: Sequence[str | None]) -> int:
    if id not in shown:
        raise InvalidInput(field, id, "an item of this list")
    return shown.index(id)
