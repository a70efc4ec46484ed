"""The settings of connections: how many may be open, and how long a client may keep one waiting."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from rankloop.schema.base import Payload
from rankloop.schema.limits import MAX_FLOAT

ConnectionCount = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(gt=0.0, le=MAX_FLOAT)]


class ConnectionSettings(Payload, kw_only=True, frozen=True):
    """Limits of connections. Beyond a limit, the connection that has waited longest for its client is closed."""

    where: ClassVar[str] = "connections"

    total: Annotated[
        ConnectionCount,
        Meta(description="Maximum number of open connections; fewer if the process may open too few files."),
    ] = 1_000
    per_address: Annotated[
        ConnectionCount,
        Meta(
            description="Maximum number of open connections from one address (IPv6: one /64 network). A reverse proxy "
            "is one address."
        ),
    ] = 500
    reserve: Annotated[
        int,
        Meta(ge=0, description="Number of file descriptors that are kept free of connections, for the log and others."),
    ] = 64
    head_seconds: Annotated[
        Seconds,
        Meta(
            description="Seconds from the connection, or from the first byte of a further request, to the end of the "
            "request's headers."
        ),
    ] = 10.0
    body_seconds: Annotated[Seconds, Meta(description="Seconds in which the body of a request must arrive.")] = 60.0
    answer_seconds: Annotated[Seconds, Meta(description="Seconds in which a client must receive an answer.")] = 60.0
    idle_seconds: Annotated[
        Seconds, Meta(description="Seconds after which a connection without a further request is closed.")
    ] = 75.0
    min_rate: Annotated[
        Seconds,
        Meta(
            description="Minimum rate in bytes per second at which a client sends a body and receives an answer, "
            "measured after 5 seconds."
        ),
    ] = 1_000.0
