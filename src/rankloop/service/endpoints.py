"""The two endpoints of every visit, rank and feedback: admit, read, decode, submit, answer."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from anyio.to_thread import run_sync
from msgspec import Struct
from starlette.types import ASGIApp, Receive, Scope, Send

from rankloop.errors import RankloopError
from rankloop.schema import Decoder, FeedbackEvent, RankAnswer, RankRequest, Receipt
from rankloop.service import bodies
from rankloop.service.problems import UNCOMPUTABLE, RequestRefused, internal, refused, response, uncomputable
from rankloop.service.service import Service
from rankloop.serving import Ranker

MAX_IDS_ON_LOOP = 1000
"""Longer lists of ids are read in another thread, so that they do not hold up the event loop."""
log = logging.getLogger("rankloop.service")
_decode_rank, _decode_feedback = Decoder(RankRequest), Decoder(FeedbackEvent)

Answers = Callable[[Service, str, bytes], Awaitable[Struct]]
"""Answers the body of a request to the ranker of a name."""


class Endpoint:
    """An ASGI endpoint."""

    def __init__(self, service: Service, path: str, answers: Answers) -> None:
        self.path, self._service, self._answers = path, service, answers
        self._role = answers.__name__  # rank or feedback

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        headers: dict[bytes, bytes] = dict(scope["headers"])
        service = self._service
        try:
            service.access.admit(headers, self._role)
            bodies.refuse_parameters(scope["query_string"])
            body = await bodies.read(headers, receive, service.limits.body)
            answer = bodies.encode(await self._answers(service, scope["path_params"]["name"], body))
        except RequestRefused as error:
            await response(error)(scope, receive, send)
            return
        except RankloopError as error:
            await response(refused(error))(scope, receive, send)
            return
        except UNCOMPUTABLE:
            await response(uncomputable())(scope, receive, send)
            return
        except Exception:
            log.exception("a request failed")
            await internal()(scope, receive, send)
            return
        answer_headers = [(b"content-length", b"%d" % len(answer)), (b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": answer_headers})
        await send({"type": "http.response.body", "body": answer})


class VisitRoutes:
    """Routes rank and feedback, and passes on all other requests.

    The framework would route both as well, by matching the patterns of all its routes one after the other.
    """

    def __init__(self, app: ASGIApp, endpoints: dict[str, Endpoint]) -> None:
        self._app, self._endpoints = app, endpoints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass on."""
        if scope["type"] == "http" and scope["method"] == "POST":
            steps = scope["path"].split("/")
            if len(steps) == 5 and steps[4] in self._endpoints and steps[1] == "v1" and steps[2] == "rankers":
                scope["path_params"] = {"name": steps[3]}
                endpoint = scope["endpoint"] = self._endpoints[steps[4]]
                await endpoint(scope, receive, send)
                return
        await self._app(scope, receive, send)


async def rank(service: Service, name: str, body: bytes) -> RankAnswer:
    """Decide a list; wait for its commit if the ranker is configured so."""
    ranker = service.rankers.ranker(name)
    request = bodies.decode(_decode_rank, body)
    # Draws for a propensity take long, and a decision id is looked up in the log.
    slow = request.propensity > 0 or request.decision is not None
    slow = slow or max(len(ids or ()) for ids in (request.candidates, request.exclude, request.order)) > MAX_IDS_ON_LOOP
    ranking, commit = await run_sync(ranker.submit_rank, request) if slow else ranker.submit_rank(request)
    if commit is not None:
        await commit
    if not ranking.repeated:
        service.metrics.count_decision(name)
    return ranking.answer()


async def feedback(service: Service, name: str, body: bytes) -> Receipt:
    """Submit feedback and wait until it is committed and applied."""
    ranker = service.rankers.ranker(name)
    receipt = await submit_feedback(ranker, bodies.decode(_decode_feedback, body))
    service.metrics.count_feedback(name, receipt.status)
    return receipt


async def submit_feedback(ranker: Ranker, event: FeedbackEvent) -> Receipt:
    """Submit feedback and wait until it is committed and applied."""
    decision = ranker.recent_decision(event.decision)
    if decision is None:  # it must be looked up in the log, which may take long
        decision = await run_sync(ranker.find_decision, event.decision)
    return await ranker.submit_feedback(event, decision)
