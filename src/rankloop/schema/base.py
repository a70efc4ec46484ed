"""`Payload`: a structure that validates itself, in its constructor and when it is decoded.

msgspec checks types and ranges in C. Only a payload that C refuses is read again in Python (`value_reader`), which
accepts the number types of array libraries and raises errors in the form "field is value; accepted: …".
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

import msgspec
from msgspec import Struct, StructMeta

from rankloop.errors import MISSING, InvalidInput, Words
from rankloop.schema.accepted_values import unknown_field
from rankloop.schema.value_reader import ValueReader, value_reader

T = TypeVar("T", bound="Payload")


class PayloadMeta(StructMeta):
    """Metaclass that lets the constructor of a payload validate its arguments."""

    if not TYPE_CHECKING:  # for type checkers, the signature is that of the structure

        def __call__(cls, *args: object, **fields: object) -> Payload:  # noqa: N805 (of a metaclass)
            """Return a valid payload, or raise InvalidInput."""
            if args:
                names = cls.__struct_fields__
                if len(args) > len(names) or (fields and not fields.keys().isdisjoint(names[: len(args)])):
                    raise TypeError(f"{cls.__name__} has the fields {', '.join(names)}, each at most once")
                fields.update(zip(names, args, strict=False))
            return cls.of(fields)


class Payload(Struct, metaclass=PayloadMeta, frozen=True, forbid_unknown_fields=True):
    """Base of all payloads: immutable, without unknown fields.

    A subclass checks in `__post_init__` what the types of single fields do not express, and in `check_consistency`
    what concerns several fields together: a copy by `msgspec.structs.replace` does not run the latter.
    """

    where: ClassVar[str] = ""  # prefix of the dotted field names in errors
    hides_values: ClassVar[bool] = False  # errors do not repeat values, which may be secrets

    @classmethod
    def of(cls, given: Self | Mapping[str, object], field: str | None = None) -> Self:
        """Return the payload with the fields of a mapping.

        Args:
            given: fields and their values; a payload of this class is returned as it is.
            field: dotted name of the value, for errors.
        """
        try:
            payload = msgspec.convert(given, cls)
        except (msgspec.ValidationError, AttributeError):  # an array where a list or a mapping is accepted
            payload = _read(cls, given, cls.where if field is None else field)
        payload.check_consistency()
        return payload

    def check_consistency(self) -> None:
        """Refuse a combination of values of which each is valid by itself."""

    def non_default_fields(self) -> dict[str, object]:
        """Return the fields whose values differ from their defaults."""
        fields = ((name, getattr(self, name), default) for name, default in field_defaults(type(self)).items())
        return {
            name: value for name, value, default in fields if value != default and not (value == [] and default == ())
        }


@cache
def field_defaults(kind: type[Payload]) -> dict[str, object]:
    """Return the default of each field, `MISSING` for a required one."""
    fields = msgspec.structs.fields(kind)
    values = (
        MISSING if f.required else f.default_factory() if f.default is msgspec.NODEFAULT else f.default for f in fields
    )
    return {field.name: value for field, value in zip(fields, values, strict=True)}


@cache
def field_readers(kind: type[Payload]) -> dict[str, ValueReader]:
    """Return the reader of each field, for payloads that C refuses."""
    info: Any = msgspec.inspect.type_info(kind)
    return {field.name: value_reader(field.type) for field in info.fields}


def _read(kind: type[T], given: object, where: str) -> T:
    """Return the payload of values that C does not accept, or raise the error that describes them."""
    if not kind.hides_values:
        return _read_openly(kind, given, where)
    try:
        return _read_openly(kind, given, where)
    except InvalidInput as error:
        value = error.value if error.value is MISSING else Words("not acceptable")
        raise InvalidInput(error.field, value, error.accepted, error.meant) from None


def _read_openly(kind: type[T], given: object, where: str) -> T:
    if isinstance(given, Payload):
        given = msgspec.structs.asdict(given)
    if isinstance(given, Mapping) and any(hasattr(value, "tolist") for value in given.values()):
        # NumPy arrays and scalars, and those of similar libraries.
        given = {name: value.tolist() if hasattr(value, "tolist") else value for name, value in given.items()}
        with suppress(msgspec.ValidationError):
            return msgspec.convert(given, kind)
    readers = field_readers(kind)
    required = [name for name, value in field_defaults(kind).items() if value is MISSING]
    if not isinstance(given, Mapping):
        raise InvalidInput(where or "body", given, f"a mapping with {', '.join(readers)}")
    fields: dict[str, object] = {}
    for name, value in given.items():
        if name not in readers:
            raise unknown_field(where, name, value, list(readers))
        fields[name] = readers[name].read(f"{where}.{name}" if where else name, value)
    for name in required:
        if name not in fields:
            needs = f"a value, since {where or 'it'} needs {', '.join(required)}"
            raise InvalidInput(f"{where}.{name}" if where else name, MISSING, needs)
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, InvalidInput):
            raise error.__cause__.within(where) from None
        raise InvalidInput(where or "body", Words("not acceptable"), str(error)) from None


def construct_unchecked(kind: type[T], **fields: object) -> T:
    """Return a payload of values that were checked before, perhaps by an older version, such as those of a log."""
    payload: T = StructMeta.__call__(kind, **fields)
    return payload


class Decoder(Generic[T]):
    """Decodes payloads of one class from JSON: in C, and again in Python if one is invalid, to describe the error."""

    def __init__(self, kind: type[T]) -> None:
        self._kind, self._decode = kind, msgspec.json.Decoder(kind).decode
        # In C, unless the payload checks several fields together. An invalid body raises an error of msgspec.
        self.decode_valid = self._decode if kind.check_consistency is Payload.check_consistency else self

    def __call__(self, body: bytes) -> T:
        """Return the payload; raise InvalidInput if it is invalid, msgspec.DecodeError if the body is not JSON."""
        try:
            payload = self._decode(body)
        except msgspec.ValidationError:
            payload = _read(self._kind, self._untyped(body), self._kind.where)
        payload.check_consistency()
        return payload

    def _untyped(self, body: bytes) -> object:
        """Return the body without a type; if that fails too, raise the error of the typed decoder."""
        try:
            return msgspec.json.decode(body)
        except (msgspec.DecodeError, RecursionError):
            return self._decode(body)
