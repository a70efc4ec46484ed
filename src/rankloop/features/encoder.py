"""`Encoder`: fields of items or contexts in, rows of numbers out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Self

import numpy as np

from rankloop.arrays import Array
from rankloop.errors import InvalidInput, Words
from rankloop.features.blocks import Block, Categories, Numbers, Placed, Tags, Vectors
from rankloop.features.kernels import put_hashed_products
from rankloop.schema.feature_settings import FieldSettings
from rankloop.schema.field_values import Columns, FieldReader, Mappings
from rankloop.types import FloatArray


class Encoder:
    """Turns mappings of fields into rows, all of one width.

    The columns are a constant 1 if wanted, then those of each field in the order of the settings, then the products of
    crossed fields. A row depends on the settings, on the fields and on what `learn` has noted, and on nothing else.

    Args:
        fields: settings of each field.
        hashed: number of coefficients of sparse rows, a power of two; None for dense rows.
        constant: whether the first column is 1.
        cross: pairs of these fields.
        role: "item" or "context": a field of the same name has other hashes in the other role.
    """

    def __init__(
        self,
        fields: Mapping[str, FieldSettings],
        hashed: int | None = None,
        *,
        constant: bool = False,
        cross: Sequence[tuple[str, str]] = (),
        role: str = "item",
    ) -> None:
        self._settings, self._hashed, self._constant, self._cross = fields, hashed, constant, tuple(cross)
        self._reader = reader = FieldReader(fields)
        placed: dict[str, Placed] = {}
        end = int(constant)
        for name, settings in fields.items():
            placed[name] = Placed(name, settings, end, f"{role}.{name}", hashed)
            end += settings.columns if hashed is None else settings.positions
        self._placed, self._products_at = placed, end
        self._numbers = Numbers([placed[name] for name in reader.numbers])
        self._vectors = Vectors([placed[name] for name in reader.vectors])
        self._categories = Categories([placed[name] for name in reader.categories])
        self._tags = Tags([placed[name] for name in reader.tags])
        blocks: list[Block] = [self._numbers, self._vectors, self._categories, self._tags]
        of_name = {field.name: (block, f) for block in blocks for f, field in enumerate(block.fields)}
        self._blocks = [of_name[name] for name in fields]  # block and number in it, of each field
        self.positions = end + sum(len(self.columns_of(a)) * len(self.columns_of(b)) for a, b in self._cross)
        self.width = self.positions if hashed is None else 2 * self.positions

    @classmethod
    def of(cls, fields: Mapping[str, FieldSettings], hashed: int | None = None) -> Self:
        """Return the encoder of these fields alone, which has learned nothing."""
        return cls(fields, hashed)

    # Columns

    def columns_of(self, name: str) -> range:
        """Return the columns or positions of a field that take part in products: not that of missing values."""
        start, settings = self._placed[name].start, self._settings[name]
        return range(start, start + (settings.own_columns if self._hashed is None else settings.positions))

    def names(self) -> list[str]:
        """Return the name of each column of a dense row, or of each position of a sparse one."""
        own = ["constant"] if self._constant else []
        for name, (block, f) in zip(self._settings, self._blocks, strict=True):
            own += block.names(f) if self._hashed is None else [name] * self._settings[name].positions
        for a, b in self._cross:
            left, right = ([own[j] for j in self.columns_of(name)] for name in (a, b))
            own = [*own, *(f"{x} × {y}" for x in left for y in right)]
        return own

    # Values

    def check(self, field: str, fields: Mapping[str, object]) -> None:
        """Refuse a mapping with a value of the wrong kind, whatever was learned; fields that are unknown may be there.

        Args:
            field: name of the mapping, for errors, such as ``items[3].fields``.
            fields: the mapping.
        """
        self._reader.check(field, fields)

    def unknown(self, fields: Mapping[str, object]) -> list[str]:
        """Return the names of fields that are not declared, in their order."""
        return self._reader.unknown(fields)

    def encode(self, mappings: Mappings, field: str = "fields[{}]") -> FloatArray:
        """Return the rows of mappings, [n, width]; refuse values of the wrong kind, as `check` does.

        Args:
            mappings: [n], fields of items or contexts.
            field: name of each mapping, for errors, with {} for its number, such as ``items[{}].fields``.
        """
        columns = self._reader.columns(field, mappings)
        out = np.zeros((len(mappings), self.width))
        if self._constant:
            out[:, 0] = 1.0
        self._numbers.write(columns.numbers, out)
        self._vectors.write(columns.vectors, out)
        self._categories.write(columns.categories, out)
        self._tags.write(columns.tags, out)
        self._write_products(out)
        return out

    def _write_products(self, out: FloatArray) -> None:
        start = self._products_at
        for pair in self._cross:
            a, b = (self.columns_of(name) for name in pair)
            end = start + len(a) * len(b)
            if self._hashed is None:
                products = out[:, a.start : a.stop, None] * out[:, None, b.start : b.stop]
                out[:, start:end] = products.reshape(len(out), end - start)
            else:
                put_hashed_products(a.start, len(a), b.start, len(b), self._hashed - 1, start, out)
            start = end

    def values(self, mappings: Mappings) -> Columns:
        """Return the values of each field, by kind, of mappings that were checked before."""
        return self._reader.columns("fields[{}]", mappings)

    # Learning

    @property
    def sizes(self) -> tuple[int, ...]:
        """How much was learned of each field: -1 before its first value, then its number of categories, which grows."""
        return tuple(block.size(f) if block.seen[f] else -1 for block, f in self._blocks)

    def learn(self, mappings: Mappings) -> None:
        """Note which fields have values, and new categories in their order, of mappings that were checked before."""
        columns = self.values(mappings)
        self._numbers.learn(columns.numbers)
        self._vectors.learn(columns.vectors)
        self._categories.learn(columns.categories)
        self._tags.learn(columns.tags)

    def arrays(self) -> dict[str, Array]:
        """Return what was learned as plain arrays."""
        learned = [(i, text) for i, (block, f) in enumerate(self._blocks) for text in block.learned(f)]
        texts = [text.encode("utf-8", "surrogatepass") for _, text in learned]
        return {
            "seen": np.array([block.seen[f] for block, f in self._blocks], dtype=np.bool_),
            "field": np.array([i for i, _ in learned], dtype=np.int64),
            "ends": np.cumsum([len(text) for text in texts], dtype=np.int64),
            "text": np.frombuffer(b"".join(texts), dtype=np.uint8).copy(),
        }

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Continue from arrays that `arrays` returned, in an encoder of the same settings that has learned nothing."""
        text, ends = np.asarray(arrays["text"], dtype=np.uint8).tobytes(), np.asarray(arrays["ends"]).tolist()
        seen, of_field = np.asarray(arrays["seen"]).tolist(), np.asarray(arrays["field"]).tolist()
        if len(seen) != len(self._blocks) or len(of_field) != len(ends):
            raise InvalidInput("encoder", Words(f"{len(seen)} fields"), f"{len(self._blocks)} fields")
        learned: list[list[str]] = [[] for _ in self._blocks]
        for i, start, end in zip(of_field, [0, *ends], ends, strict=False):
            learned[i].append(text[start:end].decode("utf-8", "surrogatepass"))
        for (block, f), known, texts in zip(self._blocks, seen, learned, strict=True):
            if known:
                block.know(f)
            block.restore(f, texts)


def rename_categories(
    prefix: str, arrays: dict[str, Array], fields: Sequence[str], text_of: Callable[[str, str], str]
) -> None:
    """Replace the texts of categories in arrays of an encoder that a snapshot stores, in place.

    Args:
        prefix: of the names of the arrays.
        arrays: by name; others stay as they are.
        fields: names of the encoder's fields, in their order.
        text_of: returns the new text of a field's category.
    """
    text, ends = arrays[f"{prefix}text"].tobytes(), arrays[f"{prefix}ends"].tolist()
    old = [text[a:b].decode("utf-8", "surrogatepass") for a, b in zip([0, *ends], ends, strict=False)]
    of_field = arrays[f"{prefix}field"].tolist()
    new = [text_of(fields[i], one).encode("utf-8", "surrogatepass") for i, one in zip(of_field, old, strict=True)]
    arrays[f"{prefix}text"] = np.frombuffer(b"".join(new), dtype=np.uint8).copy()
    arrays[f"{prefix}ends"] = np.cumsum([len(one) for one in new], dtype=np.int64)
