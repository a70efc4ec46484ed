"""The settings of the HTTP service."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, field

from rankloop.errors import InvalidInput, Words
from rankloop.schema.admission_settings import AdmissionSettings
from rankloop.schema.base import Payload
from rankloop.schema.limits import MAX_FLOAT

Role = Literal["rank", "feedback", "read", "admin"]
Count = Annotated[int, Meta(ge=1)]
Positive = Annotated[float, Meta(gt=0.0, le=MAX_FLOAT)]


class ApiKey(Payload, kw_only=True, frozen=True):
    """An API key; only its hash is stored."""

    where: ClassVar[str] = "key"
    hides_values: ClassVar[bool] = True

    name: Annotated[
        str, Meta(min_length=1, max_length=100, description="Name of the key in logs and change histories.")
    ]
    roles: Annotated[
        frozenset[Role],
        Meta(
            min_length=1,
            description="Permissions of the key: rank, feedback, read, or admin, which includes all others.",
        ),
    ]
    salt: Annotated[str, Meta(description="Secret text that is hashed before the key.")]
    sha256: Annotated[str, Meta(description="Secret SHA-256 hash of salt and key, hexadecimal.")]

    def __repr__(self) -> str:
        return f"ApiKey(name={self.name!r}, roles={sorted(self.roles)})"


class ServiceLimits(Payload, kw_only=True, frozen=True):
    """Limits of requests and of stored objects."""

    where: ClassVar[str] = "limits"

    body: Annotated[Count, Meta(description="Maximum size of a request body in bytes.")] = 1_000_000
    list: Annotated[
        Count, Meta(description="Maximum number of candidates, excluded items or items in one request.")
    ] = 10_000
    bulk: Annotated[Count, Meta(description="Maximum number of feedback events in one bulk request.")] = 1_000
    rate: Annotated[Positive, Meta(description="Maximum number of requests per second for each key.")] = 10_000.0
    items: Annotated[Count, Meta(description="Maximum number of items of a ranker.")] = 100_000
    segments: Annotated[Count, Meta(description="Maximum number of segments of a ranker.")] = 1_000
    features: Annotated[
        Count, Meta(description="Maximum size of a feature vector: a ranker's `dim` times its `context`.")
    ] = 1_000
    rankers: Annotated[Count, Meta(description="Maximum number of rankers.")] = 1_000
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
    keys: Annotated[tuple[ApiKey, ...], Meta(description="API keys; `rankloop serve --new-key` creates one.")] = ()
    limits: Annotated[ServiceLimits, Meta(description="Limits of requests and of stored objects.")] = ServiceLimits()
    admission: Annotated[AdmissionSettings, Meta(description="Which requests a busy service executes or refuses.")] = (
        AdmissionSettings()
    )
    snapshots: Annotated[SnapshotSettings, Meta(description="When snapshots are stored.")] = SnapshotSettings()
    cors_origins: Annotated[
        tuple[str, ...], Meta(description="Origins of web pages that may call the service (CORS).")
    ] = ()
    policies: Annotated[
        tuple[str, ...], Meta(description="Policies of your own to load at the start, each as module:name.")
    ] = ()
    rankers: Annotated[
        dict[str, dict[str, Any]], Meta(description="Rankers to create if they do not exist, by name.")
    ] = field(default_factory=dict)

    def check_consistency(self) -> None:
        """Refuse two keys with the same name, and a service without keys that other machines could reach."""
        if len({key.name for key in self.keys}) < len(self.keys):
            raise InvalidInput("keys", Words("not acceptable"), "keys with distinct names")
        if not self.keys and not is_loopback(self.host):
            accepted = "a loopback address such as 127.0.0.1 without API keys; other addresses need keys"
            raise InvalidInput("host", self.host, accepted)

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
