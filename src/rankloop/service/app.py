"""The ASGI application: routes, their order, middleware and error handlers."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Lifespan

from rankloop.errors import RankloopError
from rankloop.schema.service_settings import ServiceSettings
from rankloop.service import dashboard, endpoints, methods, openapi, problems, routes
from rankloop.service.cross_site import MARK, CrossSiteGuard
from rankloop.service.problems import RequestRefused
from rankloop.service.service import Service
from rankloop.service.transport.connections import STATE_KEY, Connections
from rankloop.service.transport.descriptors import connection_limit, open_files
from rankloop.version import __version__

log = logging.getLogger("rankloop.service")
NO_TELEMETRY: Any = dict.fromkeys(("tracing", "metrics", "logs", "operation_spans", "auto_configure"), False)
"""The framework exports no telemetry, whatever the environment says: traces would contain visitors' behaviour."""


def create_app(settings: ServiceSettings, key_file: Path | None = None) -> FastAPI:
    """Return the service as an ASGI application; the log is opened now and closed when the application stops.

    Args:
        settings: of the service.
        key_file: the settings file; changes of the API keys in it take effect at once.
    """
    service = Service.open(settings, key_file)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, object]]:
        connections = _connections(service)
        try:
            async with connections.swept():
                yield {STATE_KEY: connections, "service": service}  # for the HTTP protocol
        finally:
            service.close()

    return application(service, lifespan)


def _connections(service: Service) -> Connections:
    """Return the connections of a server that starts now, with their metrics."""
    settings, metrics = service.settings.connections, service.metrics
    total = connection_limit(settings, open_files())
    connections = Connections(settings, total, lambda reason: metrics.closed_connections.labels(reason).inc())
    metrics.connections.set_function(lambda: len(connections))
    metrics.connection_limit.set(total)
    return connections


def application(service: Service, lifespan: Lifespan[FastAPI] | None = None) -> FastAPI:
    """Return the application of an open service."""
    app = FastAPI(
        title="rankloop",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
        telemetry=NO_TELEMETRY,
    )
    app.state.service = service
    visits: dict[str, endpoints.Endpoint] = {}
    for path, answer in zip(openapi.FREQUENT_ROUTES, (endpoints.rank, endpoints.feedback), strict=True):
        endpoint: Any = endpoints.Endpoint(service, path, answer)
        visits[answer.__name__] = endpoint
        app.router.routes.append(Route(path, endpoint, methods=["POST"], name=answer.__name__))
    for router in routes.routers(service):
        app.include_router(router)
    app.router.routes.extend(dashboard.routes())
    _add_error_handlers(app)
    guard = CrossSiteGuard(service.settings)
    app.add_middleware(
        endpoints.Requests,
        endpoints=visits,
        metrics=service.metrics,
        cross_site=guard,
        lanes=service.lanes,
        rankers=service.rankers,
    )
    if service.settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(service.settings.cors_origins),
            allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=["Authorization", "Content-Type", "Request-Deadline-Ms", MARK],
            expose_headers=["Retry-After"],
        )
    cached: dict[str, object] = {}

    def document() -> dict[str, object]:
        if not cached:
            cached.update(openapi.document(app))
        return cached

    app.openapi = document  # type: ignore[method-assign]
    return app


def _add_error_handlers(app: FastAPI) -> None:
    """Answer every error that is raised on purpose with a problem document."""

    @app.exception_handler(RequestRefused)
    async def refused(request: Request, error: RequestRefused) -> Response:
        return problems.response(error)

    @app.exception_handler(RankloopError)
    async def rankloop_error(request: Request, error: RankloopError) -> Response:
        return problems.response(problems.refused(error))

    @app.exception_handler(MemoryError)
    @app.exception_handler(ArithmeticError)
    async def uncomputable(request: Request, error: Exception) -> Response:
        return problems.response(problems.uncomputable())

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        if error.status_code == 405:
            error.headers = {"Allow": methods.allowed(request)}
            if request.method == "OPTIONS":
                return Response(status_code=204, headers=error.headers)
        detail = {404: "there is nothing at this address.", 405: "this address does not take this method."}
        words = detail.get(error.status_code, f"{str(error.detail).rstrip('.').lower()}.")
        return problems.response(RequestRefused(error.status_code, words, headers=error.headers))

    @app.exception_handler(RequestValidationError)
    async def invalid_parameter(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        field = ".".join(str(step) for step in first["loc"][1:]) or "request"
        return problems.response(
            RequestRefused(422, f"{field} is not acceptable: {first['msg'].lower()}.", field=field)
        )
