"""Rankers: list, show, create, change, delete, and reset the guardrail."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from rankloop.hosting.change_history import ChangeHistory, change_history
from rankloop.schema import RankerAnswer, RankerSettings
from rankloop.schema.answers import RankersAnswer
from rankloop.service import answers, endpoints
from rankloop.service.openapi import describe_route
from rankloop.service.routes.audited import AuditedRoute
from rankloop.service.routes.dependencies import Fields, decode_fields, decoded_body, requires
from rankloop.service.service import Service


def router(service: Service) -> APIRouter:
    """Return the routes of rankers."""
    router, rankers = APIRouter(tags=["rankers"], route_class=AuditedRoute), service.rankers
    settings_body = decoded_body(decode_fields, service)
    reads, administers = requires(service.access, "read"), requires(service.access, "admin")

    @router.get("/v1/rankers", dependencies=[reads], **describe_route(answer=RankersAnswer))
    def list_rankers() -> Response:
        """Return all rankers, including the quarantined ones."""
        return endpoints.json_response(RankersAnswer([hosted.answer() for hosted in rankers.all()]))

    @router.get("/v1/rankers/{name}", dependencies=[reads], **describe_route(404, answer=RankerAnswer))
    def show_ranker(name: str) -> Response:
        """Return the settings, counts and results of a ranker."""
        return endpoints.json_response(rankers.find(name).answer())

    @router.put(
        "/v1/rankers/{name}",
        dependencies=[administers],
        **describe_route(201, 409, body=RankerSettings, answer=RankerAnswer),
    )
    def put_ranker(request: Request, name: str, config: Fields = settings_body) -> Response:
        """Create a ranker, or change its settings and keep what it has learned.

        Adjustable settings that are not given keep their values.
        """
        is_new = rankers.put(name, config, request.state.by)
        return endpoints.json_response(rankers.find(name).answer(), 201 if is_new else 200)

    @router.patch(
        "/v1/rankers/{name}",
        dependencies=[administers],
        **describe_route(404, 409, body=answers.RankerChanges, answer=RankerAnswer),
    )
    def patch_ranker(request: Request, name: str, changes: Fields = settings_body) -> Response:
        """Change the given settings; a setting that determines what was learned needs `reset: true`."""
        return endpoints.json_response(rankers.patch(name, changes, request.state.by).answer())

    @router.get("/v1/rankers/{name}/history", dependencies=[reads], **describe_route(404, answer=ChangeHistory))
    def ranker_history(name: str) -> Response:
        """Return every change of a ranker's settings with its time and API key, oldest first."""
        rankers.find(name)
        return endpoints.json_response(change_history(rankers.store, name))

    @router.delete("/v1/rankers/{name}", dependencies=[administers], **describe_route(404, status=204))
    def delete_ranker(request: Request, name: str) -> Response:
        """Delete a ranker; its log is kept."""
        rankers.delete(name, request.state.by)
        return Response(status_code=204)

    @router.post(
        "/v1/rankers/{name}/guardrail/reset", dependencies=[administers], **describe_route(404, answer=RankerAnswer)
    )
    def reset_guardrail(name: str) -> Response:
        """Let the policy decide again after the guardrail has tripped."""
        hosted = rankers.find(name)
        hosted.ranker.reset_guardrail()
        return endpoints.json_response(hosted.answer())

    return router
