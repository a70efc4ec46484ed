"""docs/reference/endpoints.md: every HTTP route, from the OpenAPI document and the application's own answers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import httpx
from fastapi import FastAPI

from rankloop.service.cross_site import MARK
from tools.reference.markdown import code, escaped, page, sentence, table
from tools.reference.service import ROLES, application

Schema = Mapping[str, Any]
METHODS = ("get", "post", "put", "patch", "delete")


@dataclass(frozen=True)
class Endpoint:
    """One method of one path."""

    method: str
    path: str
    operation: Schema
    roles: tuple[str, ...] = field(default=())  # that may call it; empty: no key is needed

    @property
    def title(self) -> str:
        """Return method and path."""
        return f"{self.method} {self.path}"

    @property
    def anchor(self) -> str:
        """Return the fragment of its heading."""
        return re.sub(r"[^\w\s-]", "", self.title.lower()).replace(" ", "-")


@cache
def endpoints() -> tuple[list[Endpoint], Schema]:
    """Return all endpoints of the service and the schemas of their bodies and answers."""
    with application() as app:
        document = app.openapi()
        found = [
            Endpoint(method.upper(), path, operations[method])
            for path, operations in document["paths"].items()
            for method in METHODS
            if method in operations
        ]
        roles = asyncio.run(_roles(app, found))
    ordered = [
        Endpoint(one.method, one.path, one.operation, admitted) for one, admitted in zip(found, roles, strict=True)
    ]
    return ordered, document["components"]["schemas"]


async def _roles(app: FastAPI, found: list[Endpoint]) -> list[tuple[str, ...]]:
    """Return the roles that each endpoint admits, by calling it for a ranker that does not exist with each key."""
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:

        async def status(one: Endpoint, key: str) -> int:
            headers = {MARK: "1"} | ({"Authorization": f"Bearer {key}"} if key else {})
            return (await client.request(one.method, re.sub(r"\{.*?\}", "none", one.path), headers=headers)).status_code

        result: list[tuple[str, ...]] = []
        for one in found:
            if await status(one, "") != 401:
                result.append(())
                continue
            result.append(tuple([role for role in ROLES if await status(one, role) != 403]))
        return result


def endpoints_page() -> str:
    """Return the page of endpoints: role, parameters, body, answers and statuses of each."""
    found, schemas = endpoints()
    intro = [
        "A running service gives the same as an OpenAPI document at `GET /openapi.json`. Keys are sent as",
        "`Authorization: Bearer KEY`; a key with the role `admin` may call everything. Refusals are problems in JSON",
        "(`application/problem+json`) with a sentence that says what is accepted.",
        "",
    ]
    rows = [(f"[`{one.title}`](#{one.anchor})", _role(one), _summary(one)) for one in found]
    parts = [_endpoint(one, schemas) for one in found]
    used = sorted({name for one in found for name in _named(one.operation)} & set(schemas))
    types = [["## Types", ""], *(_type(name, schemas[name]) for name in used)]
    return page(
        "HTTP endpoints",
        "the service's OpenAPI document",
        intro,
        table(("endpoint", "role", "what it does"), rows),
        *parts,
        *types,
    )


def _role(one: Endpoint) -> str:
    """Return the least role that may call an endpoint."""
    return ", ".join(code(role) for role in one.roles if role != "admin" or len(one.roles) == 1) or "none"


def _summary(one: Endpoint) -> str:
    text = str(one.operation.get("description") or one.operation.get("summary") or "")
    return sentence(escaped(text.split("\n\n")[0]))


def _endpoint(one: Endpoint, schemas: Schema) -> Iterator[str]:
    yield from (f"## {one.title}", "", _summary(one), "", f"Role: {_role(one)}.", "")
    if parameters := one.operation.get("parameters"):
        rows = (
            (
                code(given["name"]),
                given["in"],
                _kind(given["schema"]),
                "required" if given.get("required") else code(str(given["schema"].get("default", ""))),
                _limits(given["schema"]),
            )
            for given in parameters
        )
        yield from (*table(("parameter", "in", "type", "default", "accepted"), rows), "")
    if body := one.operation.get("requestBody"):
        yield from (f"Body: {_content(body)}.", "")
    answers = ((status, _content(answer), sentence(answer.get("description", ""))) for status, answer in _answers(one))
    yield from table(("status", "answer", "meaning"), answers)


def _answers(one: Endpoint) -> list[tuple[str, Schema]]:
    return sorted(one.operation["responses"].items())


def _content(described: Schema) -> str:
    kinds = [_kind(media["schema"]) for media in described.get("content", {}).values() if "schema" in media]
    return ", ".join(kinds)


def _named(schema: object) -> Iterator[str]:
    """Yield the names of schemas that an operation refers to directly."""
    if isinstance(schema, Mapping):
        if "$ref" in schema:
            yield str(schema["$ref"]).rsplit("/", 1)[-1]
        for inner in schema.values():
            yield from _named(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from _named(inner)


def _kind(schema: Schema) -> str:
    """Return a type in words, with links to the types below."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        return f"[`{name}`](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_kind(one) for one in schema["anyOf"]))
    if "enum" in schema:
        return " or ".join(code(str(one)) for one in schema["enum"])
    if schema.get("type") == "array":
        return "list of " + _kind(schema.get("items") or {}) if isinstance(schema.get("items"), Mapping) else "list"
    kind = schema.get("type", "any")
    return {"string": "text", "object": "mapping"}.get(kind, str(kind))


def _limits(schema: Schema) -> str:
    words = [f"≥ {schema['minimum']}"] if "minimum" in schema else []
    words += [f"> {schema['exclusiveMinimum']}"] if "exclusiveMinimum" in schema else []
    words += [f"≤ {schema['maximum']}"] if "maximum" in schema else []
    words += [f"at most {schema['maxLength']} characters"] if "maxLength" in schema else []
    return ", ".join(words)


def _type(name: str, schema: Schema) -> Iterator[str]:
    yield from (f"### {name}", "", sentence(escaped(str(schema.get("description", "")).split("\n\n")[0])), "")
    properties: Schema = schema.get("properties", {})
    required = schema.get("required", ())
    rows = (
        (
            code(key),
            "any of the [policies](policies.md)" if len(one.get("enum", ())) > 12 else _flat(one),
            "yes" if key in required else "no",
            sentence(escaped(str(one.get("description", "")))),
        )
        for key, one in properties.items()
    )
    yield from table(("field", "type", "required", "meaning"), rows)


def _flat(schema: Schema) -> str:
    """Return a type in words without links to types that have no section."""
    return re.sub(r"\[(`\w+`)\]\(#\w+\)", r"\1", _kind(schema))
