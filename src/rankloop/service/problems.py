"""Errors over HTTP: RFC 9457 problem documents with one clear sentence, without stack traces and secrets."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

import msgspec
from starlette.responses import Response

from rankloop.errors import RankloopError
from rankloop.schema.answers import Problem

MEDIA = "application/problem+json"
RETRY = {"Retry-After": "1"}


class RequestRefused(Exception):
    """A request that is answered with an error status and a sentence."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        field: str | None = None,
        headers: Mapping[str, str] | None = None,
        cause: RankloopError | None = None,
        by: str | None = None,
    ) -> None:
        self.status, self.detail, self.field, self.headers = status, detail, field, dict(headers or {})
        self.cause, self.by = cause, by  # `by` is the name of the API key that was refused
        super().__init__(detail)


UNCOMPUTABLE = (MemoryError, ArithmeticError)
"""Errors of a computation with numbers that are too large or too small."""


def refused(error: RankloopError) -> RequestRefused:
    """Return the refusal for an error that rankloop raised deliberately."""
    headers = RETRY if error.retry else None
    return RequestRefused(error.status, str(error), field=error.field, headers=headers, cause=error)


def uncomputable() -> RequestRefused:
    """Return the refusal for one of the errors in `UNCOMPUTABLE`."""
    return RequestRefused(422, "a number in the request is too large or too small to compute with.")


def phrase(status: int) -> str:
    """Return the standard phrase of a status code."""
    return HTTPStatus(status).phrase


def problem(error: RequestRefused) -> Problem:
    """Return the body of a refusal."""
    basics, cause = (phrase(error.status), error.status, error.detail, error.field), error.cause
    if cause is None:
        return Problem(*basics)
    return Problem(*basics, kind=cause.kind, given=cause.given, accepted=cause.accepted, meant=cause.meant)


def response(error: RequestRefused) -> Response:
    """Return the response of a refusal."""
    return Response(msgspec.json.encode(problem(error)), error.status, error.headers, MEDIA)


def internal() -> Response:
    """Return the response for an unexpected error."""
    return response(RequestRefused(500, "the service failed; the cause is in its log output."))


def not_acceptable(message: str) -> RequestRefused:
    """Return the refusal of a JSON body with a wrong type; `message` is msgspec's."""
    reason, _, path = message.partition(" - at ")
    field = _field(path) or "body"
    return RequestRefused(422, f"{field} is not acceptable: {reason[:1].lower()}{reason[1:]}.", field=field)


def not_json(reason: str) -> RequestRefused:
    """Return the refusal of a body that is not JSON."""
    return RequestRefused(400, f"the body is not JSON: {reason[:1].lower()}{reason[1:]}.")


def _field(path: str) -> str:
    """Return `$.items[0].id` as `items[0].id`."""
    return path.replace("`", "").replace("[...]", "").split(" in ")[-1].strip().removeprefix("$").removeprefix(".")
