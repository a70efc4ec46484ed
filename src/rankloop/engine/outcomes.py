"""Feedback as callers give it: slots, items or numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rankloop import validate
from rankloop.engine.limits import MAX_MAGNITUDE
from rankloop.errors import InvalidInput
from rankloop.types import EMPTY, FloatArray


def read(
    shown: Sequence[Any], clicked: Any = None, items: Any = None, values: Any = None, item_values: Any = None
) -> FloatArray:
    """The outcome of every slot, [k]: 1 where something was clicked, or its value.

    Args:
        shown: the ids of the list, EMPTY where nothing stood.
        clicked: slots from 0.
        items: ids, instead.
        values: a number for each slot, instead.
        item_values: numbers by id, instead.
    """
    told = {"clicked": clicked, "items": items, "values": values, "item_values": item_values}
    given = [name for name, value in told.items() if value is not None]
    if len(given) > 1:
        raise InvalidInput(given[1], told[given[1]], f"only {given[0]}")
    outcome = np.zeros(len(shown))
    if values is not None:
        for slot, value in enumerate(_by_slot(values, shown)):
            outcome[slot] = _number(f"values[{slot}]", value)
            if outcome[slot] and shown[slot] == EMPTY:
                raise InvalidInput(f"values[{slot}]", value, "0, since nothing was shown in this slot")
    elif item_values is not None:
        if not isinstance(item_values, Mapping):
            raise InvalidInput("item_values", item_values, "a mapping from items of this list to numbers")
        for id, value in item_values.items():
            outcome[_of(f"item_values.{id}", id, shown)] = _number(f"item_values.{id}", value)
    elif items is not None:
        outcome[[_of(f"items[{i}]", id, shown) for i, id in enumerate(_list("items", items))]] = 1.0
    else:
        for i, slot in enumerate(_list("clicked", clicked or ())):
            outcome[_slot(f"clicked[{i}]", slot, shown)] = 1.0
    return outcome


def _list(field: str, value: Any) -> Sequence[Any]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise InvalidInput(field, value, "a list")
    return value


def _by_slot(values: Any, shown: Sequence[Any]) -> Sequence[Any]:
    """A number for each slot; empty slots at the end may be left out."""
    k = len(shown)
    accepted = f"a list of {k} numbers, one for each slot (numbers by item are item_values)"
    if isinstance(values, Mapping):
        raise InvalidInput("values", dict(values), accepted)
    found = _list("values", values)
    if len(found) > k or any(id != EMPTY for id in shown[len(found) :]):
        raise InvalidInput("values", values, accepted)
    return found


def _number(field: str, value: Any) -> float:
    return validate.number(field, value, low=-MAX_MAGNITUDE, high=MAX_MAGNITUDE)


def _slot(field: str, slot: Any, shown: Sequence[Any]) -> int:
    most = len(shown) - 1
    if isinstance(slot, bool) or not isinstance(slot, int) or not 0 <= slot <= most or shown[slot] == EMPTY:
        raise InvalidInput(field, slot, f"a slot in which something was shown, from 0 to {most}")
    return slot


def _of(field: str, id: Any, shown: Sequence[Any]) -> int:
    if not isinstance(id, str) or id not in shown:
        raise InvalidInput(field, id, "an item of this list")
    return list(shown).index(id)
