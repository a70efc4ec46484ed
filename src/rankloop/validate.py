"""Validation at the boundary. Each function returns the value in the form the code needs, or raises InvalidInput."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np

from rankloop.errors import MISSING, InvalidInput, Words, closest
from rankloop.schema.accepted_values import integer_range, number_range, unknown_field
from rankloop.schema.limits import MAX_FLOAT
from rankloop.types import FloatArray


def number(
    field: str,
    value: object,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    open_low: bool = False,
) -> float:
    """Return a finite number in [low, high], or in (low, high] where `open_low`."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise InvalidInput(field, value, number_range(low, high, open_low))
    # Comparing with the largest float instead of converting: an integer of any size cannot overflow.
    if not -MAX_FLOAT <= value <= MAX_FLOAT or not low <= value <= high or (open_low and value == low):
        raise InvalidInput(field, value, number_range(low, high, open_low))
    return float(value)


def integer(field: str, value: object, *, low: int = 1, high: int | None = None) -> int:
    """Return a whole number in [low, high]."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InvalidInput(field, value, integer_range(low, high))
    if value < low or (high is not None and value > high):
        raise InvalidInput(field, value, integer_range(low, high, int(value)))
    return int(value)


def choice(field: str, value: object, among: Collection[str]) -> str:
    """Return one of these words."""
    if not isinstance(value, str) or value not in among:
        raise InvalidInput(field, value, "one of " + ", ".join(among), closest(value, among))
    return value


def mapping(
    field: str, value: object, *, required: Collection[str] = (), optional: Collection[str] = ()
) -> dict[str, object]:
    """Return a mapping with the required keys and no unknown ones."""
    known = [*required, *optional]
    if not isinstance(value, Mapping):
        raise InvalidInput(field, value, f"a mapping with {', '.join(known)}")
    for key in value:
        if key not in known:
            raise unknown_field(field, key, value[key], known)
    for key in required:
        if key not in value:
            raise InvalidInput(f"{field}.{key}", MISSING, f"a value, since {field} needs {', '.join(required)}")
    return dict(value)


def vector(
    field: str,
    value: object,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    open_low: bool = False,
    length: int | None = None,
) -> FloatArray:
    """Return finite numbers in [low, high], at least one of them."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, list | tuple) or not value:
        raise InvalidInput(field, value, f"a list, each entry {number_range(low, high, open_low)}")
    entries = [number(f"{field}[{i}]", v, low=low, high=high, open_low=open_low) for i, v in enumerate(value)]
    if length is not None and len(entries) != length:
        raise InvalidInput(field, Words(f"a list of {len(entries)}"), f"a list of {length}")
    return np.array(entries)


def numbers(
    field: str, value: object, *, low: float = -math.inf, high: float = math.inf, open_low: bool = False
) -> float | list[float]:
    """Return a finite number in [low, high], or a list of at least one of them."""
    if isinstance(value, list | tuple | np.ndarray):
        entries: list[float] = vector(field, value, low=low, high=high, open_low=open_low).tolist()
        return entries
    return number(field, value, low=low, high=high, open_low=open_low)


def matrix(field: str, value: object, *, rows: int | None = None) -> FloatArray:
    """Return a matrix of finite numbers, given as a list of rows or as an array."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, list | tuple) or not value:
        raise InvalidInput(field, value, "a list of rows of numbers, all of one length")
    entries = [vector(f"{field}[{i}]", row) for i, row in enumerate(value)]
    if len({len(row) for row in entries}) > 1:
        raise InvalidInput(field, value, "a list of rows of numbers, all of one length")
    if rows is not None and len(entries) != rows:
        raise InvalidInput(field, Words(f"{len(entries)} rows"), f"{rows} rows, one for each item")
    return np.stack(entries)


def writable_folder(field: str, folder: Path) -> None:
    """Refuse a folder that cannot be written, before any work is done; create nothing."""
    parent = folder
    try:
        while not parent.exists() and not parent.is_symlink():
            parent = parent.parent
        writable = parent.is_dir() and os.access(parent, os.W_OK)
    except OSError:
        writable = False
    if not writable:
        raise InvalidInput(field, str(folder), "a folder that can be written")
