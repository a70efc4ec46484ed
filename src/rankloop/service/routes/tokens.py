"""Tokens with which browsers rank and report feedback."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from rankloop.errors import InvalidInput
from rankloop.schema import Decoder
from rankloop.schema.request_bodies import TokenAnswer, TokenRequest
from rankloop.service import endpoints
from rankloop.service.access.auth import ISSUES_TOKENS
from rankloop.service.openapi import describe_route
from rankloop.service.routes.audited import AuditedRoute
from rankloop.service.routes.dependencies import decoded_body, requires
from rankloop.service.service import Service


def router(service: Service) -> APIRouter:
    """Return the route of tokens."""
    router, access, body = (
        APIRouter(tags=["tokens"], route_class=AuditedRoute),
        service.access,
        decoded_body(Decoder(TokenRequest), service),
    )

    @router.post(
        "/v1/rankers/{name}/tokens",
        dependencies=[requires(access, ISSUES_TOKENS)],
        **describe_route(404, body=TokenRequest, answer=TokenAnswer, status=201),
    )
    async def issue_token(request: Request, name: str, wanted: TokenRequest = body) -> Response:
        """Issue a token for browsers: with the roles rank and feedback, for this ranker only.

        The key must have both roles. A token ends with its time, or when the key that issued it ends or is revoked.
        """
        service.rankers.find(name)
        if wanted.seconds > service.limits.token_seconds:
            accepted = f"a whole number from 1 to {service.limits.token_seconds}"
            raise InvalidInput("seconds", wanted.seconds, accepted)
        issued = access.tokens.issue(name, access.issuer(dict(request.scope["headers"])), wanted.seconds)
        return endpoints.json_response(TokenAnswer(issued.text, name, issued.expires_at), 201)

    return router
