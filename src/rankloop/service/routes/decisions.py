"""Decisions: bulk feedback, withdrawal and the history of one decision."""

from __future__ import annotations

from concurrent.futures import Future

from anyio.to_thread import run_sync
from fastapi import APIRouter
from starlette.responses import Response

from rankloop.analytics.decision_history import DecisionHistory
from rankloop.errors import RankloopError
from rankloop.hosting.hosted_ranker import HostedRanker
from rankloop.schema import Decoder, FeedbackEvent, Receipt
from rankloop.schema.answers import BulkAnswer, BulkAnswers
from rankloop.schema.request_bodies import BulkFeedback, Withdrawal
from rankloop.service import bodies
from rankloop.service.openapi import describe_route
from rankloop.service.problems import RETRY, UNCOMPUTABLE, RequestRefused, refused, uncomputable
from rankloop.service.routes.dependencies import decoded_body, requires
from rankloop.service.service import Service


def router(service: Service) -> APIRouter:
    """Return the routes of decisions."""
    router, rankers = APIRouter(tags=["decisions"]), service.rankers
    events_body, decision_body = (
        decoded_body(Decoder(BulkFeedback), service),
        decoded_body(Decoder(Withdrawal), service),
    )
    reads, sends_feedback = requires(service.guard, "read"), requires(service.guard, "feedback")

    @router.post(
        "/v1/rankers/{name}/feedback/bulk",
        dependencies=[sends_feedback],
        **describe_route(404, body=BulkFeedback, answer=BulkAnswers),
    )
    async def bulk_feedback(name: str, body: BulkFeedback = events_body) -> Response:
        """Report feedback for many decisions; each event is accepted or refused by itself."""
        bodies.at_most("events", body.events, service.limits.bulk)
        hosted = rankers.find(name)
        submitted = await run_sync(lambda: [(event, _submit(hosted, event)) for event in body.events])
        results = [await _answer(service, hosted, event, receipt) for event, receipt in submitted]
        if results and all(result.status == "unavailable" for result in results):
            raise RequestRefused(503, results[0].problem or "the log cannot be written now.", headers=RETRY)
        return bodies.answer(BulkAnswers(results))

    @router.post(
        "/v1/rankers/{name}/withdraw",
        dependencies=[sends_feedback],
        **describe_route(404, body=Withdrawal, answer=Receipt),
    )
    def withdraw(name: str, body: Withdrawal = decision_body) -> Response:
        """Withdraw a decision whose list was never shown; nothing is learned from it."""
        return bodies.answer(rankers.ranker(name).withdraw(body.decision))

    @router.get(
        "/v1/rankers/{name}/decisions/{id:path}", dependencies=[reads], **describe_route(404, answer=DecisionHistory)
    )
    def show_decision(name: str, id: str) -> Response:
        """Return the list of a decision, the numbers behind it, and its feedback."""
        return bodies.answer(rankers.ranker(name).history(id))

    return router


def _submit(hosted: HostedRanker, event: FeedbackEvent) -> Future[Receipt]:
    """Submit feedback; a refusal becomes a failed future, so that the other events are still submitted."""
    try:
        return hosted.ranker.submit_feedback(event)
    except (RequestRefused, RankloopError, *UNCOMPUTABLE) as error:
        failed: Future[Receipt] = Future()
        failed.set_exception(error)
        return failed


async def _answer(service: Service, hosted: HostedRanker, event: FeedbackEvent, future: Future[Receipt]) -> BulkAnswer:
    """Wait for the receipt of an event; return its status or the reason of its refusal."""
    try:
        receipt = await service.bridge.wait(future)
    except RequestRefused as error:
        refusal = error
    except RankloopError as error:
        refusal = refused(error)
    except UNCOMPUTABLE:
        refusal = uncomputable()
    else:
        service.metrics.told(hosted.name, receipt.status)
        return BulkAnswer(receipt.decision, receipt.status)
    return BulkAnswer(event.decision, "unavailable" if refusal.status == 503 else "refused", refusal.detail)
