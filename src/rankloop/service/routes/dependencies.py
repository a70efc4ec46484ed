"""What routes share: permission checks, request bodies and query parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

import msgspec
from fastapi import Depends, Query, Request
from fastapi.params import Depends as Dependency

from rankloop.schema import Item
from rankloop.service import endpoints
from rankloop.service.access.auth import AccessControl
from rankloop.service.item_uploads import DECODERS, JSON
from rankloop.service.service import Service

T = TypeVar("T")
Fields = dict[str, object]
decode_fields: Callable[[bytes], Fields] = msgspec.json.Decoder(dict[str, Any]).decode
Limit = Annotated[int, Query(ge=1, le=10_000, description="Maximum number of entries to return.")]
Offset = Annotated[int, Query(ge=0, le=10**9, description="Number of entries to skip.")]
MaxAge = Annotated[
    float,
    Query(ge=0, le=60, allow_inf_nan=False, description="Maximum age in seconds of a cached answer; 0 uses no cache."),
]


def requires(access: AccessControl, role: str | None, *parameters: str) -> Dependency:
    """Return the dependency that refuses keys without the role, and query parameters other than these.

    Args:
        access: the service's access control.
        role: the role that is required; None admits every caller.
        parameters: names of the query parameters that the route reads.
    """

    async def admit(request: Request) -> None:
        if role is not None:
            ranker = request.path_params.get("name")
            request.state.by = access.admit(dict(request.scope["headers"]), role, ranker)
        endpoints.refuse_parameters(request.scope["query_string"], parameters)

    return Dependency(admit)


def decoded_items(service: Service) -> Sequence[Item]:
    """Return the default of a route's parameter that takes items: FastAPI replaces it with those of the body."""

    async def read(request: Request) -> Sequence[Item]:
        headers, limit = dict(request.scope["headers"]), service.limits.body
        body = await endpoints.read_body(headers, request.receive, limit, DECODERS)
        media = endpoints.media_of(headers)
        request.state.body = body if media == JSON else b""  # for the audit log
        items = await endpoints.decode_anywhere(DECODERS[media], body)
        if media == JSON:
            endpoints.at_most("items", items, service.limits.list)
        return items

    parameter: Sequence[Item] = Depends(read)
    return parameter


def decoded_body(decoder: Callable[[bytes], T], service: Service) -> T:
    """Return the default of a route's parameter: FastAPI replaces it with the decoded body of the request."""

    async def read(request: Request) -> T:
        body = await endpoints.read_body(dict(request.scope["headers"]), request.receive, service.limits.body)
        request.state.body = body  # for the audit log
        return await endpoints.decode_anywhere(decoder, body)

    parameter: T = Depends(read)
    return parameter
