"""Reads the fields of items and contexts: one pass in C that checks every value and sorts the values by field."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple, cast

import msgspec
from msgspec import Meta

from rankloop.errors import InvalidInput
from rankloop.schema.feature_settings import FieldSettings, Kind
from rankloop.schema.limits import MAX_FIELD_NUMBER, MAX_FIELD_TEXT, MAX_TAGS
from rankloop.schema.value_reader import ValueReader, value_reader

Mappings = Sequence[Mapping[str, object]]
"""Fields of several items or contexts."""

_ACCEPTED_NUMBER = f"a number from -{MAX_FIELD_NUMBER:g} to {MAX_FIELD_NUMBER:g}"
_ACCEPTED_TEXT = f"a text of at most {MAX_FIELD_TEXT} characters"
_Number = Annotated[float, Meta(ge=-MAX_FIELD_NUMBER, le=MAX_FIELD_NUMBER, extra={"accepted": _ACCEPTED_NUMBER})]
_Text = Annotated[str, Meta(max_length=MAX_FIELD_TEXT, extra={"accepted": _ACCEPTED_TEXT})]
_Tags = Annotated[list[_Text], Meta(max_length=MAX_TAGS)]


class Columns(NamedTuple):
    """The values of each declared field, by kind, one for each item or context.

    A missing number is NaN or None, any other missing value None.
    """

    numbers: list[Sequence[float | None]]  # of numbers, and of booleans as numbers
    vectors: list[Sequence[Sequence[float] | None]]
    categories: list[Sequence[str | None]]
    tags: list[Sequence[Sequence[str] | None]]


class FieldReader:
    """Reads declared fields.

    Args:
        fields: settings of each field.
    """

    def __init__(self, fields: Mapping[str, FieldSettings]) -> None:
        def of(*kinds: Kind) -> list[str]:
            return [name for name, settings in fields.items() if settings.kind in kinds]

        self.numbers, self.vectors = of("number", "boolean"), of("vector")
        self.categories, self.tags = of("category"), of("tags")
        self._names = [*self.numbers, *self.vectors, *self.categories, *self.tags]
        missing = {name: math.nan if name in self.numbers else None for name in fields}
        types: dict[str, Any] = {name: _type_of(settings) for name, settings in fields.items()}
        attributes = [(f"f{i}", types[n] | None, missing[n]) for i, n in enumerate(self._names)]
        rename = {f"f{i}": name for i, name in enumerate(self._names)}
        self._row: Any = msgspec.defstruct("Row", attributes, rename=rename, gc=False)
        self._readers: dict[str, ValueReader] = {}
        self._fields, self._missing = fields, missing

    def columns(self, where: str, mappings: Mappings) -> Columns:
        """Return the values of these mappings by field; refuse any of the wrong kind.

        Args:
            where: name of each mapping, for errors, with {} for its number, such as ``items[{}].fields``.
            mappings: [n].
        """
        try:
            rows = msgspec.convert(mappings, list[self._row])  # type: ignore[name-defined]
        except msgspec.ValidationError:
            rows = [self._row(*self._read(where.format(i), fields)) for i, fields in enumerate(mappings)]
        every: list[Sequence[Any]] = list(zip(*map(msgspec.structs.astuple, rows), strict=True))
        every = every or [() for _ in self._names]
        ends = (len(self.numbers), len(self.vectors), len(self.categories), len(self.tags))
        groups, start = [], 0
        for count in ends:
            groups.append(every[start : start + count])
            start += count
        return Columns(*groups)

    def check(self, field: str, mapping: object) -> None:
        """Refuse a mapping that has a value of the wrong kind.

        Args:
            field: name of the mapping, for errors.
            mapping: fields, of which undeclared ones are not read.
        """
        try:
            msgspec.convert(mapping, self._row)
        except msgspec.ValidationError:
            self._read(field, mapping)

    def unknown(self, mapping: Mapping[str, object]) -> list[str]:
        """Return the names of fields that are not declared, in their order."""
        return [name for name in mapping if name not in self._fields]

    def _read(self, field: str, mapping: object) -> list[object]:
        """Return the values of a mapping that C does not accept, or raise the error that describes it."""
        if not isinstance(mapping, Mapping):
            raise InvalidInput(field, mapping, "a mapping from names of fields to values")
        return [self._value(field, name, mapping.get(name)) for name in self._names]

    def _value(self, field: str, name: str, value: object) -> object:
        if value is None:
            return self._missing[name]
        reader = self._readers.get(name)
        if reader is None:
            reader = self._readers[name] = _reader(self._fields[name])
        if hasattr(value, "tolist"):  # of an array library
            value = value.tolist()
        return reader.read(f"{field}.{name}", value)


def _type_of(settings: FieldSettings) -> object:
    """Return the type with which msgspec checks a value."""
    if settings.kind == "vector":
        return Annotated[list[_Number], Meta(min_length=settings.size, max_length=settings.size)]
    kinds: dict[str, object] = {"number": _Number, "boolean": bool, "category": _Text, "tags": _Tags}
    return kinds[settings.kind]


_ACCEPTED: dict[str, str] = {
    "number": _ACCEPTED_NUMBER,
    "boolean": "true or false",
    "category": _ACCEPTED_TEXT,
    "tags": f"a list of at most {MAX_TAGS} texts of at most {MAX_FIELD_TEXT} characters",
}


def _reader(settings: FieldSettings) -> ValueReader:
    """Return the reader of one value, which says what a field of its kind accepts."""
    accepted = _ACCEPTED.get(settings.kind, f"a list of {settings.size} numbers")
    typed = value_reader(msgspec.inspect.type_info(_type_of(settings)))

    def read(field: str, value: object) -> object:
        try:
            found = typed.read(field, value)
            return msgspec.convert(found, _type_of(settings))
        except msgspec.ValidationError:
            raise InvalidInput(field, value, f"{accepted}, or null") from None
        except InvalidInput as error:
            accepts = accepted if error.field == field else error.accepted
            raise InvalidInput(error.field, error.value, f"{accepts}, or null") from None

    return ValueReader(read, accepted)


def kind_of(values: Sequence[object]) -> Kind | None:
    """Return the kind that all values have, which are at least one; None where they have no or several kinds."""
    kinds = {_kind(value) for value in values} - ({"empty"} if len(values) > 1 else set())
    kinds = kinds or {"tags"}
    return cast("Kind | None", kinds.pop() if len(kinds) == 1 else None)


def _kind(value: object) -> str | None:
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, bool | int | float | str):
        return "boolean" if isinstance(value, bool) else "category" if isinstance(value, str) else "number"
    if not isinstance(value, list | tuple):
        return None
    kinds = {_kind(entry) for entry in value}
    return "empty" if not value else "tags" if kinds == {"category"} else "vector" if kinds == {"number"} else None
