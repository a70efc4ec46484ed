"""The two routes of every visit: rank and feedback. They wait for their commit without stopping the loop."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import Future

from anyio.to_thread import run_sync
from msgspec import Struct
from starlette.types import Receive, Scope, Send

from rankloop.errors import RankloopError
from rankloop.hosting.hosted_ranker import HostedRanker
from rankloop.schema import Decoder, FeedbackEvent, RankAnswer, RankRequest, Receipt
from rankloop.service import bodies
from rankloop.service.problems import UNCOMPUTABLE, RequestRefused, internal, refused, response, uncomputable
from rankloop.service.service import Service

log = logging.getLogger("rankloop.service")
_rank_body, _feedback_body = Decoder(RankRequest), Decoder(FeedbackEvent)

Answers = Callable[[Service, HostedRanker, bytes], Awaitable[Struct]]
"""What answers the body of a request to a ranker."""


class Endpoint:
    """An ASGI endpoint for one of them: admit, read, answer, or say why not."""

    def __init__(self, service: Service, path: str, answers: Answers) -> None:
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
        told_headers = [(b"content-length", b"%d" % len(made)), (b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": told_headers})
        await send({"type": "http.response.body", "body": made})


async def rank(service: Service, hosted: HostedRanker, body: bytes) -> RankAnswer:
    """Decide a list; wait for its commit where the ranker says so."""
    asked = bodies.decode(_rank_body, body)
    hosted.admit(asked, service.limits)
    # Draws for a propensity take their time, and so do thousands of candidates and a look into the log for an id.
    slow = asked.propensity > 0 or asked.decision is not None
    slow = slow or max(len(ids or ()) for ids in (asked.candidates, asked.exclude, asked.order)) > 1000
    decide = hosted.ranker.submit_rank
    ranking, kept = await run_sync(decide, asked) if slow else decide(asked)
    if kept is not None:
        await service.bridge.wait(kept)
    if not ranking.repeated:
        service.metrics.listed(hosted.name)
    return ranking.answer()


async def feedback(service: Service, hosted: HostedRanker, body: bytes) -> Receipt:
    """Tell what happened and wait until that is in the log."""
    told = bodies.decode(_feedback_body, body)
    # What is no longer open must be looked up in the log: not on the loop's thread.
    near = hosted.ranker.is_near(told.decision)
    soon = tell(hosted, told) if near else await run_sync(tell, hosted, told)
    receipt = await service.bridge.wait(soon)
    service.metrics.told(hosted.name, receipt.status)
    return receipt


def tell(hosted: HostedRanker, told: FeedbackEvent) -> Future[Receipt]:
    """Hand feedback to its ranker."""
    return hosted.ranker.submit_feedback(told)
