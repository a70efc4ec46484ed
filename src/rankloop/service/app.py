"""The ASGI application: routes, their order, middleware and error handlers."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
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
from rankloop.service import dashboard, endpoints, openapi, problems, routes
from rankloop.service.problems import RequestRefused
from rankloop.service.service import Service
from rankloop.version import __version__

log = logging.getLogger("rankloop.service")
NO_TELEMETRY: Any = dict.fromkeys(("tracing", "metrics", "logs", "operation_spans", "auto_configure"), False)
"""The framework exports no telemetry, whatever the environment says: traces would contain visitors' behaviour."""


def create_app(settings: ServiceSettings) -> FastAPI:
    """Return the service as an ASGI application; the log is opened now and closed when the application stops."""
    service = Service.open(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, Service]]:
        yield {"service": service}  # for the HTTP protocol, which admits requests
        service.close()

    return application(service, lifespan)


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
    app.add_middleware(endpoints.Requests, endpoints=visits, metrics=service.metrics, lanes=service.lanes)
    if service.settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(service.settings.cors_origins),
            allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=["Authorization", "Content-Type"],
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
