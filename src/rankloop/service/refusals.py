"""Why a busy service refuses requests, and the sentences that say so."""

from __future__ import annotations

import random

from rankloop.service.problems import RequestRefused

QUEUE_FULL, FAIR_SHARE, DEADLINE = "queue_full", "fair_share", "deadline"
DETAILS = {
    QUEUE_FULL: "the service is overloaded: too many requests wait; try again later.",
    FAIR_SHARE: "the service is overloaded, and this key or ranker uses more than its share; try again later.",
    DEADLINE: "the request waited for longer than its deadline and was not executed; try again later.",
}
MAX_RETRY_SECONDS = 3
"""Retry-After is drawn from 1 to this, so that refused callers do not all come back together."""


def overloaded(reason: str, retry_seconds: int | None = None) -> RequestRefused:
    """Return the refusal of a request that was not executed, with a random Retry-After unless one is given."""
    seconds = random.randint(1, MAX_RETRY_SECONDS) if retry_seconds is None else retry_seconds  # noqa: S311
    return RequestRefused(503, DETAILS[reason], headers={"Retry-After": str(seconds)})
