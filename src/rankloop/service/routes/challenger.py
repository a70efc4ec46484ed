"""The challenger of a ranker: rebuild it from the log, compare, promote and discard."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from rankloop.hosting.challenger_rebuild import ChallengerStatus
from rankloop.schema import RankerAnswer, RankerSettings
from rankloop.service import endpoints
from rankloop.service.openapi import describe_route
from rankloop.service.routes.audited import AuditedRoute
from rankloop.service.routes.dependencies import Fields, decode_fields, decoded_body, requires
from rankloop.service.service import Service


def router(service: Service) -> APIRouter:
    """Return the routes of challengers."""
    router, rankers = APIRouter(tags=["challenger"], route_class=AuditedRoute), service.rankers
    settings_body = decoded_body(decode_fields, service)
    reads, administers = requires(service.access, "read"), requires(service.access, "admin")

    @router.put(
        "/v1/rankers/{name}/challenger",
        dependencies=[administers],
        **describe_route(404, body=RankerSettings, answer=ChallengerStatus, status=202),
    )
    def put_challenger(request: Request, name: str, config: Fields = settings_body) -> Response:
        """Rebuild a challenger from the log in the background; it replaces an existing challenger."""
        rankers.put_challenger(name, config, request.state.by)
        return endpoints.json_response(rankers.challenger_status(name), 202)

    @router.get("/v1/rankers/{name}/challenger", dependencies=[reads], **describe_route(404, answer=ChallengerStatus))
    def show_challenger(name: str) -> Response:
        """Return the status of the challenger, and how well both policies predict the clicks of the same log."""
        return endpoints.json_response(rankers.challenger_status(name))

    @router.delete("/v1/rankers/{name}/challenger", dependencies=[administers], **describe_route(404, status=204))
    def discard_challenger(request: Request, name: str) -> Response:
        """Discard the challenger."""
        rankers.discard_challenger(name, request.state.by)
        return Response(status_code=204)

    @router.post(
        "/v1/rankers/{name}/promote", dependencies=[administers], **describe_route(404, 409, answer=RankerAnswer)
    )
    def promote(request: Request, name: str) -> Response:
        """Let the challenger decide; the active policy becomes the challenger, so that a repetition reverts this."""
        return endpoints.json_response(rankers.promote(name, request.state.by).answer())

    return router
