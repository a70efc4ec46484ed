"""Every field of a payload in words: for the settings page and for people who ask."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from rankloop.schema.base import Payload, defaults, readers


@dataclass(frozen=True)
class FieldDescription:
    """A field, as a page tells it."""

    name: str
    type: str  # as JSON has it
    default: str  # "required" where there is none
    accepted: str
    description: str


class Schema(msgspec.Struct):
    """The part of a JSON schema that says of which type a field is."""

    type: str = "any"
    any_of: list[Schema] = msgspec.field(name="anyOf", default_factory=list)
    ref: str = msgspec.field(name="$ref", default="")
    enum: list[str] = []
    description: str = ""


def described(kind: type[Payload]) -> list[FieldDescription]:
    """All fields of a payload, in their order."""
    usual, known = defaults(kind), readers(kind)
    _, components = msgspec.json.schema_components([kind])
    properties = msgspec.convert(components[kind.__name__]["properties"], dict[str, Schema])
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    return [
        FieldDescription(
            name,
            _type(properties[name]),
            "required" if field.required else _default(usual[name]),
            known[name].accepted,
            properties[name].description,
        )
        for name, field in fields.items()
    ]


def _type(schema: Schema) -> str:
    if schema.any_of:
        return " or ".join(_type(one) for one in schema.any_of)
    if schema.ref:
        return "object"
    if schema.enum:
        return "text"
    return {"string": "text", "array": "list", "object": "mapping"}.get(schema.type, schema.type)


def _default(value: object) -> str:
    if isinstance(value, Payload):
        return "see below"
    return msgspec.json.encode(value).decode()
