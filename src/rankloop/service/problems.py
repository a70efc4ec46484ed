"""Errors over HTTP: RFC 9457 problems of one clear sentence, without traces and secrets."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.responses import Response

from rankloop.engine.records import CannotReplay
from rankloop.errors import Conflict, InvalidInput, NotFound, Quarantined, RankloopError, Unavailable
from rankloop.schema.answers import Problem

MEDIA = "application/problem+json"
RETRY = {"Retry-After": "1"}


class Refused(Exception):
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


STATUSES: tuple[tuple[type[RankloopError], int, Mapping[str, str]], ...] = (
    (Quarantined, 503, {}),
    (CannotReplay, 503, {}),
    (Unavailable, 503, RETRY),
    (NotFound, 404, {}),
    (Conflict, 409, {}),
    (RankloopError, 422, {}),
)
"""Statuses of errors, the first that fits."""


def refused(error: Exception) -> Refused | None:
    """The status and sentence of an error that was raised on purpose."""
    if isinstance(error, Refused):
        return error
    for kind, status, headers in STATUSES:
        if isinstance(error, kind):
            return Refused(status, str(error), field=error.field, headers=headers, cause=error)
    if isinstance(error, MemoryError | ArithmeticError):
        return Refused(422, "some number given is too large or too small to compute with.")
    return None


def problem(error: Refused) -> Problem:
    """The body of a refusal."""
    told = HTTPStatus(error.status).phrase, error.status, error.detail, error.field
    match error.cause:
        case InvalidInput() as cause:
            return Problem(*told, kind="InvalidInput", given=cause.given, accepted=cause.accepted, meant=cause.meant)
        case None:
            return Problem(*told)
        case other:
            return Problem(*told, kind=type(other).__name__)


def response(error: Refused) -> Response:
    """The whole answer of a refusal."""
    return Response(msgspec.json.encode(problem(error)), error.status, error.headers, MEDIA)


def internal() -> Response:
    """What is said of an error that nobody expected."""
    return response(Refused(500, "the service failed; its log says why."))


def malformed(error: Exception) -> Refused:
    """What is said of a body that cannot be decoded."""
    if isinstance(error, msgspec.ValidationError):
        told, _, at = str(error).partition(" - at ")
        field = _field(at) or "body"
        return Refused(422, f"{field} is not acceptable: {told[:1].lower()}{told[1:]}.", field=field)
    if isinstance(error, RecursionError):
        return Refused(400, "the body is nested too deeply.")
    told = str(error) if isinstance(error, msgspec.DecodeError) else "its text is not UTF-8"
    return Refused(400, f"the body is not JSON: {told[:1].lower()}{told[1:]}.")


def _field(at: str) -> str:
    """`$.items[0].id` as `items[0].id`."""
    inside: Any = at.replace("`", "").split(" in ")[-1]
    return str(inside).strip().removeprefix("$").removeprefix(".")
