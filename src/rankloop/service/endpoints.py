"""Endpoints: admit, read, decode, answer. Rank and feedback, the two requests of every page view, are here in full."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sized
from dataclasses import dataclass
from functools import partial
from typing import TypeVar
from urllib.parse import parse_qsl

import msgspec
from anyio.to_thread import run_sync
from msgspec import Struct
from prometheus_client import Counter, Histogram
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rankloop.errors import Busy, InvalidInput, RankloopError, Words
from rankloop.eventlog.writer import Commit
from rankloop.hosting.registry import RankerRegistry
from rankloop.schema import Decoder, FeedbackEvent, Payload, RankAnswer, RankRequest, Receipt
from rankloop.service.cross_site import BROWSER_HEADERS, CrossSiteGuard
from rankloop.service.lanes import Lanes
from rankloop.service.metrics import Metrics
from rankloop.service.problems import (
    UNCOMPUTABLE,
    RequestRefused,
    internal,
    not_acceptable,
    not_json,
    refused,
    response,
    uncomputable,
)
from rankloop.service.service import Service
from rankloop.serving import Ranker
from rankloop.serving.costs import Cost

LOOP_PATIENCE_SECONDS = 0.02
"""Time for which the event loop waits for a ranker, which is rarely held for longer; then a thread waits instead."""
MAX_COST_ON_LOOP = 2_000_000
"""Lists for which more numbers are computed, which takes milliseconds, are decided in another thread."""
MAX_IDS_ON_LOOP = 1000
"""Longer lists of ids are read in another thread, so that they do not hold up the event loop."""
MAX_BYTES_ON_LOOP = 50_000
"""Longer bodies are decoded in another thread; rank and feedback requests are simple enough for the loop."""
VISIT_PREFIX = ["v1", "rankers"]
CLIENT_GONE = 499
"""Status under which requests are counted whose client left before they could be answered."""
UNLIMITED = (["healthz"], ["readyz"])
"""Requests that are admitted however busy the service is."""
T = TypeVar("T")
P = TypeVar("P", bound=Payload)
log = logging.getLogger("rankloop.service")
encode = msgspec.json.Encoder().encode
_rank_decoder, _feedback_decoder = Decoder(RankRequest), Decoder(FeedbackEvent)


@dataclass(slots=True)
class VisitCall:
    """A request to a ranker, with its body read."""

    ranker: str
    body: bytes
    headers: Mapping[bytes, bytes]
    arrived: float  # monotonic time


Answers = Callable[[Service, VisitCall], Awaitable[Struct]]


class Endpoint:
    """An ASGI endpoint that admits a request, reads its body, and sends the answer or the reason of its refusal."""

    def __init__(self, service: Service, path: str, answers: Answers) -> None:
        self.path, self._service, self._answers = path, service, answers
        self._role = answers.__name__  # rank or feedback

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        headers: dict[bytes, bytes] = dict(scope["headers"])
        service = self._service
        try:
            key = service.access.admit(headers, self._role, scope["path_params"]["name"])
            if key is not None:
                service.admission.learn_key(headers[b"authorization"], key)
            refuse_parameters(scope["query_string"])
            body = await read_body(headers, receive, service.limits.body)
            state = scope.get("state")
            arrived = (state and state.get("arrived")) or time.monotonic()
            answer = encode(
                await self._answers(service, VisitCall(scope["path_params"]["name"], body, headers, arrived))
            )
        except RequestRefused as error:
            await response(error)(scope, receive, send)
            return
        except RankloopError as error:
            await response(refused(error))(scope, receive, send)
            return
        except UNCOMPUTABLE:
            await response(uncomputable())(scope, receive, send)
            return
        answer_headers = [(b"content-length", b"%d" % len(answer)), (b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": answer_headers})
        await send({"type": "http.response.body", "body": answer})


class Requests:
    """ASGI middleware around the application: routes rank and feedback, measures every request, answers for errors.

    The framework would route both as well, by matching the patterns of all its routes one after the other. Requests
    that a browser sends for another site are refused here, before any route; HEAD is answered as GET without a body.
    """

    def __init__(
        self,
        app: ASGIApp,
        endpoints: dict[str, Endpoint],
        metrics: Metrics,
        cross_site: CrossSiteGuard,
        lanes: Lanes,
        rankers: RankerRegistry,
    ) -> None:
        self._app, self._endpoints, self._metrics = app, endpoints, metrics
        self._cross_site, self._lanes, self._rankers = cross_site, lanes, rankers
        self._is_shared = rankers.writer.process > 0
        self._measured: dict[tuple[str, int], tuple[Histogram, Counter]] = {}  # looking up labels costs much more

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and count its answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status, app, has_body, counted = time.perf_counter(), 0, self._app, True, None
        steps = scope["path"].split("/")
        if scope["method"] == "POST" and len(steps) == 5 and steps[4] in self._endpoints and steps[1:3] == VISIT_PREFIX:
            scope["path_params"] = {"name": steps[3]}
            app = scope["endpoint"] = self._endpoints[steps[4]]
        elif steps[1:2] not in UNLIMITED:
            counted = steps[3] if len(steps) > 3 and steps[1:3] == VISIT_PREFIX else ""
        names = [name for name, _ in scope["headers"]]
        is_plain = app is not self._app and names.count(b"host") == 1 and BROWSER_HEADERS.isdisjoint(names)
        if not is_plain or self._cross_site.checks_hosts:  # rank and feedback check the media type themselves
            refusal = self._cross_site.refusal(scope)
            app = app if refusal is None else response(refusal)
        if scope["method"] == "HEAD":
            scope, has_body = {**scope, "method": "GET"}, False

        async def note_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message if has_body or "body" not in message else {**message, "body": b""})

        try:
            if counted is not None:
                try:
                    self._lanes.enter(counted)
                except RequestRefused as error:
                    counted = None
                    await response(error)(scope, receive, note_status)
                    return
            if self._is_shared and len(steps) > 3 and steps[1:3] == VISIT_PREFIX and steps[3] not in self._rankers:
                await run_sync(self._rankers.look_for, steps[3])  # another process may have created it just now
            await app(scope, receive, note_status)
        except ClientDisconnect:
            status = status or CLIENT_GONE
        except Exception:
            log.exception("a request failed")
            if status:
                raise
            await internal()(scope, receive, note_status)
        finally:
            if counted is not None:
                self._lanes.leave(counted)
            path = getattr(scope.get("route") or scope.get("endpoint"), "path", "other")
            measured = self._measured.get((path, status))
            if measured is None:
                seconds, answers = self._metrics.seconds.labels(path), self._metrics.answers.labels(path, str(status))
                measured = self._measured[path, status] = seconds, answers
            measured[0].observe(time.perf_counter() - start)
            measured[1].inc()


async def rank(service: Service, call: VisitCall) -> RankAnswer:
    """Decide a list; wait for its commit if the ranker is configured so."""
    name = call.ranker
    ranker = service.rankers.ranker(name)
    request = decode_payload(_rank_decoder, call.body)
    writer = service.rankers.writer
    if request.after is not None:
        await writer.reached(request.after, service.admission.deadline(call.arrived, call.headers) - time.monotonic())
    # Draws for a propensity take long, and a decision id is looked up in the log.
    slow = request.propensity > 0 or request.decision is not None
    slow = slow or ranker.list_cost(request) > MAX_COST_ON_LOOP
    if request.open:
        service.access.admit(call.headers, "admin", name)
        slow = True  # the new items are committed first
    named = (request.candidates, request.items, request.exclude, request.order)
    slow = slow or max(len(ids or ()) for ids in named) > MAX_IDS_ON_LOOP
    if request.propensity > 0:
        check_cost(service, call.headers, ranker.draws_cost(request))
    blocked = False
    if not slow:
        try:
            patience = 0.0 if name in service.lanes.blocked else LOOP_PATIENCE_SECONDS
            ranking, commit = ranker.submit_rank(request, patience)
        except Busy:
            slow = blocked = True
    if slow:
        deadline = service.admission.deadline(call.arrived, call.headers)
        ranking, commit = await service.lanes.run(name, deadline, partial(ranker.submit_rank, request), blocked=blocked)
    if commit is not None:
        await commit
    if not ranking.repeated:
        service.metrics.decisions.labels(name).inc()
    return ranking.answer(writer.lag)


async def feedback(service: Service, call: VisitCall) -> Receipt:
    """Submit feedback and wait until it is committed and applied."""
    ranker, event = service.rankers.ranker(call.ranker), decode_payload(_feedback_decoder, call.body)
    decision = ranker.recent_decision(event.decision)
    try:
        if decision is None:
            raise Busy
        commit = ranker.submit_feedback(event, decision, 0.0)
    except Busy:  # the decision must be looked up in the log, or the ranker is busy: both may take long
        deadline = service.admission.deadline(call.arrived, call.headers)
        commit = await service.lanes.run(call.ranker, deadline, partial(_submit_feedback, ranker, event))
    receipt = await commit
    if commit.position is not None and service.rankers.writer.process:
        receipt = Receipt(receipt.decision, receipt.status, commit.position)
    service.metrics.feedback.labels(call.ranker, receipt.status).inc()
    return receipt


def _submit_feedback(ranker: Ranker, event: FeedbackEvent, patience: float) -> Commit[Receipt]:
    return ranker.submit_feedback(event, ranker.find_decision(event.decision), patience)


def check_cost(service: Service, headers: Mapping[bytes, bytes], cost: Cost) -> None:
    """Refuse a request that costs more than the role of its key may cause."""
    settings = service.settings.admission
    if cost.total > settings.rank_cost:
        try:
            service.access.admit(headers, "admin")
        except RequestRefused:
            cost.require(settings.rank_cost, "for a key without the role admin")
        cost.require(settings.admin_cost)


# Bodies of requests and answers


def media_of(headers: Mapping[bytes, bytes]) -> bytes:
    """Return the type of a body, without its parameters."""
    return headers.get(b"content-type", b"").partition(b";")[0].strip().lower()


async def read_body(
    headers: Mapping[bytes, bytes], receive: Receive, limit: int, media: Collection[bytes] = (b"application/json",)
) -> bytes:
    """Return the body of a request, if it has one of these types and at most `limit` bytes."""
    if media_of(headers) not in media:
        # A form on another site's page cannot send this type: `cross_site` relies on it for rank and feedback.
        raise RequestRefused(415, "accepted: a body with the header 'Content-Type: application/json'.")
    length = headers.get(b"content-length", b"")
    if length.isdigit() and (len(length) > 15 or int(length) > limit):
        raise _too_large(limit)
    message = await receive()
    body: bytes = message.get("body", b"")
    while message.get("more_body", False) and len(body) <= limit:
        message = await receive()
        body += message.get("body", b"")
    if message["type"] == "http.disconnect":
        raise ClientDisconnect  # what has arrived is not the whole body
    if len(body) > limit:
        raise _too_large(limit)
    return body


def _too_large(limit: int) -> RequestRefused:
    return RequestRefused(413, f"the body is too large; accepted: at most {limit} bytes.")


def decode_payload(decoder: Decoder[P], body: bytes) -> P:
    """Return the decoded body, or refuse the request; valid bodies are decoded in C."""
    try:
        return decoder.decode_valid(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return decode(decoder, body)  # again, to describe the error


def decode(decoder: Callable[[bytes], T], body: bytes) -> T:
    """Return the decoded body, or refuse the request."""
    try:
        return decoder(body)
    except msgspec.ValidationError as error:
        raise not_acceptable(str(error)) from None
    except msgspec.DecodeError as error:
        raise not_json(str(error)) from None
    except UnicodeDecodeError:
        raise not_json("its text is not UTF-8") from None
    except RecursionError:
        raise RequestRefused(400, "the body is nested too deeply.") from None


async def decode_anywhere(decoder: Callable[[bytes], T], body: bytes) -> T:
    """Return the decoded body, or refuse the request; a long body does not hold up the event loop."""
    if len(body) <= MAX_BYTES_ON_LOOP:
        return decode(decoder, body)
    return await run_sync(decode, decoder, body)


def at_most(field: str, given: Sized | None, limit: int) -> None:
    """Refuse a list with more than `limit` entries."""
    if given is not None and len(given) > limit:
        raise InvalidInput(field, Words(f"a list of {len(given)}"), f"a list of at most {limit}")


def refuse_parameters(query: bytes, known: Collection[str] = ()) -> None:
    """Refuse query parameters that are unknown or given twice."""
    if not query:
        return
    seen: set[str] = set()
    for name, _ in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
        if name not in known or name in seen:
            once = ", each once" if known else ""
            raise RequestRefused(
                422,
                f"the parameter {name[:100]!r} is not acceptable; accepted: {', '.join(known) or 'none'}{once}.",
                field=name[:100],
            )
        seen.add(name)


def json_response(value: object, status: int = 200) -> Response:
    """Return a JSON response."""
    return Response(encode(value), status, media_type="application/json")
