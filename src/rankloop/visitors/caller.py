"""A connection for the calls of `rankloop.client` over urllib3, which measured faster than httpx in threads."""

from __future__ import annotations

from typing import Self, TypeVar
from urllib.parse import urlencode

from rankloop.client import Call
from rankloop.client.errors import unreached
from rankloop.errors import MissingExtra

try:
    import httpx
    import urllib3
except ModuleNotFoundError:  # pragma: no cover
    raise MissingExtra("the visitors command", "serve") from None

T = TypeVar("T")
TIMEOUT_SECONDS = 10.0
"""Time limit of one request."""


class Caller:
    """Send calls to a service over one persistent connection; not thread-safe.

    Args:
        url: the base URL of the service.
        key: an API key, where the service needs one.
    """

    def __init__(self, url: str, key: str | None = None) -> None:
        self._pool = urllib3.connection_from_url(url, maxsize=1, timeout=TIMEOUT_SECONDS, retries=False)
        self._prefix = (urllib3.util.parse_url(url).path or "").rstrip("/")
        self._headers = {"Content-Type": "application/json"} | (
            {} if key is None else {"Authorization": f"Bearer {key}"}
        )

    def ask(self, call: Call[T]) -> T:
        """Send a call to the service and return its result, as `Client.ask` does."""
        path = self._prefix + call.path + (f"?{urlencode(call.query)}" if call.query else "")
        try:
            answer = self._pool.urlopen(call.method, path, body=call.content, headers=self._headers)
        except urllib3.exceptions.HTTPError as error:
            port = self._pool.port or (443 if self._pool.scheme == "https" else 80)
            raise unreached(self._pool.host, port, error) from None
        return call.result(httpx.Response(answer.status, content=answer.data))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.close()
