"""Reads values into the type of a field in Python, and says in words what a type accepts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from msgspec import inspect

from rankloop.errors import InvalidInput, Words, closest
from rankloop.schema.accepted_values import interval, whole

Read = Callable[[str, object], object]


@dataclass(frozen=True)
class Reader:
    """How a value of a field is read, and which are accepted, in words."""

    read: Read
    accepted: str


def reader(kind: inspect.Type) -> Reader:
    """The reader of a type, as `msgspec.inspect` describes it."""
    made = _reader(kind)
    said = (kind.extra or {}).get("accepted") if isinstance(kind, inspect.Metadata) else None
    if said is None:
        return made

    def read(field: str, value: object) -> object:
        try:
            return made.read(field, value)
        except InvalidInput as error:
            accepted = said if error.field == field else error.accepted
            raise InvalidInput(error.field, error.value, accepted, error.meant) from None

    return Reader(read, said)


def _reader(kind: inspect.Type) -> Reader:
    match kind:
        case inspect.Metadata():
            return reader(kind.type)
        case inspect.UnionType():
            return _optional(kind)
        case inspect.IntType():
            return _integer(kind)
        case inspect.FloatType():
            return _number(kind)
        case inspect.StrType():
            return _text(kind)
        case inspect.BoolType():
            return _one_of_type(bool, "true or false")
        case inspect.LiteralType():
            return _word([str(value) for value in kind.values])
        case inspect.ListType() | inspect.VarTupleType() | inspect.FrozenSetType() | inspect.CollectionType():
            return _list(reader(kind.item_type), least=kind.min_length or 0)
        case inspect.TupleType():
            return _list(reader(kind.item_types[0]), len(kind.item_types))
        case inspect.DictType():
            return _mapping(kind.key_type, reader(kind.value_type))
        case inspect.StructType():
            made: Any = kind.cls
            return Reader(
                lambda field, value: made.of(value, field), f"a mapping with {', '.join(made.__struct_fields__)}"
            )
    return Reader(lambda field, value: value, "any value")


def _optional(kind: inspect.UnionType) -> Reader:
    (other,) = (reader(one) for one in kind.types if not isinstance(one, inspect.NoneType))
    return Reader(lambda field, value: None if value is None else other.read(field, value), other.accepted)


def _one_of_type(kind: type, accepted: str) -> Reader:
    def read(field: str, value: object) -> object:
        if not isinstance(value, kind):
            raise InvalidInput(field, value, accepted)
        return value

    return Reader(read, accepted)


def _integer(kind: inspect.IntType) -> Reader:
    low, high = -(10**18) if kind.ge is None else kind.ge, kind.le

    def read(field: str, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, Integral):
            raise InvalidInput(field, value, whole(low, high))
        found = int(value)
        if found < low or (high is not None and found > high):
            raise InvalidInput(field, value, whole(low, high, found))
        return found

    return Reader(read, whole(low, high))


def _number(kind: inspect.FloatType) -> Reader:
    low = kind.gt if kind.gt is not None else -math.inf if kind.ge is None else kind.ge
    high, open_low = math.inf if kind.le is None else kind.le, kind.gt is not None
    accepted = interval(low, high, open_low)

    def read(field: str, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, Real):
            raise InvalidInput(field, value, accepted)
        if value < low or not value <= high or (open_low and value == low):
            raise InvalidInput(field, value, accepted)
        return float(value)

    return Reader(read, accepted)


def _text(kind: inspect.StrType) -> Reader:
    low, high = kind.min_length or 0, kind.max_length
    accepted = "a text" if high is None and not low else f"a text of at least {low} characters"
    accepted = accepted if high is None else f"a text of {low} to {high} characters"

    def read(field: str, value: object) -> str:
        if not isinstance(value, str) or len(value) < low or (high is not None and len(value) > high):
            raise InvalidInput(field, value, accepted)
        return str(value)

    return Reader(read, accepted)


def _word(among: Sequence[str]) -> Reader:
    accepted = "one of " + ", ".join(among)

    def read(field: str, value: object) -> str:
        if not isinstance(value, str) or value not in among:
            raise InvalidInput(field, value, accepted, closest(value, among))
        return value

    return Reader(read, accepted)


def _list(entry: Reader, length: int | None = None, least: int = 0) -> Reader:
    many = f"a list of at least {least}" if least else "a list" if length is None else f"a list of {length}"
    accepted = f"{many}, each entry {entry.accepted}"

    def read(field: str, value: object) -> list[object]:
        found = value.tolist() if hasattr(value, "tolist") else value  # an array of numbers
        if not isinstance(found, Sequence | frozenset | set) or isinstance(found, str | bytes) or len(found) < least:
            raise InvalidInput(field, value, accepted)
        if length is not None and len(found) != length:
            raise InvalidInput(field, Words(f"a list of {len(found)}"), f"a list of {length}")
        return [entry.read(f"{field}[{i}]", one) for i, one in enumerate(found)]

    return Reader(read, accepted)


def _mapping(keys: inspect.Type, values: Reader) -> Reader:
    slots, key = isinstance(keys, inspect.IntType), reader(keys)
    accepted = f"a mapping from {key.accepted} to {values.accepted}"

    def read(field: str, value: object) -> dict[object, object]:
        if not isinstance(value, Mapping):
            raise InvalidInput(field, value, accepted)
        made = {}
        for name, one in value.items():
            number = int(name) if slots and isinstance(name, str) and name.isdecimal() else name  # JSON has texts only
            at = key.read(field if slots else f"{field}.{name}", number)
            made[at] = values.read(f"{field}.{at}", one)
        return made

    return Reader(read, accepted)
