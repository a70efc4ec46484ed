"""Describes every field of a payload in words, for the settings reference and the command line."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from rankloop.schema.base import Payload, field_defaults, field_readers


@dataclass(frozen=True)
class FieldDescription:
    """One field of a payload as a reference page shows it."""

    name: str
    type: str  # a JSON type in words
    default: str  # JSON, or "required"
    accepted: str  # values that are accepted, in words
    description: str


class Schema(msgspec.Struct):
    """The part of a JSON schema that states the type of a field."""

    type: str = "any"
    any_of: list[Schema] = msgspec.field(name="anyOf", default_factory=list)
    ref: str = msgspec.field(name="$ref", default="")
    enum: list[str] = []
    description: str = ""


def describe_fields(kind: type[Payload]) -> list[FieldDescription]:
    """Return the descriptions of all fields of a payload, in their order."""
    default, reader = field_defaults(kind), field_readers(kind)
    _, components = msgspec.json.schema_components([kind])
    properties = msgspec.convert(components[kind.__name__]["properties"], dict[str, Schema])
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    return [
        FieldDescription(
            name,
            _type(properties[name]),
            "required" if field.required else _default(default[name]),
            reader[name].accepted,
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
