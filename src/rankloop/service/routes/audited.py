"""Routes whose requests are recorded in the audit log."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import Any

from anyio.to_thread import run_sync
from fastapi import Request, Response
from fastapi.routing import APIRoute

from rankloop.schema import Payload
from rankloop.service.audit import AuditRecord
from rankloop.service.problems import RequestRefused, status_of
from rankloop.service.service import Service

READING = frozenset({"GET", "HEAD", "OPTIONS"})
MAX_FIELDS, MAX_NAME_LENGTH = 100, 100
CLOSED_BY_CLIENT = 499
"""Status of a request whose client did not wait for the answer."""
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class AuditedRoute(APIRoute):
    """A route that records each request, also a refused one, unless it only reads."""

    def get_route_handler(self) -> Handler:
        """Return the handler of the route, with one record for each request."""
        handle: Handler = super().get_route_handler()
        if (self.methods or set()) <= READING:
            return handle
        path = self.path

        async def audited(request: Request) -> Response:
            service: Service = request.app.state.service
            await run_sync(service.audit.require_writable)
            try:
                response = await handle(request)
            except Exception as error:
                refused_by = error.by if isinstance(error, RequestRefused) else None
                await run_sync(service.audit.record, _record(request, path, status_of(error), refused_by))
                raise
            except BaseException:  # cancelled: nothing can be awaited
                service.audit.record(_record(request, path, CLOSED_BY_CLIENT, None))
                raise
            await run_sync(service.audit.record, _record(request, path, response.status_code, None))
            return response

        return audited


def _record(request: Request, path: str, status: int, refused_by: str | None) -> AuditRecord:
    is_admitted = hasattr(request.state, "by")
    return AuditRecord(
        by=(request.state.by or "local") if is_admitted else refused_by,
        address=None if request.client is None else request.client.host,
        action=f"{request.method} {path}",
        ranker=_brief(request.path_params.get("name")),
        item=_brief(request.path_params.get("id")),
        fields=_field_names(getattr(request.state, "body", None)),
        status=status,
    )


def _field_names(body: object) -> Collection[str]:
    if isinstance(body, Payload):
        body = body.non_default_fields()
    return [str(name)[:MAX_NAME_LENGTH] for name in sorted(body)[:MAX_FIELDS]] if isinstance(body, Mapping) else ()


def _brief(value: str | None) -> str | None:
    return None if value is None else value[:MAX_NAME_LENGTH]
