"""The phrases with which errors say what is accepted."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rankloop.errors import InvalidInput, closest
from rankloop.schema.limits import MAX_FLOAT

OBVIOUS_LIMIT = 10**6
"""Upper limits from here on are mentioned only to a caller who exceeded them."""


def number_range(low: float, high: float, open_low: bool = False) -> str:
    """Return the phrase for the numbers in [low, high], or in (low, high] where `open_low`."""
    if low in (-math.inf, -MAX_FLOAT) and high in (math.inf, MAX_FLOAT):
        return "a finite number"
    if high in (math.inf, MAX_FLOAT):
        return f"a finite number {'above' if open_low else 'of at least'} {low:g}"
    return f"a number in {'(' if open_low else '['}{low:g}, {high:g}]"


def integer_range(low: int, high: int | None, value: int | None = None) -> str:
    """Return the phrase for the integers from low to high, as an answer to a value that was refused."""
    bounded = high is not None and (high < OBVIOUS_LIMIT or (value is not None and value > high))
    return f"a whole number from {low} to {high}" if bounded else f"a whole number of at least {low}"


def unknown_field(where: str, name: object, value: object, known: Sequence[str]) -> InvalidInput:
    """Return the error for a field that is not among the known ones."""
    field = f"{where}.{name}" if where else str(name)
    return InvalidInput(field, value, f"only the fields {', '.join(known)}", closest(name, known))
