"""Errors over HTTP: RFC 9457 problems of one clear sentence, without traces and secrets."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.responses import Response

from rankloop.engine import ConflictingDecision, UnknownDecision
from rankloop.engine.records import CannotReplay
from rankloop.errors import InvalidInput, Quarantined, RankloopError
from rankloop.store import StoreUnavailable

MEDIA = "application/problem+json"
RETRY = {"Retry-After": "1"}


class Refused(Exception):
    """A request that gets this status and sentence."""

    def __init__(
        self, status: int, detail: str, *, field: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        self.status, self.detail, self.field, self.headers = status, detail, field, dict(headers or {})
        super().__init__(detail)


class Problem(msgspec.Struct, omit_defaults=True):
    """What went wrong (RFC 9457)."""

    title: str
    status: int
    detail: str
    field: str | None = None
    type: str = "about:blank"


def refused(error: Exception) -> Refused | None:
    """The status and sentence of an error that was raised on purpose."""
    match error:
        case Refused():
            return error
        case StoreUnavailable():
            return Refused(503, str(error), headers=RETRY)
        case Quarantined() | CannotReplay():
            return Refused(503, str(error))
        case UnknownDecision():
            return Refused(404, str(error))
        case ConflictingDecision():
            return Refused(409, str(error), field="decision")
        case InvalidInput():
            return Refused(422, str(error), field=error.field)
        case RankloopError():
            return Refused(422, str(error))
        case MemoryError() | ArithmeticError():
            return Refused(422, "some number given is too large or too small to compute with.")
    return None


def problem(error: Refused) -> Problem:
    """The body of a refusal."""
    return Problem(HTTPStatus(error.status).phrase, error.status, error.detail, error.field)


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
