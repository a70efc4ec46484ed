"""Liveness, readiness and metrics."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from rankloop.service import answers, endpoints
from rankloop.service.metrics import MEDIA
from rankloop.service.openapi import describe_route
from rankloop.service.problems import RequestRefused
from rankloop.service.readiness import ReadinessProbe
from rankloop.service.routes.dependencies import requires
from rankloop.service.service import Service


def router(service: Service) -> APIRouter:
    """Return the routes for probes and monitoring."""
    router, admits_everyone = APIRouter(tags=["health"]), requires(service.access, None)
    readiness = ReadinessProbe(service.rankers, service.warm_up, service.settings.max_lag)

    @router.get(
        "/healthz",
        dependencies=[admits_everyone],
        **describe_route(422, answer=answers.HealthAnswer, authenticated=False),
    )
    async def alive() -> Response:
        """Confirm that the process responds."""
        return endpoints.json_response(answers.HealthAnswer("ok"))

    @router.get(
        "/readyz",
        dependencies=[admits_everyone],
        **describe_route(422, 503, answer=answers.ReadinessAnswer, authenticated=False),
    )
    async def ready(request: Request) -> Response:
        """Confirm that the rankers are warmed up and that the log can be read and written; list quarantined rankers.

        Their names and reasons are shown to keys with the role read only.
        """
        await readiness.check()
        quarantined = [
            answers.QuarantinedRanker(name, quarantine.position, quarantine.reason)
            for name, quarantine in service.rankers.quarantined.items()
        ]
        if quarantined and not _may_read(service, request):
            hidden = answers.QuarantinedRanker("", 0, "send a key with the role read to see which ranker and why")
            quarantined = [hidden] * len(quarantined)
        answer, writer = answers.ReadinessAnswer("ok", quarantined), service.rankers.writer
        if (lag := writer.lag) is not None:
            answer.lag, answer.leads = round(lag, 4), writer.leads
        return endpoints.json_response(answer)

    @router.get("/metrics", dependencies=[requires(service.access, "read")], **describe_route(text=True))
    def metrics() -> Response:
        """Return the metrics in the text format of Prometheus."""
        return Response(service.metrics.text(), headers={"Content-Type": MEDIA})

    return router


def _may_read(service: Service, request: Request) -> bool:
    """Return whether the caller may see names: without API keys, every caller may."""
    try:
        service.access.admit(dict(request.scope["headers"]), "read")
    except RequestRefused:
        return False
    return True
