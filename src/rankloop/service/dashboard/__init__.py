"""The dashboard: pages that the service itself hands out. They hold no data and need no key; the API has both."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib.resources import files

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

PAGE, PATH = "index.html", "/dashboard/"
MEDIA = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",  # kept by the browser, and asked for again: names do not change with a new version
}


@dataclass(frozen=True)
class File:
    """A file of the dashboard."""

    body: bytes
    media: str
    tag: str

    def answer(self, known: str) -> Response:
        """The file, or that it is the one the browser has; `known` are the tags of those."""
        headers = HEADERS | {"ETag": self.tag}
        if known.strip() == "*" or self.tag in (one.strip().removeprefix("W/") for one in known.split(",")):
            return Response(status_code=304, headers=headers)
        return Response(self.body, headers=headers | {"Content-Type": self.media})


def load() -> dict[str, File]:
    """Every file by its name."""
    found = {}
    for file in files(__name__).iterdir():
        media = MEDIA.get(file.name.rpartition(".")[2])
        if media is not None:
            body = file.read_bytes()
            found[file.name] = File(body, media, f'"{hashlib.sha256(body).hexdigest()[:20]}"')
    return found


def routes() -> list[Route]:
    """The page, its files, and the way to it from the root. They are not part of the API and its document."""
    kept = load()

    async def show(request: Request) -> Response:
        file = kept.get(request.path_params.get("file", PAGE))
        if file is None:
            raise HTTPException(404)
        return file.answer(request.headers.get("if-none-match", ""))

    return [
        Route("/", _to("dashboard/"), include_in_schema=False),
        Route("/dashboard", _to("dashboard/"), include_in_schema=False),
        Route(PATH, show, include_in_schema=False),
        Route(PATH + "{file}", show, include_in_schema=False),
    ]


def _to(place: str) -> Callable[[Request], Awaitable[Response]]:
    """A redirect that is relative, so that it also leads there behind a proxy that puts something in front."""

    async def go(request: Request) -> Response:
        return Response(status_code=307, headers=HEADERS | {"Location": place})

    return go
