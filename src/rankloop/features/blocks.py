"""Blocks: the fields of one kind, and how their values become columns of dense rows or positions of sparse ones."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from rankloop.features import kernels
from rankloop.features.hashing import text_hash
from rankloop.features.vocabulary import HashedColumns, OwnColumns, Vocabulary
from rankloop.schema.feature_settings import DEFAULT_CATEGORIES, SHARED_COLUMNS, FieldSettings
from rankloop.types import FloatArray, IntArray


@dataclass(frozen=True)
class Placed:
    """A field and where its columns or positions start."""

    name: str
    settings: FieldSettings
    start: int
    key: str  # text from which hashes are derived; it differs between fields of items and of the context
    hashed: int | None  # coefficients of sparse rows, None for dense ones

    def coefficients(self) -> IntArray:
        """Return the coefficients of the columns of numbers and of a missing value, in sparse rows."""
        keys = [*map(str, range(self.settings.own_columns)), "missing"]
        return np.array([text_hash(self.key, key) & ((self.hashed or 1) - 1) for key in keys], dtype=np.int64)


class Block(ABC):
    """The fields of one kind.

    Attributes:
        seen: which of them have had a value, [F]; before that, nothing is known to be missing.
    """

    def __init__(self, fields: Sequence[Placed]) -> None:
        self.fields = fields
        self.seen = np.zeros(len(fields), dtype=np.bool_)
        self.starts = np.array([field.start for field in fields], dtype=np.int64)
        self.hashed = bool(fields) and fields[0].hashed is not None

    def know(self, f: int) -> None:
        """Let missing values of field f have their indicator from now on."""
        self.seen[f] = True

    def size(self, f: int) -> int:
        """Return the number of categories or tags of field f with columns of their own."""
        return 0

    def learned(self, f: int) -> list[str]:
        """Return the categories or tags of field f with columns of their own, in their order."""
        return []

    def restore(self, f: int, texts: Sequence[str]) -> None:
        """Give these texts columns of their own in field f; by default there are none."""
        return

    @abstractmethod
    def names(self, f: int) -> list[str]:
        """Return the name of each column of field f in a dense row."""


class Numbers(Block):
    """Numbers and booleans: scaled and clipped, and a column for missing values."""

    def __init__(self, fields: Sequence[Placed]) -> None:
        super().__init__(fields)
        settings = [field.settings for field in fields]
        self._log = np.array([one.transform == "log" for one in settings], dtype=np.bool_)
        self._scale = np.array([[one.center or 0.0 for one in settings], [one.scale or 1.0 for one in settings]])
        self._at = np.array([field.coefficients() for field in fields], dtype=np.int64).reshape(len(fields), 2)

    def write(self, columns: Sequence[Sequence[float | None]], out: FloatArray) -> None:
        """Write the values of each field into rows [n, width]."""
        if not columns:
            return
        raw = _numbers(columns)
        if self.hashed:
            kernels.put_hashed_numbers(raw, self._log, self._scale, self.seen, self.starts, self._at, out)
        else:
            kernels.put_numbers(raw, self._log, self._scale, self.seen, self.starts, out)

    def learn(self, columns: Sequence[Sequence[float | None]]) -> None:
        """Note which fields have values."""
        if columns and not self.seen.all():
            self.seen |= ~np.isnan(_numbers(columns)).all(axis=1)

    def names(self, f: int) -> list[str]:
        """Return the name of the field, and that of a missing value."""
        return [self.fields[f].name, f"{self.fields[f].name} missing"]


class Vectors(Block):
    """Lists of numbers: scaled and clipped, and a column for missing values."""

    def __init__(self, fields: Sequence[Placed]) -> None:
        super().__init__(fields)
        self._at = [field.coefficients() for field in fields]

    def write(self, columns: Sequence[Sequence[Sequence[float] | None]], out: FloatArray) -> None:
        """Write the values of each field into rows [n, width]."""
        for f, values in enumerate(columns):
            settings = self.fields[f].settings
            size, scale = settings.own_columns, float(settings.scale or 1.0)
            nothing = (np.nan,) * size
            raw = np.array([nothing if v is None else v for v in values], dtype=np.float64).reshape(len(values), size)
            seen, start = bool(self.seen[f]), self.fields[f].start
            if self.hashed:
                kernels.put_hashed_vectors(raw, scale, seen, start, self._at[f], out)
            else:
                kernels.put_vectors(raw, scale, seen, start, out)

    def learn(self, columns: Sequence[Sequence[Sequence[float] | None]]) -> None:
        """Note which fields have values."""
        for f, values in enumerate(columns):
            if not self.seen[f] and any(value is not None for value in values):
                self.know(f)

    def names(self, f: int) -> list[str]:
        """Return the name of each entry, and that of a missing value."""
        name, settings = self.fields[f].name, self.fields[f].settings
        return [*(f"{name}[{j}]" for j in range(settings.own_columns)), f"{name} missing"]


class Texts(Block):
    """Fields whose texts have columns of their own, or those of their hashes."""

    def __init__(self, fields: Sequence[Placed]) -> None:
        super().__init__(fields)
        self.tables: list[Vocabulary] = [_vocabulary(field) for field in fields]

    def know(self, f: int) -> None:
        """Let missing values of field f have their indicator from now on."""
        super().know(f)
        self.tables[f].know_missing()

    def size(self, f: int) -> int:
        """Return the number of texts of field f with columns of their own."""
        return self.tables[f].size

    def learned(self, f: int) -> list[str]:
        """Return the texts of field f with columns of their own, in their order."""
        return self.tables[f].learned()

    def restore(self, f: int, texts: Sequence[str]) -> None:
        """Give these texts columns of their own in field f."""
        self.tables[f].learn(texts)

    def note(self, f: int, texts: Iterable[str], any_value: bool) -> None:
        """Note the texts of field f in their order, and whether it has had any value."""
        if any_value and not self.seen[f]:
            self.know(f)
        self.tables[f].learn(texts)

    def names(self, f: int) -> list[str]:
        """Return the name of each text with a column of its own, of the shared columns, and of a missing value."""
        name, known = self.fields[f].name, self.learned(f)
        free = range(len(known), self.fields[f].settings.own_columns - SHARED_COLUMNS)
        own = [f"{name}={text}" for text in known] + [f"{name} #{j}" for j in free]
        return [*own, *(f"{name} shared {j}" for j in range(SHARED_COLUMNS)), f"{name} missing"]


class Categories(Texts):
    """Texts: 1 in the column of the text."""

    def write(self, columns: Sequence[Sequence[str | None]], out: FloatArray) -> None:
        """Write the values of each field into rows [n, width]."""
        if not columns:
            return
        at: list[int] = []
        for table, values in zip(self.tables, columns, strict=True):
            at += map(table.__getitem__, values)
        put = kernels.put_hashed_categories if self.hashed else kernels.put_categories
        put(_packed(at), self.starts, out)

    def learn(self, columns: Sequence[Sequence[str | None]]) -> None:
        """Note new categories in their order."""
        for f, values in enumerate(columns):
            known = [value for value in values if value is not None]
            self.note(f, known, bool(known))


class Tags(Texts):
    """Lists of texts: 1/√n in the columns of n different texts."""

    def write(self, columns: Sequence[Sequence[Sequence[str] | None]], out: FloatArray) -> None:
        """Write the values of each field into rows [n, width]."""
        for f, values in enumerate(columns):
            table, start = self.tables[f], self.fields[f].start
            rows = [_MISSING if tags is None else tags for tags in values]
            at = list(map(table.__getitem__, chain.from_iterable(rows)))
            put = kernels.put_hashed_tags if self.hashed else kernels.put_tags
            put(_packed(at), _packed(list(map(len, rows))), start, out)

    def learn(self, columns: Sequence[Sequence[Sequence[str] | None]]) -> None:
        """Note new tags in their order."""
        for f, values in enumerate(columns):
            known = [value for value in values if value is not None]
            self.note(f, chain.from_iterable(known), bool(known))


_MISSING: tuple[str | None, ...] = (None,)


def _vocabulary(field: Placed) -> Vocabulary:
    if field.hashed is None:
        return OwnColumns(field.key, field.settings.categories or DEFAULT_CATEGORIES, SHARED_COLUMNS)
    return HashedColumns(field.key, text_hash(field.key, "missing") & (field.hashed - 1), field.hashed)


def _packed(numbers: Sequence[int]) -> IntArray:
    """Return whole numbers as an array, in a third of the time that `np.array` takes."""
    return np.frombuffer(struct.pack(f"{len(numbers)}q", *numbers), dtype=np.int64)


def _numbers(columns: Sequence[Sequence[float | None]]) -> FloatArray:
    """Return columns of numbers as an array [F, n], NaN where one is missing."""
    shape = (len(columns), len(columns[0]))
    try:
        pack = struct.Struct(f"{shape[1]}d").pack  # in half the time that `np.array` takes
        return np.frombuffer(b"".join([pack(*values) for values in columns])).reshape(shape)
    except struct.error:  # None among them
        return np.array(columns, dtype=np.float64).reshape(shape)
