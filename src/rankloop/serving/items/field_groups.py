"""The values of capped fields as numbers: items with equal values have equal numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec
import numpy as np

from rankloop.types import IntArray

NO_VALUE = -1
"""The number of an item without a value: one that lacks the field, has null there, or a list of values."""
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_of_items = msgspec.json.Decoder(list[dict[str, msgspec.Raw] | None]).decode
Key = bytes | float


class FieldGroups:
    """The numbers of the values that items have in some fields, kept while items are put.

    The numbers follow from the order in which values come, and only say which items have equal ones.

    Args:
        texts: yields the columns of all items that have fields, and their fields as JSON.
    """

    def __init__(self, texts: Callable[[], Iterable[tuple[int, bytes]]]) -> None:
        self._texts = texts
        self._names: tuple[str, ...] = ()
        self._known: list[dict[Key, int]] = []
        self._codes = np.empty((0, 0), dtype=np.int64)

    def of_items(self, names: tuple[str, ...], capacity: int) -> IntArray:
        """Return the numbers of all columns, [C, capacity]; they change in place until there are more columns."""
        if names != self._names or capacity < self._codes.shape[1]:
            self._names, self._known = names, [{} for _ in names]
            self._codes = np.full((len(names), capacity), NO_VALUE)
            for column, text in self._texts():
                self.put(column, text)
        elif capacity > self._codes.shape[1]:
            self._widen(capacity)
        return self._codes

    def put(self, column: int, text: bytes) -> None:
        """Note the fields of an item, as JSON."""
        if self._names:
            if column >= self._codes.shape[1]:
                self._widen(2 * column + 1)
            given = _fields(text)
            for codes, name, known in zip(self._codes, self._names, self._known, strict=True):
                key = _key(given.get(name))
                codes[column] = NO_VALUE if key is None else known.setdefault(key, len(known))

    def forget(self) -> None:
        """Forget all numbers: the items are other ones."""
        self._names = ()

    def in_request(self, stored: IntArray, item_fields: str) -> IntArray:
        """Return the numbers [C, n] of candidates under the fields that a request brings for some of them.

        Args:
            stored: the numbers of the candidates' own values, [C, n].
            item_fields: of each candidate or null, as a JSON list.
        """
        codes, new = stored.copy(), [dict[Key, int]() for _ in self._names]
        for at, given in enumerate(_of_items(item_fields)):
            for own, name, known, more in zip(codes, self._names, self._known, new, strict=True):
                if given is not None and name in given:
                    key = _key(given[name])
                    if key is None:
                        own[at] = NO_VALUE
                    else:
                        own[at] = known[key] if key in known else more.setdefault(key, len(known) + len(more))
        return codes

    def _widen(self, capacity: int) -> None:
        more = np.full((len(self._names), capacity - self._codes.shape[1]), NO_VALUE)
        self._codes = np.concatenate([self._codes, more], axis=1)


def caps_of(caps: dict[str, int]) -> tuple[tuple[str, ...], IntArray]:
    """Return the names of capped fields, and how many items of a list may have one value of each."""
    names: Sequence[str] = sorted(caps)
    return tuple(names), np.array([caps[name] for name in names], dtype=np.int64)


def _key(raw: msgspec.Raw | None) -> Key | None:
    """Return what equal values have in common; None for a missing value, null and a list."""
    text = b"null" if raw is None else bytes(raw)
    if text[:1] in b"-0123456789":
        return float(text)
    return None if text == b"null" or text[:1] == b"[" else text
