"""A small client of the service, sync and async.

>>> with Client("http://127.0.0.1:8080") as service:  # doctest: +SKIP
...     ranking = service.rank("news", k=3)
...     service.feedback("news", ranking.id, clicked=[0])
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar
from urllib.parse import quote

from rankloop.engine import Item, Listed, Receipt
from rankloop.errors import MissingExtra, RankloopError

try:
    import httpx
except ModuleNotFoundError:  # pragma: no cover
    raise MissingExtra("the client", "serve") from None

T = TypeVar("T")
P = ParamSpec("P")
URL = "http://127.0.0.1:8080"


class ServiceError(RankloopError):
    """The service refused; the sentence is its own."""

    def __init__(self, detail: str, status: int = 0, field: str | None = None) -> None:
        self.status, self.field = status, field
        super().__init__(detail)

    def __reduce__(self) -> tuple[type[ServiceError], tuple[str, int, str | None]]:
        return type(self), (str(self), self.status, self.field)


class NotAccepted(ServiceError):
    """Something that was given is wrong (400, 413, 415, 422)."""


class NotAllowed(ServiceError):
    """No key, a wrong one, or one without the role (401, 403)."""


class NotFound(ServiceError):
    """No such ranker, item or decision (404)."""


class TooMany(ServiceError):
    """Too many requests (429); try again a little later."""


class Unavailable(ServiceError):
    """The service cannot be reached, or cannot keep anything now (503); try again."""


ERRORS: dict[int, type[ServiceError]] = {
    400: NotAccepted, 401: NotAllowed, 403: NotAllowed, 404: NotFound, 413: NotAccepted,
    415: NotAccepted, 422: NotAccepted, 429: TooMany, 503: Unavailable,
}  # fmt: skip


@dataclass(frozen=True)
class Ranking:
    """A decided list, as the service told it."""

    id: str
    segment: str
    policy: str
    arm: str  # policy, or control: your own order
    items: tuple[Listed, ...]
    propensity: Mapping[str, Any] | None = None

    @property
    def ids(self) -> tuple[str, ...]:
        """The items in order."""
        return tuple(listed.item for listed in self.items)


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request, and how its answer is read."""

    method: str
    path: str
    read: Callable[[Any], T]
    body: Any = None
    query: Mapping[str, Any] | None = None

    def result(self, response: httpx.Response) -> T:
        """The answer, or the service's refusal as an error."""
        if response.is_success:
            return self.read(response.json() if response.content else None)
        try:
            told = response.json()
            detail, field = str(told["detail"]), told.get("field")
        except (ValueError, KeyError, TypeError, AttributeError):
            detail, field = f"the service answered with status {response.status_code}.", None
        raise ERRORS.get(response.status_code, ServiceError)(detail, response.status_code, field)


def _at(ranker: str, *rest: str) -> str:
    return "/".join(["/v1/rankers", quote(ranker, safe=""), *(quote(step, safe="") for step in rest)])


def _set(body: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """What was given, arrays and tuples as JSON has them."""
    plain: dict[str, Any] = {}
    for name, value in {**body, **more}.items():
        if isinstance(value, Mapping):
            plain[name] = {str(key): one for key, one in value.items()}
        elif value is not None:
            plain[name] = list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
    return plain


def _ranking(told: Any) -> Ranking:
    listed = tuple(Listed(**{name: one[name] for name in Listed._fields}) for one in told["items"])
    return Ranking(told["decision"], told["segment"], told["policy"], told["arm"], listed, told["propensity"])


def _receipt(told: Any) -> Receipt:
    return Receipt(told["decision"], told["status"])


def _item(told: Any) -> Item:
    features, coverage = (None if one is None else tuple(one) for one in (told["features"], told["coverage"]))
    return Item(told["id"], features, told["price"], told["enabled"], None, coverage)


def _same(told: Any) -> dict[str, Any]:
    return dict(told)


def _nothing(told: Any) -> None:
    return None


class Calls:
    """Every question that can be put to the service, as a call."""

    @staticmethod
    def rank(
        ranker: str,
        *,
        k: int | None = None,
        budget: int | None = None,
        context: Sequence[float] | None = None,
        candidates: Sequence[str] | None = None,
        exclude: Sequence[str] | None = None,
        pin: Mapping[int, str] | None = None,
        segment: str | None = None,
        propensity: int | None = None,
        order: Sequence[str] | None = None,
        visitor: str | None = None,
    ) -> Call[Ranking]:
        """Decide a list; see `Ranker.rank` for what can be asked."""
        body = {"k": k, "budget": budget, "context": context, "candidates": candidates, "exclude": exclude, "pin": pin}
        more = {"segment": segment, "propensity": propensity, "order": order, "visitor": visitor}
        return Call("POST", _at(ranker, "rank"), _ranking, _set(body, **more))

    @staticmethod
    def feedback(
        ranker: str,
        decision: str,
        *,
        clicked: Sequence[int] | None = None,
        items: Sequence[str] | None = None,
        values: Mapping[int | str, float] | Sequence[float] | None = None,
        event: str | None = None,
        final: bool | None = None,
        regret: float | None = None,
    ) -> Call[Receipt]:
        """Tell what happened to a list; see `Ranker.feedback_soon`."""
        body = {"decision": decision, "clicked": clicked, "items": items, "values": values}
        return Call("POST", _at(ranker, "feedback"), _receipt, _set(body, event=event, final=final, regret=regret))

    @staticmethod
    def feedback_bulk(ranker: str, events: Sequence[Mapping[str, Any]]) -> Call[list[dict[str, Any]]]:
        """What happened to many lists; each event is taken or refused by itself."""
        return Call("POST", _at(ranker, "feedback", "bulk"), lambda t: list(t["results"]), {"events": list(events)})

    @staticmethod
    def withdraw(ranker: str, decision: str) -> Call[Receipt]:
        """A list was never shown."""
        return Call("POST", _at(ranker, "withdraw"), _receipt, {"decision": decision})

    @staticmethod
    def decision(ranker: str, decision: str) -> Call[dict[str, Any]]:
        """What was shown and why, and what happened."""
        return Call("GET", _at(ranker, "decisions", decision), _same)

    @staticmethod
    def report(ranker: str, **query: Any) -> Call[dict[str, Any]]:
        """How it does, and its items: segment, sort, order, search, hours, limit, offset, age."""
        return Call("GET", _at(ranker, "report"), _same, query=query)

    @staticmethod
    def overview(ranker: str, **query: Any) -> Call[dict[str, Any]]:
        """How it does, as of a second ago at most, for those who ask again and again: hours, points."""
        return Call("GET", _at(ranker, "overview"), lambda t: dict(t["overview"]), query=query)

    @staticmethod
    def segments(ranker: str) -> Call[list[str]]:
        """The segments that have a learner."""
        return Call("GET", _at(ranker, "segments"), lambda t: list(t["segments"]))

    @staticmethod
    def places(ranker: str, **query: Any) -> Call[list[dict[str, Any]]]:
        """How often the items shown most stood in each place: limit, age."""
        return Call("GET", _at(ranker, "places"), lambda t: list(t["items"]), query=query)

    @staticmethod
    def diagnosis(ranker: str) -> Call[dict[str, Any]]:
        """Which items it favours, what exploring costs, and whether visitors click as it assumes."""
        return Call("GET", _at(ranker, "diagnosis"), _same)

    @staticmethod
    def items(ranker: str, **query: Any) -> Call[list[Item]]:
        """Items in the order in which they were added: limit, offset."""
        return Call("GET", _at(ranker, "items"), lambda t: [_item(one) for one in t["items"]], query=query)

    @staticmethod
    def item(ranker: str, id: str) -> Call[Item]:
        """One item."""
        return Call("GET", _at(ranker, "items", id), _item)

    @staticmethod
    def put_items(ranker: str, items: Sequence[Mapping[str, Any]]) -> Call[None]:
        """Add or change items: all of them, or none."""
        return Call("PUT", _at(ranker, "items"), _nothing, {"items": list(items)})

    @staticmethod
    def remove_item(ranker: str, id: str) -> Call[None]:
        """Never list an item again."""
        return Call("DELETE", _at(ranker, "items", id), _nothing)

    @staticmethod
    def rankers() -> Call[list[dict[str, Any]]]:
        """All rankers."""
        return Call("GET", "/v1/rankers", lambda t: list(t["rankers"]))

    @staticmethod
    def ranker(ranker: str) -> Call[dict[str, Any]]:
        """One ranker: its settings, and how far it is."""
        return Call("GET", _at(ranker), _same)

    @staticmethod
    def put_ranker(ranker: str, config: Mapping[str, Any]) -> Call[dict[str, Any]]:
        """Create or replace a ranker."""
        return Call("PUT", _at(ranker), _same, dict(config))

    @staticmethod
    def put_other(ranker: str, config: Mapping[str, Any]) -> Call[dict[str, Any]]:
        """Rebuild another policy from the ranker's log, in the background."""
        return Call("PUT", _at(ranker, "other"), _same, dict(config))

    @staticmethod
    def other(ranker: str) -> Call[dict[str, Any]]:
        """How far the other policy is, and both on the same log."""
        return Call("GET", _at(ranker, "other"), _same)

    @staticmethod
    def drop_other(ranker: str) -> Call[None]:
        """The other policy goes."""
        return Call("DELETE", _at(ranker, "other"), _nothing)

    @staticmethod
    def switch(ranker: str) -> Call[dict[str, Any]]:
        """Let the other policy decide, and this one stand by."""
        return Call("POST", _at(ranker, "switch"), _same)

    @staticmethod
    def release(ranker: str) -> Call[dict[str, Any]]:
        """Let the policy decide again after the guard fell back."""
        return Call("POST", _at(ranker, "release"), _same)

    @staticmethod
    def delete_ranker(ranker: str) -> Call[None]:
        """Delete a ranker; its log stays."""
        return Call("DELETE", _at(ranker), _nothing)


def _sync(make: Callable[P, Call[T]]) -> Callable[Concatenate[Client, P], T]:
    @wraps(make)
    def ask(self: Client, /, *args: P.args, **options: P.kwargs) -> T:
        return self.ask(make(*args, **options))

    return ask


def _async(make: Callable[P, Call[T]]) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    @wraps(make)
    async def ask(self: AsyncClient, /, *args: P.args, **options: P.kwargs) -> T:
        return await self.ask(make(*args, **options))

    return ask


def _options(url: str, key: str | None, timeout: float) -> dict[str, Any]:
    return {"base_url": url, "timeout": timeout, "headers": {} if key is None else {"Authorization": f"Bearer {key}"}}


class Client:
    """Asks and waits. Any thread may use it.

    Args:
        url: where the service is.
        key: an API key, where the service needs one.
        timeout: seconds to wait for an answer.
    """

    def __init__(self, url: str = URL, key: str | None = None, *, timeout: float = 10.0) -> None:
        self._http = httpx.Client(**_options(url, key, timeout))

    def ask(self, call: Call[T]) -> T:
        """Put a call to the service."""
        try:
            response = self._http.request(call.method, call.path, json=call.body, params=call.query)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise _unreached(self._http.base_url, error) from None
        return call.result(response)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of connections."""
        self._http.close()

    rank = _sync(Calls.rank)
    feedback = _sync(Calls.feedback)
    feedback_bulk = _sync(Calls.feedback_bulk)
    withdraw = _sync(Calls.withdraw)
    decision = _sync(Calls.decision)
    report = _sync(Calls.report)
    overview = _sync(Calls.overview)
    segments = _sync(Calls.segments)
    places = _sync(Calls.places)
    diagnosis = _sync(Calls.diagnosis)
    items = _sync(Calls.items)
    item = _sync(Calls.item)
    put_items = _sync(Calls.put_items)
    remove_item = _sync(Calls.remove_item)
    rankers = _sync(Calls.rankers)
    ranker = _sync(Calls.ranker)
    put_ranker = _sync(Calls.put_ranker)
    put_other = _sync(Calls.put_other)
    other = _sync(Calls.other)
    drop_other = _sync(Calls.drop_other)
    switch = _sync(Calls.switch)
    release = _sync(Calls.release)
    delete_ranker = _sync(Calls.delete_ranker)


class AsyncClient:
    """As `Client`, for an event loop."""

    def __init__(self, url: str = URL, key: str | None = None, *, timeout: float = 10.0) -> None:
        self._http = httpx.AsyncClient(**_options(url, key, timeout))

    async def ask(self, call: Call[T]) -> T:
        """Put a call to the service."""
        try:
            response = await self._http.request(call.method, call.path, json=call.body, params=call.query)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise _unreached(self._http.base_url, error) from None
        return call.result(response)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of connections."""
        await self._http.aclose()

    rank = _async(Calls.rank)
    feedback = _async(Calls.feedback)
    feedback_bulk = _async(Calls.feedback_bulk)
    withdraw = _async(Calls.withdraw)
    decision = _async(Calls.decision)
    report = _async(Calls.report)
    overview = _async(Calls.overview)
    segments = _async(Calls.segments)
    places = _async(Calls.places)
    diagnosis = _async(Calls.diagnosis)
    items = _async(Calls.items)
    item = _async(Calls.item)
    put_items = _async(Calls.put_items)
    remove_item = _async(Calls.remove_item)
    rankers = _async(Calls.rankers)
    ranker = _async(Calls.ranker)
    put_ranker = _async(Calls.put_ranker)
    put_other = _async(Calls.put_other)
    other = _async(Calls.other)
    drop_other = _async(Calls.drop_other)
    switch = _async(Calls.switch)
    release = _async(Calls.release)
    delete_ranker = _async(Calls.delete_ranker)


def _unreached(url: httpx.URL, error: Exception) -> Unavailable:
    return Unavailable(f"no answer from {url.host}:{url.port or 80} ({type(error).__name__}).")
