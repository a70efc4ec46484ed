"""Routes whose requests are recorded in the audit log."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable, Collection, Coroutine
from typing import Any

import msgspec
from anyio import CancelScope
from anyio.to_thread import run_sync
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from rankloop.errors import RankloopError
from rankloop.service.access.audit import AuditRecord
from rankloop.service.problems import UNCOMPUTABLE, RequestRefused
from rankloop.service.service import Service

READING = frozenset({"GET", "HEAD", "OPTIONS"})
MAX_FIELDS, MAX_NAME_LENGTH = 100, 100
NOT_ADMITTED = ""
CLOSED_BY_CLIENT = 499
"""Status of a request whose client did not wait for the answer."""
Handler = Callable[[Request], Coroutine[Any, Any, Response]]
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class AuditedRoute(APIRoute):
    """A route that records each request that reaches it, also a refused one, unless it only reads."""

    def get_route_handler(self) -> Handler:
        """Return the handler of the route, with one record for each request."""
        handle: Handler = super().get_route_handler()
        if (self.methods or set()) <= READING:
            return handle
        path = self.path

        async def audited(request: Request) -> Response:
            service: Service = request.app.state.service
            await run_sync(service.audit.require_writable)
            request.state.by, request.state.body = NOT_ADMITTED, b""  # until the request is admitted and read
            status, refused_key = 500, None
            try:
                response = await handle(request)
                status = response.status_code
                return response
            except RequestRefused as error:
                status, refused_key = error.status, error.by
                raise
            except RankloopError as error:
                status = error.status
                raise
            except HTTPException as error:
                status = error.status_code
                raise
            except (RequestValidationError, *UNCOMPUTABLE):
                status = 422
                raise
            except (CancelledError, ClientDisconnect):
                status = CLOSED_BY_CLIENT
                raise
            finally:
                with CancelScope(shield=True):
                    await run_sync(service.audit.record, _record(request, path, status, refused_key))

        return audited


def _record(request: Request, path: str, status: int, refused_key: str | None) -> AuditRecord:
    by = request.state.by
    return AuditRecord(
        by=refused_key if by == NOT_ADMITTED else by or "local",
        address=None if request.client is None else request.client.host,
        action=f"{request.method} {path}",
        ranker=_brief(request.path_params.get("name")),
        item=_brief(request.path_params.get("id")),
        fields=_field_names(request.state.body),
        status=status,
    )


def _field_names(body: bytes) -> Collection[str]:
    """Return the names of a body's fields, without their values."""
    try:
        return [name[:MAX_NAME_LENGTH] for name in sorted(_fields(body))[:MAX_FIELDS]]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ()


def _brief(value: str | None) -> str | None:
    return None if value is None else value[:MAX_NAME_LENGTH]
