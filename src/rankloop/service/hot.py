"""The two routes of every visit: rank and feedback. They wait for their commit without stopping the loop."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from anyio.to_thread import run_sync
from starlette.types import Receive, Scope, Send

from rankloop.engine import Ranking, Receipt
from rankloop.service import bodies, peek
from rankloop.service.problems import Refused, internal, refused, response
from rankloop.service.rankers import Hosted
from rankloop.service.schemas import FeedbackBody, ListedAnswer, RankAnswer, RankBody, ReceiptAnswer
from rankloop.service.service import Service
from rankloop.service.stats import exploration_share

log = logging.getLogger("rankloop.service")
_rank_body = msgspec.json.Decoder(RankBody)
_feedback_body = msgspec.json.Decoder(FeedbackBody)


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
    """Decide a list and wait until it is in the log."""
    asked = bodies.decode(_rank_body, body)
    bodies.at_most("candidates", asked.candidates, service.limits.list)
    bodies.at_most("exclude", asked.exclude, service.limits.list)
    if asked.propensity > service.limits.draws:
        accepted = f"accepted: at most {service.limits.draws} draws"
        raise Refused(422, f"propensity is {asked.propensity}; {accepted}.", field="propensity")
    peek.new_segment(hosted.ranker, asked.segment, service.limits.segments)

    def decide() -> Any:
        return hosted.ranker.rank_soon(
            k=asked.k,
            context=asked.context,
            candidates=asked.candidates,
            exclude=asked.exclude,
            pin=asked.pin,
            segment=asked.segment,
            propensity=asked.propensity,
        )

    # Draws for a propensity take their time, and so do thousands of candidates; a plain list does not.
    slow = asked.propensity > 0 or (asked.candidates is not None and len(asked.candidates) > 1000)
    ranking = await service.bridge.wait(await run_sync(decide) if slow else decide())
    return _ranked(service, hosted, ranking)


def _ranked(service: Service, hosted: Hosted, ranking: Ranking) -> RankAnswer:
    listed, exploring, slots = [], 0.0, 0
    for one in ranking.items:
        share = exploration_share(one)
        if share is not None:
            exploring += share
            slots += 1
        listed.append(
            ListedAnswer(one.item, one.rule, one.score, one.estimate, one.uncertainty, one.prior_share, share)
        )
    hosted.stats.listed(time.time(), exploring, slots)
    service.metrics.listed(hosted.name)
    return RankAnswer(ranking.id, ranking.segment, ranking.policy, listed, peek.propensity(ranking.propensity))


async def feedback(service: Service, hosted: Hosted, body: bytes) -> ReceiptAnswer:
    """Tell what happened and wait until that is in the log."""
    told = bodies.decode(_feedback_body, body)
    before = peek.open_decision(hosted.ranker, told.decision)
    # What is no longer open must be looked up in the log: not on the loop's thread.
    soon = await run_sync(tell, hosted, told) if before is None else tell(hosted, told)
    receipt: Receipt = await service.bridge.wait(soon)
    count(service, hosted, told, before, receipt)
    return ReceiptAnswer(receipt.decision, receipt.status)


def tell(hosted: Hosted, told: FeedbackBody) -> Any:
    """Hand feedback to its ranker."""
    return hosted.ranker.feedback_soon(
        told.decision,
        clicked=told.clicked,
        items=told.items,
        values=told.values,
        event=told.event,
        final=told.final,
    )


def count(service: Service, hosted: Hosted, told: FeedbackBody, before: peek.Open | None, receipt: Receipt) -> None:
    """Keep the numbers of a report."""
    counted = before is not None and receipt.status in ("learned", "kept")
    service.metrics.told(hosted.name, receipt.status, time.time() - before.time if counted and before else None)
    if before is None or not counted:
        return
    happened = told.clicked or told.items or told.values
    hosted.stats.told(before.time, first=not before.answered, click=bool(happened) and not before.clicked)
