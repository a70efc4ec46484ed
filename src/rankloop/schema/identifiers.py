"""Checks of ids and names that callers choose: rankers, items, decisions, events, visitors and segments."""

from __future__ import annotations

import re
from typing import Annotated

from msgspec import Meta

from rankloop.errors import InvalidInput
from rankloop.schema.limits import MAX_ID_LENGTH

ACCEPTED = f"a printable text of 1 to {MAX_ID_LENGTH} characters, neither . nor .."
Id = Annotated[str, Meta(min_length=1, max_length=MAX_ID_LENGTH, extra={"accepted": ACCEPTED})]
"""Type of an id. A new id must also pass `printable`; an unprintable reference matches nothing."""


def printable(field: str, value: object) -> str:
    """Return an id; refuse one that cannot be printed or is too long."""
    fine = isinstance(value, str) and 0 < len(value) <= MAX_ID_LENGTH and value.isprintable()
    if not fine or value in (".", ".."):  # these are path segments with a meaning: no client could address the object
        raise InvalidInput(field, value, ACCEPTED)
    return str(value)


def ranker_name(value: object) -> str:
    """Return the name of a ranker; refuse one that cannot be part of an address and the name of a log."""
    if not isinstance(value, str) or re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", value) is None:
        accepted = "1 to 64 letters, digits, dots, underscores and hyphens, a letter or digit first"
        raise InvalidInput("name", value, accepted)
    return value
