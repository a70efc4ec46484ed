"""The words in which errors say what is accepted."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rankloop.errors import InvalidInput, closest
from rankloop.schema.limits import MAX_FLOAT


def interval(low: float, high: float, open_low: bool = False) -> str:
    """The words for a range of numbers."""
    if low in (-math.inf, -MAX_FLOAT) and high in (math.inf, MAX_FLOAT):
        return "a finite number"
    if high in (math.inf, MAX_FLOAT):
        return f"a finite number {'above' if open_low else 'of at least'} {low:g}"
    return f"a number in {'(' if open_low else '['}{low:g}, {high:g}]"


def whole(low: int, high: int | None, given: int | None = None) -> str:
    """The words for a range of whole numbers; a generous upper bound is news only to those who passed it."""
    bounded = high is not None and (high < 10**6 or (given is not None and given > high))
    return f"a whole number from {low} to {high}" if bounded else f"a whole number of at least {low}"


def unknown_field(where: str, name: object, value: object, known: Sequence[str]) -> InvalidInput:
    """The error for a field that nobody knows."""
    field = f"{where}.{name}" if where else str(name)
    return InvalidInput(field, value, f"only the fields {', '.join(known)}", closest(name, known))
