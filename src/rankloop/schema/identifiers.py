"""Ids and names that callers choose: of rankers, items, decisions, events, visitors and segments."""

from __future__ import annotations

import re
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


def ranker_name(value: object) -> str:
    """The name of a ranker, which is also a step of an address and the name of a log."""
    if not isinstance(value, str) or re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", value) is None:
        accepted = "1 to 64 letters, digits, dots, underscores and hyphens, a letter or digit first"
        raise InvalidInput("name", value, accepted)
    return value
