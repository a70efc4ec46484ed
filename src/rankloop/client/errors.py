"""Converts error responses of the service to the exceptions that an in-process ranker raises."""

from __future__ import annotations

import msgspec

from rankloop.errors import (
    Conflict,
    ConflictingDecision,
    InvalidInput,
    NotAllowed,
    NotFound,
    Quarantined,
    RankloopError,
    ServiceError,
    TooMany,
    Unavailable,
    UnknownDecision,
    Unsupported,
    Words,
)
from rankloop.schema.answers import Problem

STATUSES: dict[int, type[RankloopError]] = {
    401: NotAllowed, 403: NotAllowed, 404: NotFound, 409: Conflict, 422: Unsupported, 429: TooMany, 503: Unavailable,
}  # fmt: skip
KINDS: dict[str | None, type[RankloopError]] = {
    kind.__name__: kind for kind in (UnknownDecision, ConflictingDecision, Quarantined)
}
"""Exceptions that are more specific than their status code."""
_problem = msgspec.json.Decoder(Problem).decode


def refusal(status: int, body: bytes) -> RankloopError:
    """Return the exception of an error response."""
    try:
        error = _error(status, _problem(body))
    except msgspec.DecodeError:
        error = ServiceError(f"the service answered with status {status}.")
    error.status = status
    return error


def _error(status: int, problem: Problem) -> RankloopError:
    if problem.field is not None and problem.accepted is not None:
        return InvalidInput(problem.field, Words(problem.given or ""), problem.accepted, problem.meant)
    error = (KINDS.get(problem.kind) or STATUSES.get(status, ServiceError))(problem.detail)
    error.field = problem.field
    return error


def unreached(host: str | None, port: int, error: Exception) -> Unavailable:
    """Return the exception of a request without a response."""
    unavailable = Unavailable(f"no answer from {host}:{port} ({type(error).__name__}).")
    unavailable.status = 0
    return unavailable
