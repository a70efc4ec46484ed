"""Reads a value as the type of its field in Python, and states in words which values a type accepts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from msgspec import inspect

from rankloop.errors import InvalidInput, Words, closest
from rankloop.schema.accepted_values import integer_range, number_range

Read = Callable[[str, object], object]


@dataclass(frozen=True)
class ValueReader:
    """A function that reads a field's value or raises InvalidInput, and the accepted values in words."""

    read: Read
    accepted: str


def value_reader(kind: inspect.Type) -> ValueReader:
    """Return the reader of a type that `msgspec.inspect` describes."""
    typed = _reader_of_type(kind)
    phrase = (kind.extra or {}).get("accepted") if isinstance(kind, inspect.Metadata) else None
    if phrase is None:
        return typed

    def read(field: str, value: object) -> object:
        try:
            return typed.read(field, value)
        except InvalidInput as error:
            accepted = phrase if error.field == field else error.accepted
            raise InvalidInput(error.field, error.value, accepted, error.meant) from None

    return ValueReader(read, phrase)


def _reader_of_type(kind: inspect.Type) -> ValueReader:
    match kind:
        case inspect.Metadata():
            return value_reader(kind.type)
        case inspect.UnionType():
            return _optional(kind)
        case inspect.IntType():
            return _integer(kind)
        case inspect.FloatType():
            return _number(kind)
        case inspect.StrType():
            return _text(kind)
        case inspect.BoolType():
            return _instance_of(bool, "true or false")
        case inspect.LiteralType():
            return _choice([str(value) for value in kind.values])
        case inspect.ListType() | inspect.VarTupleType() | inspect.FrozenSetType() | inspect.CollectionType():
            return _list(value_reader(kind.item_type), min_length=kind.min_length or 0, max_length=kind.max_length)
        case inspect.TupleType():
            return _list(value_reader(kind.item_types[0]), len(kind.item_types))
        case inspect.DictType():
            return _mapping(kind.key_type, value_reader(kind.value_type), kind.max_length)
        case inspect.StructType():
            struct: Any = kind.cls
            return ValueReader(
                lambda field, value: struct.of(value, field), f"a mapping with {', '.join(struct.__struct_fields__)}"
            )
    return ValueReader(lambda field, value: value, "any value")


def _optional(kind: inspect.UnionType) -> ValueReader:
    readers = [value_reader(one) for one in kind.types if not isinstance(one, inspect.NoneType)]
    accepted = " or ".join(reader.accepted for reader in readers)

    def read(field: str, value: object) -> object:
        if value is None:
            return None
        refusals: list[InvalidInput] = []
        for reader in readers:
            try:
                return reader.read(field, value)
            except InvalidInput as error:
                refusals.append(error)
        # The error of an entry says more than that of the whole value.
        about_entry = (error for error in refusals if error.field != field)
        one = refusals[0] if len(refusals) == 1 else InvalidInput(field, value, accepted)
        raise next(about_entry, one) from None

    return ValueReader(read, accepted)


def _instance_of(kind: type, accepted: str) -> ValueReader:
    def read(field: str, value: object) -> object:
        if not isinstance(value, kind):
            raise InvalidInput(field, value, accepted)
        return value

    return ValueReader(read, accepted)


def _integer(kind: inspect.IntType) -> ValueReader:
    low, high = -(10**18) if kind.ge is None else kind.ge, kind.le

    def read(field: str, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, Integral):
            raise InvalidInput(field, value, integer_range(low, high))
        number = int(value)
        if number < low or (high is not None and number > high):
            raise InvalidInput(field, value, integer_range(low, high, number))
        return number

    return ValueReader(read, integer_range(low, high))


def _number(kind: inspect.FloatType) -> ValueReader:
    low = kind.gt if kind.gt is not None else -math.inf if kind.ge is None else kind.ge
    high, open_low = math.inf if kind.le is None else kind.le, kind.gt is not None
    accepted = number_range(low, high, open_low)

    def read(field: str, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, Real):
            raise InvalidInput(field, value, accepted)
        if value < low or not value <= high or (open_low and value == low):
            raise InvalidInput(field, value, accepted)
        return float(value)

    return ValueReader(read, accepted)


def _text(kind: inspect.StrType) -> ValueReader:
    low, high = kind.min_length or 0, kind.max_length
    accepted = "a text" if high is None and not low else f"a text of at least {low} characters"
    accepted = accepted if high is None else f"a text of {low} to {high} characters"

    def read(field: str, value: object) -> str:
        if not isinstance(value, str) or len(value) < low or (high is not None and len(value) > high):
            raise InvalidInput(field, value, accepted)
        return str(value)

    return ValueReader(read, accepted)


def _choice(choices: Sequence[str]) -> ValueReader:
    accepted = "one of " + ", ".join(choices)

    def read(field: str, value: object) -> str:
        if not isinstance(value, str) or value not in choices:
            raise InvalidInput(field, value, accepted, closest(value, choices))
        return value

    return ValueReader(read, accepted)


def _list(
    entry: ValueReader, length: int | None = None, min_length: int = 0, max_length: int | None = None
) -> ValueReader:
    size = f"a list of at least {min_length}" if min_length else "a list" if length is None else f"a list of {length}"
    accepted = f"{size}, each entry {entry.accepted}"

    def read(field: str, value: object) -> list[object]:
        entries = value.tolist() if hasattr(value, "tolist") else value  # an array of numbers
        if not isinstance(entries, Sequence | frozenset | set) or isinstance(entries, str | bytes):
            raise InvalidInput(field, value, accepted)
        if len(entries) < min_length:
            raise InvalidInput(field, value, accepted)
        if length is not None and len(entries) != length:
            raise InvalidInput(field, Words(f"a list of {len(entries)}"), f"a list of {length}")
        if max_length is not None and len(entries) > max_length:
            raise InvalidInput(field, Words(f"a list of {len(entries)}"), f"a list of at most {max_length}")
        return [entry.read(f"{field}[{i}]", one) for i, one in enumerate(entries)]

    return ValueReader(read, accepted)


def _mapping(keys: inspect.Type, values: ValueReader, max_length: int | None = None) -> ValueReader:
    slots, key = isinstance(keys, inspect.IntType), value_reader(keys)
    accepted = f"a mapping from {key.accepted} to {values.accepted}"

    def read(field: str, value: object) -> dict[object, object]:
        if not isinstance(value, Mapping):
            raise InvalidInput(field, value, accepted)
        if max_length is not None and len(value) > max_length:
            raise InvalidInput(field, Words(f"a mapping of {len(value)}"), f"a mapping of at most {max_length}")
        read_entries = {}
        for name, one in value.items():
            number = (
                int(name) if slots and isinstance(name, str) and name.isdecimal() else name
            )  # keys of JSON objects are text
            at = key.read(field if slots else f"{field}.{name}", number)
            read_entries[at] = values.read(f"{field}.{at}", one)
        return read_entries

    return ValueReader(read, accepted)
