"""The settings that say which requests a busy service executes, and which it refuses."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from rankloop.schema.base import Payload
from rankloop.schema.limits import MAX_FLOAT

Requests = Annotated[int, Meta(ge=1)]
Milliseconds = Annotated[float, Meta(gt=0.0, le=86_400_000.0)]
Numbers = Annotated[float, Meta(gt=0.0, le=MAX_FLOAT)]


class AdmissionSettings(Payload, kw_only=True, frozen=True):
    """Which requests are executed under load, and which are refused with status 503 and Retry-After."""

    where: ClassVar[str] = "admission"

    deadline_ms: Annotated[
        Milliseconds,
        Meta(
            description="Milliseconds after which a rank or feedback request that still waits is refused and never "
            "executed; a caller may set an earlier deadline with the header `Request-Deadline-Ms`."
        ),
    ] = 1_000.0
    queue: Annotated[Requests, Meta(description="Maximum number of rank and feedback requests that wait.")] = 1_000
    ranker_queue: Annotated[
        Requests, Meta(description="Maximum number of rank and feedback requests that wait for one ranker.")
    ] = 250
    overload_ms: Annotated[
        Milliseconds,
        Meta(description="The service is overloaded when requests have been waiting for so long without a pause."),
    ] = 100.0
    overload_queue: Annotated[
        Requests,
        Meta(
            description="Maximum number of rank and feedback requests that wait while the service is overloaded: "
            "fewer, so that accepted requests are answered quickly."
        ),
    ] = 16
    running: Annotated[
        Requests,
        Meta(
            description="Maximum number of rank and feedback requests that are executed at a time, including those "
            "that wait for their commit."
        ),
    ] = 96
    overload_running: Annotated[
        Requests,
        Meta(
            description="Maximum number of rank and feedback requests that are executed at a time while the service "
            "is overloaded: as many as fill a commit."
        ),
    ] = 40
    others: Annotated[
        Requests,
        Meta(description="Maximum number of all other requests at a time; health checks are always admitted."),
    ] = 64
    ranker_others: Annotated[
        Requests, Meta(description="Maximum number of requests other than rank and feedback to one ranker at a time.")
    ] = 16
    ranker_threads: Annotated[
        Requests, Meta(description="Maximum number of threads that rank and feedback requests of one ranker use.")
    ] = 4
    rank_cost: Annotated[
        Numbers,
        Meta(
            description="Maximum cost of a request with a key of the role rank, in numbers that are computed: draws "
            "of a propensity times items times features."
        ),
    ] = 5e7
    admin_cost: Annotated[
        Numbers,
        Meta(
            description="Maximum cost of a request with a key of the role admin, in numbers that are computed: as for "
            "`rank_cost`, or items with priors times segments times the square of the features."
        ),
    ] = 1e8
