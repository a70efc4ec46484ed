"""What a service refuses, as the errors that the engine would have raised in process."""

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
"""Errors that are more precise than their status."""
_problem = msgspec.json.Decoder(Problem).decode


def refusal(status: int, body: bytes) -> RankloopError:
    """The error of an answer that is no success."""
    try:
        made = _error(status, _problem(body))
    except msgspec.DecodeError:
        made = ServiceError(f"the service answered with status {status}.")
    made.status = status
    return made


def _error(status: int, told: Problem) -> RankloopError:
    if told.field is not None and told.accepted is not None:
        return InvalidInput(told.field, Words(told.given or ""), told.accepted, told.meant)
    made = (KINDS.get(told.kind) or STATUSES.get(status, ServiceError))(told.detail)
    made.field = told.field
    return made


def unreached(host: str | None, port: int, error: Exception) -> Unavailable:
    """The error of a request that got no answer."""
    made = Unavailable(f"no answer from {host}:{port} ({type(error).__name__}).")
    made.status = 0
    return made
