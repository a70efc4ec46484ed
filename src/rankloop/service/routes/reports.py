"""Reports about a ranker: results, item estimates, segments, slot counts and a diagnosis."""

from __future__ import annotations

from typing import Annotated, Literal

from anyio.to_thread import run_sync
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from rankloop.analytics.diagnosis import Diagnosis
from rankloop.errors import NotFound
from rankloop.service import answers, endpoints
from rankloop.service.openapi import describe_route
from rankloop.service.response_cache import ResponseCache
from rankloop.service.routes.dependencies import Limit, MaxAge, Offset, requires
from rankloop.service.service import Service

Segment = Annotated[str, Query(max_length=200, description="Segment whose estimates are returned.")]
Search = Annotated[str, Query(max_length=200, description="Text that the ids of the items contain.")]
Sort = Annotated[
    Literal["estimate", "item", "shown", "clicked", "click_through"], Query(description="Column to sort the items by.")
]
Order = Annotated[
    Literal["ascending", "descending"] | None, Query(description="Direction of the sort (default: by column).")
]
Hours = Annotated[
    float, Query(ge=0, le=24 * 90, allow_inf_nan=False, description="Number of past hours of the time series.")
]
Points = Annotated[int, Query(ge=1, le=1_000, description="Maximum number of points of the time series.")]
OVERVIEW_MAX_AGE_SECONDS = 1.0


def router(service: Service) -> APIRouter:
    """Return the routes of reports."""
    router, rankers, cache = APIRouter(tags=["reports"]), service.rankers, ResponseCache()
    reads = requires(service.access, "read")
    reads_report = requires(
        service.access, "read", "segment", "sort", "order", "search", "hours", "limit", "offset", "age"
    )

    @router.get(
        "/v1/rankers/{name}/report", dependencies=[reads_report], **describe_route(404, answer=answers.ReportAnswer)
    )
    def report(
        request: Request,
        name: str,
        segment: Segment = "",
        sort: Sort = "estimate",
        order: Order = None,
        search: Search = "",
        hours: Hours = 2.0,
        limit: Limit = 100,
        offset: Offset = 0,
        age: MaxAge = 0.0,
    ) -> Response:
        """Return the results of treatment and control over time, and the estimates of the items."""
        hosted = rankers.find(name)
        if segment and segment not in hosted.ranker.segments():
            raise NotFound(f"segment {segment!r} does not exist in this ranker.")

        def make() -> answers.ReportAnswer:
            table = hosted.ranker.estimates(segment)
            page, total = table.rows(sort, order, search, limit, offset)
            overview = hosted.ranker.overview(hours)
            return answers.ReportAnswer(name, segment, overview, page, total, table.slots, table.trust)

        if age == 0.0:
            return endpoints.json_response(make())
        query = ("report", segment, sort, order, search, hours, limit, offset)
        return cache.answer(hosted, query, age, make).to(request)

    @router.get(
        "/v1/rankers/{name}/overview",
        dependencies=[requires(service.access, "read", "hours", "points")],
        **describe_route(404, answer=answers.OverviewAnswer),
    )
    async def overview(request: Request, name: str, hours: Hours = 2.0, points: Points = 120) -> Response:
        """Return the report without items, for frequent polling: it may be a second old."""
        hosted = rankers.find(name)

        def make() -> answers.OverviewAnswer:
            return answers.OverviewAnswer(name, hosted.ranker.overview(hours, points))

        query = ("overview", hours, points)
        cached = cache.find(hosted, query, OVERVIEW_MAX_AGE_SECONDS)
        if cached is None:  # it is rarely computed, and may wait for the ranker
            cached = await run_sync(cache.answer, hosted, query, OVERVIEW_MAX_AGE_SECONDS, make)
        return cached.to(request)

    @router.get(
        "/v1/rankers/{name}/segments", dependencies=[reads], **describe_route(404, answer=answers.SegmentsAnswer)
    )
    def segments(name: str) -> Response:
        """Return the segments that have a learner, in alphabetical order."""
        return endpoints.json_response(answers.SegmentsAnswer(name, sorted(rankers.ranker(name).segments())))

    @router.get(
        "/v1/rankers/{name}/slots",
        dependencies=[requires(service.access, "read", "limit", "age")],
        **describe_route(404, answer=answers.SlotCountsAnswer),
    )
    def slot_counts(request: Request, name: str, limit: Limit = 50, age: MaxAge = 0.0) -> Response:
        """Return how often the most shown items were shown and clicked in each slot, by A/B group."""
        hosted = rankers.find(name)

        def make() -> answers.SlotCountsAnswer:
            return answers.SlotCountsAnswer(name, hosted.ranker.slot_counts(limit))

        if age == 0.0:
            return endpoints.json_response(make())
        return cache.answer(hosted, ("slots", limit), age, make).to(request)

    @router.get("/v1/rankers/{name}/diagnosis", dependencies=[reads], **describe_route(404, answer=Diagnosis))
    def diagnosis(name: str) -> Response:
        """Return which items are favoured, what exploration costs, and whether clicks fit the click model."""
        return endpoints.json_response(rankers.ranker(name).diagnosis())

    return router
