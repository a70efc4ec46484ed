"""Mappings of which nothing else is known yet, as JSON and YAML files hold them."""

from __future__ import annotations

from collections.abc import Mapping


def fields_of(given: object) -> dict[str, object] | None:
    """The fields of a mapping, their names as texts; None where it is no mapping.

    >>> fields_of({"slots": 3, 1: "a"})
    {'slots': 3, '1': 'a'}
    >>> fields_of([1, 2])
    """
    return {str(name): value for name, value in given.items()} if isinstance(given, Mapping) else None
