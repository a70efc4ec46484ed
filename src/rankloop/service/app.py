"""The application: routes, their order, and what happens around each of them."""

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
SILENT: Any = dict.fromkeys(("tracing", "metrics", "logs", "operation_spans", "auto_configure"), False)
"""The framework sends nothing anywhere, whatever its environment says: traces would carry what visitors did."""


def create_app(settings: ServiceSettings) -> FastAPI:
    """The service as an ASGI application; the log is opened now and closed when the application ends."""
    service = Service.open(settings)

    @asynccontextmanager
    async def until_the_end(app: FastAPI) -> AsyncIterator[None]:
        yield
        service.close()

    return application(service, until_the_end)


def application(service: Service, lifespan: Lifespan[FastAPI] | None = None) -> FastAPI:
    """The application of an open service."""
    app = FastAPI(
        title="rankloop",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
        telemetry=SILENT,
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
    _tell_problems(app)
    app.add_middleware(endpoints.Requests, endpoints=visits, metrics=service.metrics)
    if service.settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(service.settings.cors_origins),
            allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=["Authorization", "Content-Type"],
        )
    made: dict[str, object] = {}

    def document() -> dict[str, object]:
        if not made:
            made.update(openapi.document(app))
        return made

    app.openapi = document  # type: ignore[method-assign]
    return app


def _tell_problems(app: FastAPI) -> None:
    """Let the application answer errors that are raised on purpose with a problem, each of them."""

    @app.exception_handler(RequestRefused)
    async def refused(request: Request, error: RequestRefused) -> Response:
        return problems.response(error)

    @app.exception_handler(RankloopError)
    async def known(request: Request, error: RankloopError) -> Response:
        return problems.response(problems.refused(error))

    @app.exception_handler(MemoryError)
    @app.exception_handler(ArithmeticError)
    async def uncomputable(request: Request, error: Exception) -> Response:
        return problems.response(problems.uncomputable())

    @app.exception_handler(HTTPException)
    async def by_the_framework(request: Request, error: HTTPException) -> Response:
        detail = {404: "there is nothing at this address.", 405: "this address does not take this method."}
        told = detail.get(error.status_code, f"{str(error.detail).rstrip('.').lower()}.")
        return problems.response(RequestRefused(error.status_code, told, headers=error.headers))

    @app.exception_handler(RequestValidationError)
    async def parameters(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        field = ".".join(str(step) for step in first["loc"][1:]) or "request"
        return problems.response(
            RequestRefused(422, f"{field} is not acceptable: {first['msg'].lower()}.", field=field)
        )
