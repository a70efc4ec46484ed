"""Decisions: bulk feedback, withdrawal and the history of one decision."""

from __future__ import annotations

from collections.abc import Sequence

from anyio.to_thread import run_sync
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from rankloop.analytics.decision_history import DecisionHistory
from rankloop.errors import RankloopError
from rankloop.eventlog.writer import Commit
from rankloop.schema import Decoder, FeedbackEvent, Receipt
from rankloop.schema.answers import BatchAnswers, BulkAnswer, BulkAnswers
from rankloop.schema.request_bodies import BulkFeedback, RankBatch, Withdrawal
from rankloop.service import endpoints
from rankloop.service.openapi import describe_route
from rankloop.service.problems import RETRY, UNCOMPUTABLE, RequestRefused, refused, uncomputable
from rankloop.service.routes.dependencies import decoded_body, requires
from rankloop.service.service import Service
from rankloop.serving import Ranker
from rankloop.serving.costs import Cost


def router(service: Service) -> APIRouter:
    """Return the routes of decisions."""
    router, rankers = APIRouter(tags=["decisions"]), service.rankers
    events_body, decision_body, batch_body = (
        decoded_body(Decoder(BulkFeedback), service),
        decoded_body(Decoder(Withdrawal), service),
        decoded_body(Decoder(RankBatch), service),
    )
    reads, sends_feedback = requires(service.access, "read"), requires(service.access, "feedback")
    ranks = requires(service.access, "rank")

    @router.post(
        "/v1/rankers/{name}/feedback/bulk",
        dependencies=[sends_feedback],
        **describe_route(404, body=BulkFeedback, answer=BulkAnswers),
    )
    async def bulk_feedback(name: str, body: BulkFeedback = events_body) -> Response:
        """Report feedback for many decisions; each event is accepted or refused by itself."""
        endpoints.at_most("events", body.events, service.limits.bulk)
        submitted = await run_sync(_submit_all, rankers.ranker(name), body.events)
        results = [await _answer(service, name, *one) for one in submitted]
        if results and all(result.status == "unavailable" for result in results):
            raise RequestRefused(503, results[0].problem or "the log cannot be written now.", headers=RETRY)
        return endpoints.json_response(BulkAnswers(results))

    @router.post(
        "/v1/rankers/{name}/rank/batch",
        dependencies=[ranks],
        **describe_route(404, body=RankBatch, answer=BatchAnswers),
    )
    def rank_batch(request: Request, name: str, body: RankBatch = batch_body) -> Response:
        """Decide a list for each of many requests; each is answered or refused by itself."""
        endpoints.at_most("requests", body.requests, service.limits.bulk)
        ranker, headers = rankers.ranker(name), dict(request.scope["headers"])
        if any(one.open for one in body.requests):
            service.access.admit(headers, "admin", name)
        total = sum(ranker.draws_cost(one).total for one in body.requests if one.propensity)
        endpoints.check_cost(service, headers, Cost("requests", len(body.requests), total / max(1, len(body.requests))))
        results = ranker.rank_many(body.requests, UNCOMPUTABLE)
        if results and all(result.status == "unavailable" for result in results):
            raise RequestRefused(503, results[0].problem or "the ranker cannot answer now.", headers=RETRY)
        service.metrics.decisions.labels(name).inc(sum(result.list is not None for result in results))
        return endpoints.json_response(BatchAnswers(results))

    @router.post(
        "/v1/rankers/{name}/withdraw",
        dependencies=[sends_feedback],
        **describe_route(404, body=Withdrawal, answer=Receipt),
    )
    def withdraw(name: str, body: Withdrawal = decision_body) -> Response:
        """Withdraw a decision whose list was never shown; nothing is learned from it."""
        return endpoints.json_response(rankers.ranker(name).withdraw(body.decision))

    @router.get(
        "/v1/rankers/{name}/decisions/{id:path}", dependencies=[reads], **describe_route(404, answer=DecisionHistory)
    )
    def show_decision(name: str, id: str) -> Response:
        """Return the list of a decision, the numbers behind it, and its feedback."""
        return endpoints.json_response(rankers.ranker(name).history(id))

    return router


def _submit_all(
    ranker: Ranker, events: Sequence[FeedbackEvent]
) -> list[tuple[FeedbackEvent, Commit[Receipt] | None, RequestRefused | None]]:
    """Submit events in their order; return the commit of each, or its refusal, which does not hold up the others."""
    submitted: list[tuple[FeedbackEvent, Commit[Receipt] | None, RequestRefused | None]] = []
    for event in events:
        try:
            submitted.append((event, ranker.submit_feedback(event, ranker.find_decision(event.decision)), None))
        except RankloopError as error:
            submitted.append((event, None, refused(error)))
        except UNCOMPUTABLE:
            submitted.append((event, None, uncomputable()))
    return submitted


async def _answer(
    service: Service, name: str, event: FeedbackEvent, commit: Commit[Receipt] | None, refusal: RequestRefused | None
) -> BulkAnswer:
    """Wait for the receipt of an event; return its status or the reason of its refusal."""
    try:
        receipt = None if commit is None else await commit
    except RankloopError as error:
        receipt, refusal = None, refused(error)
    except UNCOMPUTABLE:
        receipt, refusal = None, uncomputable()
    if receipt is not None:
        service.metrics.feedback.labels(name, receipt.status).inc()
        return BulkAnswer(receipt.decision, receipt.status)
    refusal = uncomputable() if refusal is None else refusal
    return BulkAnswer(event.decision, "unavailable" if refusal.status == 503 else "refused", refusal.detail)
