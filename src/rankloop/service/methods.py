"""Which methods an address takes: the framework itself names those of one route only."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.requests import Request
from starlette.routing import Match

ROUTED_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


def allowed(request: Request) -> str:
    """Return the value of the Allow header for the address of a request, over all routes."""
    app: FastAPI = request.app
    taken = [method for method in ROUTED_METHODS if _is_taken(app, request, method)]
    return ", ".join([*taken, *(["HEAD"] if "GET" in taken else []), "OPTIONS"])


def _is_taken(app: FastAPI, request: Request, method: str) -> bool:
    scope = {
        "type": "http",
        "method": method,
        "path": request.scope["path"],
        "root_path": request.scope.get("root_path", ""),
        "headers": [],
    }
    return any(route.matches(dict(scope))[0] is Match.FULL for route in app.router.routes)
