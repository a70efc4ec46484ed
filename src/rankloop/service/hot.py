"""The two routes of every visit: rank and feedback. They wait for their commit without stopping the loop."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from anyio.to_thread import run_sync
from starlette.types import Receive, Scope, Send

from rankloop.engine import Receipt
from rankloop.engine.records import plain
from rankloop.service import bodies
from rankloop.service.hosted import Hosted
from rankloop.service.problems import Refused, internal, refused, response
from rankloop.service.schemas import FeedbackBody, ListedAnswer, RankAnswer, RankBody, ReceiptAnswer
from rankloop.service.service import Service

log = logging.getLogger("rankloop.service")
_rank_body = msgspec.json.Decoder(RankBody)
_feedback_body = msgspec.json.Decoder(FeedbackBody)
USUAL = {name: getattr(RankBody(), name) for name in RankBody.__struct_fields__}
"""What need not be asked for."""


class Hot:
    """An ASGI endpoint for one of them: admit, read, answer, or say why not."""

    def __init__(self, service: Service, path: str, answers: Callable[..., Awaitable[Any]]) -> None:
        self.path, self._service, self._answers = path, service, answers
        self._role = answers.__name__  # rank or feedback, as the function

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        headers: dict[bytes, bytes] = dict(scope["headers"])
        service = self._service
        try:
            service.guard.admit(headers, self._role)
            bodies.no_more(scope["query_string"], ())
            hosted = service.rankers.find(scope["path_params"]["name"])
            body = await bodies.read(headers, receive, service.limits.body)
            made = bodies.encode(await self._answers(service, hosted, body))
        except Exception as error:
            told = refused(error)
            if told is None:
                log.exception("a request failed")
            await (internal() if told is None else response(told))(scope, receive, send)
            return
        told_headers = [(b"content-length", b"%d" % len(made)), (b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": told_headers})
        await send({"type": "http.response.body", "body": made})


async def rank(service: Service, hosted: Hosted, body: bytes) -> RankAnswer:
    """Decide a list; wait for its commit where the ranker says so."""
    asked = bodies.decode(_rank_body, body)
    for name in ("candidates", "exclude", "order"):
        bodies.at_most(name, getattr(asked, name), service.limits.list)
    if asked.propensity > service.limits.draws:
        accepted = f"accepted: at most {service.limits.draws} draws"
        raise Refused(422, f"propensity is {asked.propensity}; {accepted}.", field="propensity")
    hosted.has_room_for(asked.segment, service.limits.segments)
    question = {name: value for name in RankBody.__struct_fields__ if (value := getattr(asked, name)) != USUAL[name]}
    # Draws for a propensity take their time, and so do thousands of candidates and a look into the log for an id.
    slow = asked.propensity > 0 or asked.decision is not None
    slow = slow or max(len(ids or ()) for ids in (asked.candidates, asked.exclude, asked.order)) > 1000
    ranking, kept = await run_sync(_decide, hosted, question) if slow else _decide(hosted, question)
    if kept is not None:
        await service.bridge.wait(kept)
    if not ranking.repeated:
        service.metrics.listed(hosted.name)
    likely = ranking.propensity
    return RankAnswer(
        ranking.id,
        ranking.segment,
        ranking.policy,
        ranking.arm,
        [ListedAnswer(*one) for one in ranking.items],
        None if likely is None else plain(likely),
        list(ranking.ignored),
    )


def _decide(hosted: Hosted, question: dict[str, Any]) -> Any:
    return hosted.ranker.rank_soon(**question)


async def feedback(service: Service, hosted: Hosted, body: bytes) -> ReceiptAnswer:
    """Tell what happened and wait until that is in the log."""
    told = bodies.decode(_feedback_body, body)
    # What is no longer open must be looked up in the log: not on the loop's thread.
    near = hosted.ranker.is_near(told.decision)
    soon = tell(hosted, told) if near else await run_sync(tell, hosted, told)
    receipt: Receipt = await service.bridge.wait(soon)
    service.metrics.told(hosted.name, receipt.status)
    return ReceiptAnswer(receipt.decision, receipt.status)


def tell(hosted: Hosted, told: FeedbackBody) -> Any:
    """Hand feedback to its ranker."""
    return hosted.ranker.feedback_soon(
        told.decision,
        clicked=told.clicked,
        items=told.items,
        values=told.values,
        item_values=told.item_values,
        event=told.event,
        final=told.final,
        regret=told.regret,
    )
