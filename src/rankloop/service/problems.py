"""Errors over HTTP: RFC 9457 problems of one clear sentence, without traces and secrets."""

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
    """A request that gets this status and sentence."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        field: str | None = None,
        headers: Mapping[str, str] | None = None,
        cause: RankloopError | None = None,
    ) -> None:
        self.status, self.detail, self.field, self.headers = status, detail, field, dict(headers or {})
        self.cause = cause
        super().__init__(detail)


UNCOMPUTABLE = (MemoryError, ArithmeticError)
"""Errors of numbers that no service can compute with."""


def refused(error: RankloopError) -> RequestRefused:
    """The status and sentence of an error that was raised on purpose."""
    headers = RETRY if error.retry else None
    return RequestRefused(error.status, str(error), field=error.field, headers=headers, cause=error)


def uncomputable() -> RequestRefused:
    """What is said of one of the errors `UNCOMPUTABLE`."""
    return RequestRefused(422, "some number given is too large or too small to compute with.")


def problem(error: RequestRefused) -> Problem:
    """The body of a refusal."""
    told, why = (HTTPStatus(error.status).phrase, error.status, error.detail, error.field), error.cause
    if why is None:
        return Problem(*told)
    return Problem(*told, kind=why.kind, given=why.given, accepted=why.accepted, meant=why.meant)


def response(error: RequestRefused) -> Response:
    """The whole answer of a refusal."""
    return Response(msgspec.json.encode(problem(error)), error.status, error.headers, MEDIA)


def internal() -> Response:
    """What is said of an error that nobody expected."""
    return response(RequestRefused(500, "the service failed; its log says why."))


def not_acceptable(why: str) -> RequestRefused:
    """What is said of a body that is JSON of another type; `why` as msgspec has it."""
    told, _, at = why.partition(" - at ")
    field = _field(at) or "body"
    return RequestRefused(422, f"{field} is not acceptable: {told[:1].lower()}{told[1:]}.", field=field)


def not_json(why: str) -> RequestRefused:
    """What is said of a body that is not JSON."""
    return RequestRefused(400, f"the body is not JSON: {why[:1].lower()}{why[1:]}.")


def _field(at: str) -> str:
    """`$.items[0].id` as `items[0].id`."""
    return at.replace("`", "").split(" in ")[-1].strip().removeprefix("$").removeprefix(".")
