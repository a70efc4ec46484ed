"""The settings of the HTTP service."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Any, ClassVar

from msgspec import Meta, field

from rankloop.errors import InvalidInput, Words
from rankloop.schema.admission_settings import AdmissionSettings
from rankloop.schema.api_key import ApiKey, check_key_names
from rankloop.schema.base import Payload
from rankloop.schema.connection_settings import ConnectionSettings
from rankloop.schema.limits import MAX_FLOAT

Count = Annotated[int, Meta(ge=1)]
Secret = Annotated[str, Meta(min_length=32)]
Positive = Annotated[float, Meta(gt=0.0, le=MAX_FLOAT)]


class ServiceLimits(Payload, kw_only=True, frozen=True):
    """Limits of requests and of stored objects."""

    where: ClassVar[str] = "limits"

    body: Annotated[Count, Meta(description="Maximum size of a request body in bytes.")] = 1_000_000
    list: Annotated[
        Count, Meta(description="Maximum number of candidates, excluded items or items in one request.")
    ] = 10_000
    bulk: Annotated[Count, Meta(description="Maximum number of feedback events in one bulk request.")] = 1_000
    rate: Annotated[Positive, Meta(description="Maximum number of requests per second for each key.")] = 10_000.0
    token_rate: Annotated[Positive, Meta(description="Maximum number of requests per second for each token.")] = 20.0
    token_seconds: Annotated[Count, Meta(description="Maximum validity of a token in seconds.")] = 86_400
    items: Annotated[Count, Meta(description="Maximum number of items of a ranker.")] = 100_000
    segments: Annotated[Count, Meta(description="Maximum number of segments of a ranker.")] = 1_000
    features: Annotated[
        Count, Meta(description="Maximum size of a feature vector: a ranker's `dim` times its `context`.")
    ] = 1_000
    rankers: Annotated[Count, Meta(description="Maximum number of rankers.")] = 1_000
    memory: Annotated[
        Count | None,
        Meta(
            description="Maximum memory of all rankers together in bytes: their states, and the temporary copies of "
            "the largest one while its snapshot is stored. By default half of the memory that the process may use."
        ),
    ] = None
    open_decisions: Annotated[
        Count,
        Meta(
            description="Maximum number of open decisions of a ranker; beyond it, the oldest are closed as if their"
            " feedback windows had ended."
        ),
    ] = 1_000_000
    draws: Annotated[int, Meta(ge=0, description="Maximum number of Monte Carlo draws for a propensity.")] = 1_000


class SnapshotSettings(Payload, kw_only=True, frozen=True):
    """When a snapshot of a ranker's state is stored, which makes the next start fast."""

    where: ClassVar[str] = "snapshots"

    entries: Annotated[Count, Meta(description="Number of log entries after which a new snapshot is stored.")] = 20_000
    minutes: Annotated[
        Positive, Meta(description="Minutes after which a new snapshot is stored, if the log has grown.")
    ] = 10.0


class ServiceSettings(Payload, kw_only=True, frozen=True):
    """Settings of the service. Every setting has a default. Errors do not repeat values, which may be secrets."""

    hides_values: ClassVar[bool] = True

    host: Annotated[str, Meta(description="Address to listen on; without API keys it must be a loopback address.")] = (
        "127.0.0.1"
    )
    port: Annotated[int, Meta(ge=0, le=65535, description="Port to listen on; 0 chooses a free one.")] = 8080
    log: Annotated[
        str,
        Meta(
            min_length=1, description="Log in which all state is stored: an SQLite file, or a postgresql://… address."
        ),
    ] = "rankloop.db"
    workers: Annotated[
        Count,
        Meta(description="Number of processes that serve one PostgreSQL log on this machine, behind one address."),
    ] = 1
    shared: Annotated[
        bool,
        Meta(
            description="Whether processes elsewhere may serve the same PostgreSQL log; `workers` above 1 implies it."
        ),
    ] = False
    max_lag: Annotated[
        Positive,
        Meta(description="Seconds behind the log of other processes after which a process answers /readyz with 503."),
    ] = 5.0
    keys: Annotated[tuple[ApiKey, ...], Meta(description="API keys; `rankloop serve --new-key` creates one.")] = ()
    token_secret: Annotated[
        Secret | None,
        Meta(
            description="Secret text that signs the tokens of browsers (default: a random one, so that all tokens end "
            "with the process)."
        ),
    ] = None
    audit: Annotated[
        str | None,
        Meta(
            description="File to which the audit records of administrative requests are appended, one JSON object in "
            "each line (default: standard error).",
        ),
    ] = None
    limits: Annotated[ServiceLimits, Meta(description="Limits of requests and of stored objects.")] = ServiceLimits()
    admission: Annotated[AdmissionSettings, Meta(description="Which requests a busy service executes or refuses.")] = (
        AdmissionSettings()
    )
    connections: Annotated[ConnectionSettings, Meta(description="Limits and time-outs of connections.")] = (
        ConnectionSettings()
    )
    snapshots: Annotated[SnapshotSettings, Meta(description="When snapshots are stored.")] = SnapshotSettings()
    cors_origins: Annotated[
        tuple[str, ...], Meta(description="Origins of web pages that may call the service (CORS).")
    ] = ()
    hosts: Annotated[
        tuple[str, ...],
        Meta(
            description="Host names by which the service may be addressed, without ports; empty: any name if there are "
            "API keys. Without keys, only loopback names are accepted."
        ),
    ] = ()
    policies: Annotated[
        tuple[str, ...], Meta(description="Policies of your own to load at the start, each as module:name.")
    ] = ()
    rankers: Annotated[
        dict[str, dict[str, Any]], Meta(description="Rankers to create if they do not exist, by name.")
    ] = field(default_factory=dict)

    def check_consistency(self) -> None:
        """Refuse what would never match, and a service without keys that other machines could reach."""
        check_key_names(self.keys)
        if self.shares_log and not self.log.startswith(("postgresql://", "postgres://")):
            accepted = "a postgresql://… address where several processes serve it; an SQLite file is for one process"
            raise InvalidInput("log", Words("a file"), accepted)
        for i, host in enumerate(self.hosts):
            if "/" in host or (":" in host and not (host.startswith("[") and host.endswith("]"))):
                raise InvalidInput(f"hosts[{i}]", host, "a host name without a port, or an IPv6 address in brackets")
        for i, origin in enumerate(self.cors_origins):
            if origin.endswith("/"):
                raise InvalidInput(
                    f"cors_origins[{i}]", origin, "an origin without a path, such as https://shop.example"
                )
        if not self.keys and not is_loopback(self.host):
            accepted = "a loopback address such as 127.0.0.1 without API keys; other addresses need keys"
            raise InvalidInput("host", self.host, accepted)

    @property
    def shares_log(self) -> bool:
        """Whether several processes serve the log."""
        return self.shared or self.workers > 1

    @property
    def is_open(self) -> bool:
        """Whether requests need no key: none is configured, and only this machine can connect."""
        return not self.keys

    def __repr__(self) -> str:
        return f"ServiceSettings(host={self.host!r}, port={self.port}, keys={self.keys})"  # the log may hold a password


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"
