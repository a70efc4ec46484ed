"""The routes that are not of every visit: items, decisions, reports, rankers, health."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from anyio.to_thread import run_sync
from fastapi import APIRouter, Depends, Query, Request
from fastapi.params import Depends as Dependency
from msgspec.structs import asdict
from starlette.responses import Response

from rankloop.analytics.decision_history import DecisionHistory
from rankloop.analytics.diagnosis import Diagnosis
from rankloop.errors import NotFound, RankloopError
from rankloop.eventlog.writer import Commit
from rankloop.hosting.challenger_rebuild import ChallengerStatus
from rankloop.hosting.change_history import ChangeHistory, changes
from rankloop.schema import Decoder, FeedbackEvent, Item, ItemBody, RankerAnswer, RankerSettings, Receipt
from rankloop.schema.answers import BulkAnswer, BulkAnswers, RankersAnswer
from rankloop.schema.request_bodies import BulkFeedback, ItemPage, ItemsBody, Withdrawal
from rankloop.service import answers, bodies
from rankloop.service.auth import AccessControl
from rankloop.service.metrics import MEDIA
from rankloop.service.openapi import described
from rankloop.service.problems import UNCOMPUTABLE, RequestRefused, refused, uncomputable
from rankloop.service.readiness import ReadinessProbe
from rankloop.service.response_cache import ResponseCache
from rankloop.service.service import Service
from rankloop.serving import Ranker

T = TypeVar("T")
Fields = dict[str, object]
_fields: Callable[[bytes], Fields] = msgspec.json.Decoder(dict[str, Any]).decode
Limit = Annotated[int, Query(ge=1, le=10_000)]
Offset = Annotated[int, Query(ge=0, le=10**9)]
Segment = Annotated[str, Query(max_length=200)]
Search = Annotated[str, Query(max_length=200)]
Sort = Literal["estimate", "item", "shown", "clicked", "click_through"]
Order = Literal["ascending", "descending"]
Hours = Annotated[float, Query(ge=0, le=24 * 90, allow_inf_nan=False)]
Points = Annotated[int, Query(ge=1, le=1_000)]
Age = Annotated[float, Query(ge=0, le=60, allow_inf_nan=False, description="seconds that the answer may be old")]


def needs(access: AccessControl, role: str | None, *query: str) -> Dependency:
    """Let in only keys with a role, if one is needed, and no parameters but these."""

    async def admit(request: Request) -> None:
        request.state.by = None if role is None else access.admit(dict(request.scope["headers"]), role)
        bodies.refuse_parameters(request.scope["query_string"], query)

    return Dependency(admit)


def given(decoder: Callable[[bytes], T], most: int) -> T:
    """The request's body, decoded: the default of a parameter of a route, which becomes the body when one comes."""

    async def read(request: Request) -> T:
        return bodies.decode(decoder, await bodies.read(dict(request.scope["headers"]), request.receive, most))

    body: T = Depends(read)
    return body


def of_rankers(service: Service) -> APIRouter:
    """Rankers: list, show, create or replace, delete."""
    router, rankers = APIRouter(tags=["rankers"]), service.rankers
    config_given = given(_fields, service.limits.body)
    reads, administers = needs(service.access, "read"), needs(service.access, "admin")

    @router.get("/v1/rankers", dependencies=[reads], **described(answer=RankersAnswer))
    def list_rankers() -> Response:
        """All rankers, also those that are quarantined."""
        return bodies.answer(RankersAnswer([hosted.answer() for hosted in rankers.all()]))

    @router.get("/v1/rankers/{name}", dependencies=[reads], **described(404, answer=RankerAnswer))
    def show_ranker(name: str) -> Response:
        """One ranker: its settings, and how far it is."""
        return bodies.answer(rankers.find(name).answer())

    @router.put(
        "/v1/rankers/{name}",
        dependencies=[administers],
        **described(201, 409, body=RankerSettings, answer=RankerAnswer),
    )
    def put_ranker(request: Request, name: str, config: Fields = config_given) -> Response:
        """Create a ranker, or adjust it: what was learned stays, and so do adjustable settings that are not named."""
        new = rankers.put(name, config, request.state.by)
        return bodies.answer(rankers.find(name).answer(), 201 if new else 200)

    @router.patch(
        "/v1/rankers/{name}",
        dependencies=[administers],
        **described(404, 409, body=answers.RankerChanges, answer=RankerAnswer),
    )
    def patch_ranker(request: Request, name: str, changed: Fields = config_given) -> Response:
        """Change named settings; those that would learn anew need `reset: true`."""
        return bodies.answer(rankers.patch(name, changed, request.state.by).answer())

    @router.get("/v1/rankers/{name}/history", dependencies=[reads], **described(404, answer=ChangeHistory))
    def ranker_history(name: str) -> Response:
        """Every change of its settings, oldest first: when, by which key, and what."""
        rankers.find(name)
        return bodies.answer(changes(rankers.store, name))

    @router.delete("/v1/rankers/{name}", dependencies=[administers], **described(404, status=204))
    def delete_ranker(request: Request, name: str) -> Response:
        """Delete a ranker; its log stays."""
        rankers.delete(name, request.state.by)
        return Response(status_code=204)

    @router.post(
        "/v1/rankers/{name}/guardrail/reset", dependencies=[administers], **described(404, answer=RankerAnswer)
    )
    def reset_guardrail(name: str) -> Response:
        """Let the policy decide again after the guard fell back to the control order."""
        hosted = rankers.find(name)
        hosted.ranker.reset_guardrail()
        return bodies.answer(hosted.answer())

    return router


def of_replacing(service: Service) -> APIRouter:
    """Another policy: rebuild it from the log, compare, switch, switch back."""
    router, rankers = APIRouter(tags=["replacing"]), service.rankers
    config_given = given(_fields, service.limits.body)
    reads, administers = needs(service.access, "read"), needs(service.access, "admin")

    @router.put(
        "/v1/rankers/{name}/challenger",
        dependencies=[administers],
        **described(404, body=RankerSettings, answer=ChallengerStatus, status=202),
    )
    def put_challenger(request: Request, name: str, config: Fields = config_given) -> Response:
        """Rebuild another policy from the log in the background; one that was there before goes."""
        rankers.put_challenger(name, config, request.state.by)
        return bodies.answer(rankers.challenger_status(name), 202)

    @router.get("/v1/rankers/{name}/challenger", dependencies=[reads], **described(404, answer=ChallengerStatus))
    def show_challenger(name: str) -> Response:
        """How far it is, and how well both policies predicted the clicks of the same log."""
        return bodies.answer(rankers.challenger_status(name))

    @router.delete("/v1/rankers/{name}/challenger", dependencies=[administers], **described(404, status=204))
    def discard_challenger(request: Request, name: str) -> Response:
        """The other policy goes."""
        rankers.discard_challenger(name, request.state.by)
        return Response(status_code=204)

    @router.post("/v1/rankers/{name}/promote", dependencies=[administers], **described(404, 409, answer=RankerAnswer))
    def promote(request: Request, name: str) -> Response:
        """The other policy decides from now on, and this one stands by: the same again switches back."""
        return bodies.answer(rankers.promote(name, request.state.by).answer())

    return router


def of_items(service: Service) -> APIRouter:
    """Items of a ranker."""
    router, rankers, most = APIRouter(tags=["items"]), service.rankers, service.limits.body
    pages = needs(service.access, "read", "limit", "offset")
    items_given, item_given = given(Decoder(ItemsBody), most), given(Decoder(ItemBody), most)
    reads, administers = needs(service.access, "read"), needs(service.access, "admin")

    @router.get("/v1/rankers/{name}/items", dependencies=[pages], **described(404, answer=ItemPage))
    def list_items(name: str, limit: Limit = 1000, offset: Offset = 0) -> Response:
        """Items in the order in which they were added."""
        found = rankers.find(name).ranker.items()
        return bodies.answer(ItemPage(found[offset : offset + limit], len(found)))

    @router.put(
        "/v1/rankers/{name}/items",
        dependencies=[administers],
        **described(404, body=ItemsBody, status=204),
    )
    def put_items(name: str, body: ItemsBody = items_given) -> Response:
        """Add or change items: all of them, or none."""
        bodies.at_most("items", body.items, service.limits.list)
        rankers.put_items(name, body.items)
        return Response(status_code=204)

    @router.get("/v1/rankers/{name}/items/{id:path}", dependencies=[reads], **described(404, answer=Item))
    def show_item(name: str, id: str) -> Response:
        """One item as it is now."""
        return bodies.answer(rankers.find(name).item(id))

    @router.put(
        "/v1/rankers/{name}/items/{id:path}",
        dependencies=[administers],
        **described(404, body=ItemBody, answer=Item),
    )
    def put_item(name: str, id: str, body: ItemBody = item_given) -> Response:
        """Add or change one item."""
        rankers.put_items(name, [Item.of({"id": id, **asdict(body)}, "item")])
        return bodies.answer(rankers.find(name).item(id))

    @router.delete("/v1/rankers/{name}/items/{id:path}", dependencies=[administers], **described(404, status=204))
    def remove_item(name: str, id: str) -> Response:
        """List an item no more; where its id is put again, it is a new item, of which nothing was learned."""
        rankers.remove_item(name, id)
        return Response(status_code=204)

    return router


def of_decisions(service: Service) -> APIRouter:
    """What became of decisions, one by one and together."""
    router, rankers, most = APIRouter(tags=["decisions"]), service.rankers, service.limits.body
    pages = needs(service.access, "read", "segment", "sort", "order", "search", "hours", "limit", "offset", "age")
    events_given, decision_given = given(Decoder(BulkFeedback), most), given(Decoder(Withdrawal), most)
    reads, tells = needs(service.access, "read"), needs(service.access, "feedback")
    watched = ResponseCache()

    @router.post(
        "/v1/rankers/{name}/feedback/bulk",
        dependencies=[tells],
        **described(404, body=BulkFeedback, answer=BulkAnswers),
    )
    async def bulk_feedback(name: str, body: BulkFeedback = events_given) -> Response:
        """Feedback for many lists; each is taken or refused by itself."""
        bodies.at_most("events", body.events, service.limits.bulk)
        hosted = rankers.find(name)
        submitted = await run_sync(_submit_all, hosted.ranker, body.events)
        results = [await _bulk_answer(service, name, *one) for one in submitted]
        if results and all(one.status == "unavailable" for one in results):
            raise RequestRefused(
                503, results[0].problem or "the log cannot be written now.", headers={"Retry-After": "1"}
            )
        return bodies.answer({"results": results})

    @router.post(
        "/v1/rankers/{name}/withdraw",
        dependencies=[tells],
        **described(404, body=Withdrawal, answer=Receipt),
    )
    def withdraw(name: str, body: Withdrawal = decision_given) -> Response:
        """A list was never shown: nothing is learned from it."""
        receipt = rankers.find(name).ranker.withdraw(body.decision)
        return bodies.answer(receipt)

    @router.get(
        "/v1/rankers/{name}/decisions/{id:path}", dependencies=[reads], **described(404, answer=DecisionHistory)
    )
    def show_decision(name: str, id: str) -> Response:
        """What was shown and why, and what happened."""
        return bodies.answer(rankers.find(name).ranker.history(id))

    @router.get("/v1/rankers/{name}/report", dependencies=[pages], **described(404, answer=answers.ReportAnswer))
    def report(
        request: Request,
        name: str,
        segment: Segment = "",
        sort: Sort = "estimate",
        order: Order | None = None,
        search: Search = "",
        hours: Hours = 2.0,
        limit: Limit = 100,
        offset: Offset = 0,
        age: Age = 0.0,
    ) -> Response:
        """How it does against control and over time, and what is believed of its items."""
        hosted = rankers.find(name)
        if segment and segment not in hosted.ranker.segments():
            raise NotFound(f"segment {segment!r} is not one of this ranker's.")

        def look() -> answers.ReportAnswer:
            page, total = hosted.ranker.estimates(segment).rows(sort, order, search, limit, offset)
            return answers.ReportAnswer(name, segment, hosted.ranker.overview(hours), page, total)

        if age == 0.0:
            return bodies.answer(look())
        asked = ("report", segment, sort, order, search, hours, limit, offset)
        return watched.answer(hosted, asked, age, look).to(request)

    @router.get(
        "/v1/rankers/{name}/overview",
        dependencies=[needs(service.access, "read", "hours", "points")],
        **described(404, answer=answers.OverviewAnswer),
    )
    async def overview(request: Request, name: str, hours: Hours = 2.0, points: Points = 120) -> Response:
        """The report without items, for those who ask again and again: it may be a second old."""
        hosted = rankers.find(name)

        def look() -> answers.OverviewAnswer:
            return answers.OverviewAnswer(name, hosted.ranker.overview(hours, points))

        # Not in another thread: it is seldom made, and who makes it holds the ranker's lock.
        return watched.answer(hosted, ("overview", hours, points), 1.0, look).to(request)

    @router.get("/v1/rankers/{name}/segments", dependencies=[reads], **described(404, answer=answers.SegmentsAnswer))
    def segments(name: str) -> Response:
        """The segments that have a learner, from a to z."""
        return bodies.answer(answers.SegmentsAnswer(name, sorted(rankers.find(name).ranker.segments())))

    @router.get(
        "/v1/rankers/{name}/slots",
        dependencies=[needs(service.access, "read", "limit", "age")],
        **described(404, answer=answers.SlotCountsAnswer),
    )
    def slot_counts(request: Request, name: str, limit: Limit = 50, age: Age = 0.0) -> Response:
        """How often the items shown most stood in each place and were clicked there, by policy and control."""
        hosted = rankers.find(name)

        def look() -> answers.SlotCountsAnswer:
            return answers.SlotCountsAnswer(name, hosted.ranker.slot_counts(limit))

        if age == 0.0:
            return bodies.answer(look())
        return watched.answer(hosted, ("slots", limit), age, look).to(request)

    @router.get("/v1/rankers/{name}/diagnosis", dependencies=[reads], **described(404, answer=Diagnosis))
    def diagnosis(name: str) -> Response:
        """Which items it favours, what exploring costs, and whether visitors click as it assumes."""
        return bodies.answer(rankers.find(name).ranker.diagnosis())

    return router


Submitted = Commit[Receipt] | Exception
"""The commit of an event, or why it was refused."""


def _submit_all(ranker: Ranker, events: Sequence[FeedbackEvent]) -> list[tuple[FeedbackEvent, Submitted]]:
    """Submit events in their order."""
    submitted: list[tuple[FeedbackEvent, Submitted]] = []
    for event in events:
        try:
            commit: Submitted = ranker.submit_feedback(event, ranker.find_decision(event.decision))
        except (RankloopError, *UNCOMPUTABLE) as error:
            commit = error
        submitted.append((event, commit))
    return submitted


async def _bulk_answer(service: Service, name: str, event: FeedbackEvent, submitted: Submitted) -> BulkAnswer:
    """Wait for one event of many; one that is refused says so in its own answer."""
    try:
        if isinstance(submitted, Exception):
            raise submitted
        receipt = await submitted
    except RankloopError as error:
        why = refused(error)
    except UNCOMPUTABLE:
        why = uncomputable()
    else:
        service.metrics.count_feedback(name, receipt.status)
        return BulkAnswer(receipt.decision, receipt.status)
    return BulkAnswer(event.decision, "unavailable" if why.status == 503 else "refused", why.detail)


def _may_read(service: Service, request: Request) -> bool:
    """Whether a caller of an open route may see names: every caller where no keys are needed."""
    try:
        service.access.admit(dict(request.scope["headers"]), "read")
    except RequestRefused:
        return False
    return True


def of_health(service: Service) -> APIRouter:
    """Whether it lives, whether it can work, and numbers."""
    router, open_to_all = APIRouter(tags=["health"]), needs(service.access, None)
    readiness = ReadinessProbe(service.rankers)

    @router.get(
        "/healthz", dependencies=[open_to_all], **described(422, answer=answers.HealthAnswer, authenticated=False)
    )
    async def alive() -> Response:
        """The process answers."""
        return bodies.answer(answers.HealthAnswer("ok"))

    @router.get(
        "/readyz",
        dependencies=[open_to_all],
        **described(422, 503, answer=answers.ReadinessAnswer, authenticated=False),
    )
    async def ready(request: Request) -> Response:
        """The log can be read and is being written. Quarantined rankers are named to keys with the role read."""
        await readiness.check()
        aside = [
            answers.QuarantinedRanker(name, one.position, one.reason)
            for name, one in service.rankers.quarantined.items()
        ]
        if aside and not _may_read(service, request):
            aside = [answers.QuarantinedRanker("", 0, "send a key with the role read to see which and why")] * len(
                aside
            )
        return bodies.answer(answers.ReadinessAnswer("ok", aside))

    @router.get("/metrics", dependencies=[needs(service.access, "read")], **described(text=True))
    def metrics() -> Response:
        """For Prometheus."""
        return Response(service.metrics.text(), headers={"Content-Type": MEDIA})

    return router
