"""Clients of the service: `Client`, which blocks, and `AsyncClient` for asyncio. Needs no NumPy.

>>> with Client("http://127.0.0.1:8080") as service:  # doctest: +SKIP
...     ranking = service.rank("news", k=3)
...     service.feedback("news", ranking.id, clicked=[0])
"""

from rankloop.errors import (
    Conflict,
    InvalidInput,
    MissingExtra,
    NotAllowed,
    NotFound,
    ServiceError,
    TooMany,
    Unavailable,
)

try:
    import httpx as _httpx  # noqa: F401
except ModuleNotFoundError:  # pragma: no cover
    raise MissingExtra("the client", "serve") from None

from rankloop.client.calls import Call, Calls
from rankloop.client.clients import DEFAULT_URL, AsyncClient, Client
from rankloop.schema import RankAnswer

__all__ = [
    "DEFAULT_URL",
    "AsyncClient",
    "Call",
    "Calls",
    "Client",
    "Conflict",
    "InvalidInput",
    "NotAllowed",
    "NotFound",
    "RankAnswer",
    "ServiceError",
    "TooMany",
    "Unavailable",
]
