"""The settings of a service."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, field

from rankloop.errors import InvalidInput, Words
from rankloop.schema.base import Payload
from rankloop.schema.limits import MAX_FLOAT

Role = Literal["rank", "feedback", "read", "admin"]
Count = Annotated[int, Meta(ge=1)]
Above = Annotated[float, Meta(gt=0.0, le=MAX_FLOAT)]


class ApiKey(Payload, kw_only=True, frozen=True):
    """An API key: only its hash is kept."""

    where: ClassVar[str] = "key"
    hides: ClassVar[bool] = True

    name: Annotated[str, Meta(min_length=1, max_length=100, description="who uses it, as logs and histories say it")]
    roles: Annotated[
        frozenset[Role], Meta(min_length=1, description="rank, feedback, read, or admin, which may do everything")
    ]
    salt: Annotated[str, Meta(description="text that is hashed before the key; secret")]
    sha256: Annotated[str, Meta(description="hash of salt and key, hexadecimal; secret")]

    def __repr__(self) -> str:
        return f"Key(name={self.name!r}, roles={sorted(self.roles)})"


class ServiceLimits(Payload, kw_only=True, frozen=True):
    """What one caller may ask for."""

    where: ClassVar[str] = "limits"

    body: Annotated[Count, Meta(description="bytes of a request's body")] = 1_000_000
    list: Annotated[Count, Meta(description="candidates, excluded items, or items at once")] = 10_000
    bulk: Annotated[Count, Meta(description="feedback events at once")] = 1_000
    rate: Annotated[Above, Meta(description="requests per second of one key")] = 10_000.0
    items: Annotated[Count, Meta(description="items of one ranker")] = 100_000
    segments: Annotated[Count, Meta(description="segments of one ranker")] = 1_000
    features: Annotated[Count, Meta(description="numbers of a row: features times context of one ranker")] = 1_000
    rankers: Annotated[Count, Meta(description="rankers of the service")] = 1_000
    draws: Annotated[int, Meta(ge=0, description="draws that estimate a propensity")] = 1_000


class SnapshotSettings(Payload, kw_only=True, frozen=True):
    """When a ranker's state is kept, so that the next start is quick."""

    where: ClassVar[str] = "snapshots"

    entries: Annotated[Count, Meta(description="log entries after the last snapshot")] = 20_000
    minutes: Annotated[Above, Meta(description="minutes after the last snapshot")] = 10.0


class ServiceSettings(Payload, kw_only=True, frozen=True):
    """A service's settings; every one has a default. Errors do not repeat what was given."""

    hides: ClassVar[bool] = True

    host: Annotated[str, Meta(description="address to listen on; without API keys only that of this machine")] = (
        "127.0.0.1"
    )
    port: Annotated[int, Meta(ge=0, le=65535, description="port to listen on; 0: any that is free")] = 8080
    log: Annotated[
        str, Meta(min_length=1, description="where everything is kept: an SQLite file, or postgresql://…")
    ] = "rankloop.db"
    keys: Annotated[tuple[ApiKey, ...], Meta(description="API keys; `rankloop serve --new-key` makes one")] = ()
    limits: Annotated[ServiceLimits, Meta(description="what one caller may ask for")] = ServiceLimits()
    snapshots: Annotated[SnapshotSettings, Meta(description="when states are kept")] = SnapshotSettings()
    cors_origins: Annotated[tuple[str, ...], Meta(description="web pages of these origins may call the service")] = ()
    policies: Annotated[
        tuple[str, ...], Meta(description="policies of your own, module:name each, loaded at the start")
    ] = ()
    rankers: Annotated[
        dict[str, dict[str, Any]], Meta(description="rankers to create where there are none of these names")
    ] = field(default_factory=dict)

    def settle(self) -> None:
        """Refuse two keys of one name, and a service that everybody could use."""
        if len({key.name for key in self.keys}) < len(self.keys):
            raise InvalidInput("keys", Words("not acceptable"), "keys of which every one has a name of its own")
        if not self.keys and not is_loopback(self.host):
            accepted = "a loopback address, such as 127.0.0.1, without API keys; any other one needs keys"
            raise InvalidInput("host", self.host, accepted)

    @property
    def is_open(self) -> bool:
        """Nobody needs a key: none is configured, and only this machine can connect."""
        return not self.keys

    def __repr__(self) -> str:
        return f"Settings(host={self.host!r}, port={self.port}, keys={self.keys})"  # the log may hold a password


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"
