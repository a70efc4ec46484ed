"""The fields of items as callers gave them, in one block of memory: no object for each item."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
import numpy as np

from rankloop.arrays import Array
from rankloop.errors import InvalidInput, Words
from rankloop.schema.fields import Fields
from rankloop.serving.items.field_groups import FieldGroups

MAX_GARBAGE = 0.5
"""Fraction of the block that replaced fields may take before it is written anew."""
_encode = msgspec.json.Encoder(enc_hook=str.__str__).encode  # texts of array libraries are subclasses of str
_decode = msgspec.json.Decoder(dict[str, float | bool | str | list[float | str] | None]).decode


def encoded(field: str, fields: object) -> bytes:
    """Return fields as JSON; refuse text that no log can store."""
    try:
        return _encode(fields)
    except UnicodeEncodeError:
        raise InvalidInput(field, Words("not acceptable"), "texts of valid Unicode characters") from None


class RawFields:
    """The fields of the items by column, as JSON texts one after the other."""

    def __init__(self) -> None:
        self._texts = bytearray()
        self._starts = np.zeros(0, dtype=np.int64)
        self._sizes = np.zeros(0, dtype=np.int64)  # 0: the item has no fields
        self._used = 0  # bytes of texts that were not replaced
        self.groups = FieldGroups(self._all)  # of values of capped fields

    def __len__(self) -> int:
        """Return the number of items with fields."""
        return int(np.count_nonzero(self._sizes))

    def first(self, most: int) -> list[Fields]:
        """Return the fields of the first items that have any, at most this number."""
        return [fields for at in np.flatnonzero(self._sizes)[:most].tolist() if (fields := self.get(at)) is not None]

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return len(self._texts) + self._starts.nbytes + self._sizes.nbytes

    def put(self, column: int, fields: Fields) -> None:
        """Replace the fields of an item."""
        text = _encode(fields)
        if column >= len(self._starts):
            added = np.zeros(max(column + 1, 2 * len(self._starts)) - len(self._starts), dtype=np.int64)
            self._starts, self._sizes = (np.concatenate([one, added]) for one in (self._starts, self._sizes))
        self.remove(column)
        self._starts[column], self._sizes[column] = len(self._texts), len(text)
        self._texts += text
        self._used += len(text)
        self.groups.put(column, text)

    def remove(self, column: int) -> None:
        """Drop the fields of an item."""
        if column < len(self._sizes):
            self._used -= int(self._sizes[column])
            self._sizes[column] = 0
            if self._used < MAX_GARBAGE * len(self._texts):
                self._write_anew()

    def get(self, column: int) -> Fields | None:
        """Return the fields of an item, or None."""
        if column >= len(self._sizes) or not self._sizes[column]:
            return None
        start = int(self._starts[column])
        return _decode(bytes(self._texts[start : start + int(self._sizes[column])]))

    def _all(self) -> Iterator[tuple[int, bytes]]:
        """Yield the columns of all items that have fields, and their fields."""
        for column in np.flatnonzero(self._sizes).tolist():
            start = int(self._starts[column])
            yield column, bytes(self._texts[start : start + int(self._sizes[column])])

    def _write_anew(self) -> None:
        """Leave out the texts that were replaced."""
        texts, starts = bytearray(), np.zeros_like(self._starts)
        for column in np.flatnonzero(self._sizes).tolist():
            start = int(self._starts[column])
            starts[column] = len(texts)
            texts += self._texts[start : start + int(self._sizes[column])]
        self._texts, self._starts = texts, starts

    def arrays(self) -> dict[str, Array]:
        """Return the fields for a snapshot; nothing if no item has any."""
        if not self._used:
            return {}
        self._write_anew()
        used = int(np.flatnonzero(self._sizes)[-1]) + 1
        return {"field_texts": np.frombuffer(bytes(self._texts), np.uint8), "field_sizes": self._sizes[:used].copy()}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Restore what `arrays` returned."""
        self._texts = bytearray(arrays["field_texts"].tobytes() if "field_texts" in arrays else b"")
        self._sizes = np.array(arrays.get("field_sizes", ()), dtype=np.int64)
        self._starts = np.cumsum(self._sizes) - self._sizes
        self._used = len(self._texts)
        self.groups.forget()
