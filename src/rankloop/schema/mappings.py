"""Mappings of unknown content, as JSON and YAML files contain them."""

from __future__ import annotations

from collections.abc import Mapping


def fields_of(value: object) -> dict[str, object] | None:
    """Return the fields of a mapping with their names as text, or None if the value is not a mapping.

    >>> fields_of({"slots": 3, 1: "a"})
    {'slots': 3, '1': 'a'}
    >>> fields_of([1, 2])
    """
    return {str(name): field for name, field in value.items()} if isinstance(value, Mapping) else None
