"""Serve the dashboard: static files without data and without authentication. The API holds the data and checks keys."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib.resources import files

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

INDEX_FILE, PATH = "index.html", "/dashboard/"
MEDIA_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",  # browsers revalidate by ETag, because a new version keeps the file names
}


@dataclass(frozen=True)
class StaticFile:
    """One file of the dashboard with its media type and entity tag."""

    body: bytes
    media_type: str
    etag: str

    def response(self, if_none_match: str) -> Response:
        """Return the file, or status 304 if the `If-None-Match` header names its entity tag."""
        headers = HEADERS | {"ETag": self.etag}
        tags = (tag.strip().removeprefix("W/") for tag in if_none_match.split(","))
        if if_none_match.strip() == "*" or self.etag in tags:
            return Response(status_code=304, headers=headers)
        return Response(self.body, headers=headers | {"Content-Type": self.media_type})


def load() -> dict[str, StaticFile]:
    """Return every file of the dashboard by name."""
    loaded = {}
    for file in files(__name__).iterdir():
        media_type = MEDIA_TYPES.get(file.name.rpartition(".")[2])
        if media_type is not None:
            body = file.read_bytes()
            loaded[file.name] = StaticFile(body, media_type, f'"{hashlib.sha256(body).hexdigest()[:20]}"')
    return loaded


def routes() -> list[Route]:
    """Return the routes of the page, its files and the redirects to it; none is part of the OpenAPI document."""
    loaded = load()

    async def serve_file(request: Request) -> Response:
        file = loaded.get(request.path_params.get("file", INDEX_FILE))
        if file is None:
            raise HTTPException(404)
        return file.response(request.headers.get("if-none-match", ""))

    return [
        Route("/", _redirect_to("dashboard/"), include_in_schema=False),
        Route("/dashboard", _redirect_to("dashboard/"), include_in_schema=False),
        Route(PATH, serve_file, include_in_schema=False),
        Route(PATH + "{file}", serve_file, include_in_schema=False),
    ]


def _redirect_to(location: str) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint that redirects to a relative location, so that it works behind a proxy with a path prefix."""

    async def redirect(request: Request) -> Response:
        return Response(status_code=307, headers=HEADERS | {"Location": location})

    return redirect
