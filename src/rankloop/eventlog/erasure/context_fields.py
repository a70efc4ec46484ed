"""Erase the fields of contexts, and keep what the columns of categories follow from.

A category has the column that it got when a decision with it came first. A text that other visitors have in the same
field says nothing about the erased one, and stays; any other text becomes one that says nothing either. Numbers, lists
of numbers and true or false are dropped: no column depends on them.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Collection
from contextlib import suppress

import msgspec

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_text, _texts = msgspec.json.Decoder(str).decode, msgspec.json.Decoder(list[str]).decode


class ContextErasure:
    """Erases the fields of contexts, after it has seen those of all decisions.

    Args:
        visitors: whom to erase.
    """

    def __init__(self, visitors: Collection[str]) -> None:
        self._visitors = frozenset(visitors)
        self._common: set[tuple[str, str]] = set()  # fields and texts of other visitors
        self._new: dict[str, str] = {}  # what replaces a text
        self.replaced: set[str] = set()  # texts that were replaced

    def note(self, visitor: str | None, context: str | None) -> None:
        """Note the texts in the context of a decision, as JSON, if it is not of an erased visitor."""
        if context is not None and visitor not in self._visitors:
            _each_text(context, self._seen)

    def erased(self, context: str | None) -> str | None:
        """Return the context of an erased visitor without what identifies the visitor, as JSON."""
        if context is None:
            return None
        left = _each_text(context, self._without)
        return json.dumps(left, ensure_ascii=False) if left else None

    def replacement(self, field: str, text: str) -> str:
        """Return what stands for a text of a field now: another one, if only erased visitors had it."""
        return text if (field, text) in self._common else self._new.get(text, text)

    def _seen(self, field: str, text: str) -> str:
        self._common.add((field, text))
        return text

    def _without(self, field: str, text: str) -> str:
        if (field, text) in self._common:
            return text
        self.replaced.add(text)
        return self._new.setdefault(text, f"erased-{secrets.token_hex(8)}")


def _each_text(context: str, change: Callable[[str, str], str]) -> dict[str, object]:
    """Return the fields whose values are texts or lists of texts, each text changed."""
    changed: dict[str, object] = {}
    for field, value in _fields(context).items():
        with suppress(msgspec.ValidationError):
            changed[field] = change(field, _text(value))
        with suppress(msgspec.ValidationError):
            changed[field] = [change(field, text) for text in _texts(value)]
    return changed
