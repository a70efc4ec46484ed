"""Ids and names that callers choose: of items, decisions, events, visitors and segments."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from rankloop.errors import InvalidInput
from rankloop.schema.limits import MAX_ID_LENGTH

ACCEPTED = f"a printable text of 1 to {MAX_ID_LENGTH} characters, neither . nor .."
Id = Annotated[str, Meta(min_length=1, max_length=MAX_ID_LENGTH, extra={"accepted": ACCEPTED})]
"""A text that `printable` accepts; where ids only refer to something, an unprintable one refers to nothing."""


def printable(field: str, value: object) -> str:
    """The id, which is a printable text of reasonable length."""
    fine = isinstance(value, str) and 0 < len(value) <= MAX_ID_LENGTH and value.isprintable()
    if not fine or value in (".", ".."):  # steps of a path: no client could ask for it by its address
        raise InvalidInput(field, value, ACCEPTED)
    return str(value)
