"""`Payload`: a structure that crosses an edge and validates itself, in its constructor and when it is decoded.

Types and ranges are checked in C by msgspec. Only what C refuses is read again in Python (`reading`), which knows the
number types of array libraries and says what is wrong in the form "field is value; accepted: …".
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
from rankloop.schema.value_reader import Reader, reader

T = TypeVar("T", bound="Payload")


class PayloadMeta(StructMeta):
    """Lets the constructor of a payload check what it is given."""

    if not TYPE_CHECKING:  # the signature is that of the structure

        def __call__(cls, *args: object, **fields: object) -> Payload:  # noqa: N805 (of a metaclass)
            """A valid payload, or InvalidInput."""
            if args:
                names = cls.__struct_fields__
                if len(args) > len(names) or (fields and not fields.keys().isdisjoint(names[: len(args)])):
                    raise TypeError(f"{cls.__name__} has the fields {', '.join(names)}, each at most once")
                fields.update(zip(names, args, strict=False))
            return cls.of(fields)


class Payload(Struct, metaclass=PayloadMeta, frozen=True, forbid_unknown_fields=True):
    """Base of all payloads: frozen, without unknown fields.

    A subclass checks in `__post_init__` what the types of its fields do not say, and in `settle` what concerns several
    fields together: a copy by `msgspec.structs.replace` need not satisfy that.
    """

    where: ClassVar[str] = ""  # begins the dotted names of fields in errors
    hides: ClassVar[bool] = False  # errors do not repeat what was given, which may be a secret

    @classmethod
    def of(cls, given: Self | Mapping[str, object], field: str | None = None) -> Self:
        """The payload that a mapping describes.

        Args:
            given: fields and their values; a payload of this class is returned as it is.
            field: the dotted name of what is given, for errors.
        """
        try:
            made = msgspec.convert(given, cls)
        except msgspec.ValidationError:
            made = _read(cls, given, cls.where if field is None else field)
        made.settle()
        return made

    def settle(self) -> None:
        """Refuse values that each are fine, and not together."""

    def given(self) -> dict[str, object]:
        """The fields that differ from their defaults."""
        found = ((name, getattr(self, name), usual) for name, usual in defaults(type(self)).items())
        return {name: value for name, value, usual in found if value != usual and not (value == [] and usual == ())}


@cache
def defaults(kind: type[Payload]) -> dict[str, object]:
    """Defaults by field, `MISSING` where a field has none."""
    fields = msgspec.structs.fields(kind)
    made = (
        MISSING if f.required else f.default_factory() if f.default is msgspec.NODEFAULT else f.default for f in fields
    )
    return {field.name: one for field, one in zip(fields, made, strict=True)}


@cache
def readers(kind: type[Payload]) -> dict[str, Reader]:
    """How the fields of a payload are read in Python."""
    told: Any = msgspec.inspect.type_info(kind)
    return {field.name: reader(field.type) for field in told.fields}


def _read(kind: type[T], given: object, where: str) -> T:
    """The payload of values that C does not know, or the error that says what is wrong with them."""
    if not kind.hides:
        return _read_openly(kind, given, where)
    try:
        return _read_openly(kind, given, where)
    except InvalidInput as error:
        told = error.value if error.value is MISSING else Words("not acceptable")
        raise InvalidInput(error.field, told, error.accepted, error.meant) from None


def _read_openly(kind: type[T], given: object, where: str) -> T:
    if isinstance(given, Payload):
        given = msgspec.structs.asdict(given)
    if isinstance(given, Mapping) and any(hasattr(value, "tolist") for value in given.values()):
        # Arrays, and numbers of theirs.
        given = {name: value.tolist() if hasattr(value, "tolist") else value for name, value in given.items()}
        with suppress(msgspec.ValidationError):
            return msgspec.convert(given, kind)
    known, usual = readers(kind), defaults(kind)
    required = [name for name, value in usual.items() if value is MISSING]
    if not isinstance(given, Mapping):
        raise InvalidInput(where or "body", given, f"a mapping with {', '.join(known)}")
    made: dict[str, object] = {}
    for name, value in given.items():
        if name not in known:
            raise unknown_field(where, name, value, list(known))
        made[name] = known[name].read(f"{where}.{name}" if where else name, value)
    for name in required:
        if name not in made:
            needs = f"a value, since {where or 'it'} needs {', '.join(required)}"
            raise InvalidInput(f"{where}.{name}" if where else name, MISSING, needs)
    try:
        return msgspec.convert(made, kind)
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, InvalidInput):
            raise error.__cause__.within(where) from None
        raise InvalidInput(where or "body", Words("not acceptable"), str(error)) from None


def unchecked(kind: type[T], **fields: object) -> T:
    """A payload of values that were checked before, perhaps by an older version, as a log or a table has them."""
    made: T = StructMeta.__call__(kind, **fields)
    return made


class Decoder(Generic[T]):
    """Reads payloads of one class from JSON: in C, and where they are wrong once more, to say why."""

    def __init__(self, kind: type[T]) -> None:
        self._kind, self._decode = kind, msgspec.json.Decoder(kind).decode
        self.fast = self._decode if kind.settle is Payload.settle else self
        """Decodes a valid body, in C where the payload has no checks of several fields together."""

    def __call__(self, body: bytes) -> T:
        """The payload; InvalidInput where it is wrong, msgspec.DecodeError where the body is not JSON."""
        try:
            made = self._decode(body)
        except msgspec.ValidationError:
            made = _read(self._kind, self._plain(body), self._kind.where)
        made.settle()
        return made

    def _plain(self, body: bytes) -> object:
        """The body without a type; where that is no better, the error of the typed one."""
        try:
            return msgspec.json.decode(body)
        except (msgspec.DecodeError, RecursionError):
            return self._decode(body)
