"""`Client` and `AsyncClient`: send calls to the service and return their results."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Concatenate, ParamSpec, Self, TypeVar

import httpx

from rankloop.client.calls import Call, Calls
from rankloop.client.errors import unreached
from rankloop.errors import Unavailable

T = TypeVar("T")
P = ParamSpec("P")
DEFAULT_URL = "http://127.0.0.1:8080"


def _sync(make: Callable[P, Call[T]]) -> Callable[Concatenate[Client, P], T]:
    """Return the method that sends a call and waits for its result."""

    @wraps(make)
    def method(self: Client, /, *args: P.args, **options: P.kwargs) -> T:
        return self.ask(make(*args, **options))

    return method


def _async(make: Callable[P, Call[T]]) -> Callable[Concatenate[AsyncClient, P], Coroutine[object, None, T]]:
    """Return the coroutine method that sends a call and awaits its result."""

    @wraps(make)
    async def method(self: AsyncClient, /, *args: P.args, **options: P.kwargs) -> T:
        return await self.ask(make(*args, **options))

    return method


def _unreached(url: httpx.URL, error: Exception) -> Unavailable:
    return unreached(url.host, url.port or 80, error)


def _headers(key: str | None) -> dict[str, str]:
    return {"Content-Type": "application/json"} | ({} if key is None else {"Authorization": f"Bearer {key}"})


def _media(call: Call[T]) -> dict[str, str]:
    return {"Content-Type": call.media}


class Client:
    """A client that blocks until the service responds. It is thread-safe.

    Args:
        url: address of the service.
        key: API key, if the service requires one.
        timeout: seconds to wait for a response.
    """

    def __init__(self, url: str = DEFAULT_URL, key: str | None = None, *, timeout: float = 10.0) -> None:
        self._http = httpx.Client(base_url=url, timeout=timeout, headers=_headers(key))

    def ask(self, call: Call[T]) -> T:
        """Send a call and return its result."""
        try:
            response = self._http.request(
                call.method, call.path, content=call.content, params=call.query, headers=_media(call)
            )
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise _unreached(self._http.base_url, error) from None
        return call.result(response)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    rank = _sync(Calls.rank)
    rank_many = _sync(Calls.rank_many)
    feedback = _sync(Calls.feedback)
    feedback_bulk = _sync(Calls.feedback_bulk)
    withdraw = _sync(Calls.withdraw)
    token = _sync(Calls.token)
    decision = _sync(Calls.decision)
    report = _sync(Calls.report)
    overview = _sync(Calls.overview)
    segments = _sync(Calls.segments)
    slot_counts = _sync(Calls.slot_counts)
    diagnosis = _sync(Calls.diagnosis)
    items = _sync(Calls.items)
    item = _sync(Calls.item)
    put_items = _sync(Calls.put_items)
    upload_items = _sync(Calls.upload_items)
    remove_item = _sync(Calls.remove_item)
    rankers = _sync(Calls.rankers)
    ranker = _sync(Calls.ranker)
    put_ranker = _sync(Calls.put_ranker)
    patch_ranker = _sync(Calls.patch_ranker)
    history = _sync(Calls.history)
    put_challenger = _sync(Calls.put_challenger)
    challenger = _sync(Calls.challenger)
    discard_challenger = _sync(Calls.discard_challenger)
    promote = _sync(Calls.promote)
    reset_guardrail = _sync(Calls.reset_guardrail)
    delete_ranker = _sync(Calls.delete_ranker)


class AsyncClient:
    """The same client for asyncio: every method is a coroutine."""

    def __init__(self, url: str = DEFAULT_URL, key: str | None = None, *, timeout: float = 10.0) -> None:
        self._http = httpx.AsyncClient(base_url=url, timeout=timeout, headers=_headers(key))

    async def ask(self, call: Call[T]) -> T:
        """Send a call and return its result."""
        try:
            response = await self._http.request(
                call.method, call.path, content=call.content, params=call.query, headers=_media(call)
            )
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise _unreached(self._http.base_url, error) from None
        return call.result(response)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    rank = _async(Calls.rank)
    rank_many = _async(Calls.rank_many)
    feedback = _async(Calls.feedback)
    feedback_bulk = _async(Calls.feedback_bulk)
    withdraw = _async(Calls.withdraw)
    token = _async(Calls.token)
    decision = _async(Calls.decision)
    report = _async(Calls.report)
    overview = _async(Calls.overview)
    segments = _async(Calls.segments)
    slot_counts = _async(Calls.slot_counts)
    diagnosis = _async(Calls.diagnosis)
    items = _async(Calls.items)
    item = _async(Calls.item)
    put_items = _async(Calls.put_items)
    upload_items = _async(Calls.upload_items)
    remove_item = _async(Calls.remove_item)
    rankers = _async(Calls.rankers)
    ranker = _async(Calls.ranker)
    put_ranker = _async(Calls.put_ranker)
    patch_ranker = _async(Calls.patch_ranker)
    history = _async(Calls.history)
    put_challenger = _async(Calls.put_challenger)
    challenger = _async(Calls.challenger)
    discard_challenger = _async(Calls.discard_challenger)
    promote = _async(Calls.promote)
    reset_guardrail = _async(Calls.reset_guardrail)
    delete_ranker = _async(Calls.delete_ranker)
