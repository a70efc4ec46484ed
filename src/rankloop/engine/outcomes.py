"""Feedback as callers give it: slots, items or values; and whether a policy can learn from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rankloop import validate
from rankloop.errors import InvalidInput, Unsupported
from rankloop.types import EMPTY, FloatArray


def read(shown: Sequence[Any], clicked: Any = None, items: Any = None, values: Any = None) -> FloatArray:
    """The outcome of every slot, [k]: 1 where something was clicked, or its value.

    Args:
        shown: the ids of the list, EMPTY where nothing stood.
        clicked: slots from 0.
        items: ids, instead.
        values: numbers by slot or id, or a list of them, instead.
    """
    given = [name for name, value in (("clicked", clicked), ("items", items), ("values", values)) if value is not None]
    if len(given) > 1:
        raise InvalidInput(
            given[1], {"clicked": clicked, "items": items, "values": values}[given[1]], f"only {given[0]}"
        )
    outcome = np.zeros(len(shown))
    if values is not None:
        for key, value in _by_slot(values, len(shown)).items():
            field = f"values[{key}]"
            slot = _of(field, key, shown) if isinstance(key, str) else _slot(field, key, shown)
            outcome[slot] = validate.number(field, value)
        return outcome
    if items is not None:
        outcome[[_of(f"items[{i}]", id, shown) for i, id in enumerate(_list("items", items))]] = 1.0
        return outcome
    for i, slot in enumerate(_list("clicked", clicked or ())):
        outcome[_slot(f"clicked[{i}]", slot, shown)] = 1.0
    return outcome


def check(binary: bool, outcome: FloatArray) -> None:
    """Refuse values where the policy learns from clicks only."""
    if binary and not ((outcome == 0.0) | (outcome == 1.0)).all():
        raise Unsupported("this ranker's policy learns from clicks, not from values; tell clicked slots or items.")


def _list(field: str, value: Any) -> Sequence[Any]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise InvalidInput(field, value, "a list")
    return value


def _by_slot(values: Any, k: int) -> Mapping[Any, Any]:
    if isinstance(values, Mapping):
        return values
    found = _list("values", values)
    if len(found) != k:
        raise InvalidInput(
            "values", values, f"{k} numbers, one for each slot, or a mapping from slots or items to numbers"
        )
    return dict(enumerate(found))


def _slot(field: str, slot: Any, shown: Sequence[Any]) -> int:
    most = len(shown) - 1
    if isinstance(slot, bool) or not isinstance(slot, int) or not 0 <= slot <= most or shown[slot] == EMPTY:
        raise InvalidInput(field, slot, f"a slot in which something was shown, from 0 to {most}")
    return slot


def _of(field: str, id: Any, shown: Sequence[Any]) -> int:
    if id not in shown or id == EMPTY:
        raise InvalidInput(field, id, "an item of this list")
    return list(shown).index(id)
