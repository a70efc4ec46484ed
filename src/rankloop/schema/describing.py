"""Every field of a payload in words: for the settings page and for people who ask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from rankloop.schema.base import Payload, defaults, readers


@dataclass(frozen=True)
class Described:
    """A field, as a page tells it."""

    name: str
    type: str  # as JSON has it
    default: str  # "required" where there is none
    accepted: str
    description: str


def described(kind: type[Payload]) -> list[Described]:
    """All fields of a payload, in their order."""
    usual, known = defaults(kind), readers(kind)
    _, components = msgspec.json.schema_components([kind])
    properties: dict[str, Any] = components[kind.__name__]["properties"]
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    return [
        Described(
            name,
            _type(properties[name]),
            "required" if field.required else _default(usual[name]),
            known[name].accepted,
            properties[name].get("description", ""),
        )
        for name, field in fields.items()
    ]


def _type(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_type(one) for one in schema["anyOf"])
    if "$ref" in schema:
        return "object"
    if "enum" in schema:
        return "text"
    name = str(schema.get("type", "any"))
    return {"string": "text", "array": "list", "object": "mapping"}.get(name, name)


def _default(value: object) -> str:
    if isinstance(value, Payload):
        return "see below"
    return msgspec.json.encode(value).decode()
