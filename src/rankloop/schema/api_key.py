"""API keys, as the settings of a service store them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from rankloop.errors import InvalidInput, Words
from rankloop.schema.base import Payload

ACCEPTED_TIME = "a date and time such as 2030-01-31T12:00:00Z"
Role = Literal["rank", "feedback", "read", "admin"]


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
    expires: Annotated[
        str | None,
        Meta(
            description="Time from which on the key is refused, in UTC if it has no offset (default: never).",
            extra={"accepted": ACCEPTED_TIME},
        ),
    ] = None

    def __post_init__(self) -> None:
        try:
            _ = self.expires_at
        except ValueError:
            raise InvalidInput("expires", Words("not acceptable"), ACCEPTED_TIME) from None

    @property
    def expires_at(self) -> float:
        """The expiry in seconds since 1970; infinite if the key does not expire."""
        if self.expires is None:
            return math.inf
        time = datetime.fromisoformat(self.expires)
        return (time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp()

    def __repr__(self) -> str:
        return f"ApiKey(name={self.name!r}, roles={sorted(self.roles)}, expires={self.expires})"


def check_key_names(keys: Iterable[ApiKey]) -> None:
    """Refuse two keys with the same name, unless all but one expire: during a rotation, old and new keys are valid."""
    lasting = [key.name for key in keys if key.expires is None]
    if len(set(lasting)) < len(lasting):
        raise InvalidInput("keys", Words("not acceptable"), "keys with distinct names, except those that expire")


def iso_time(seconds: float) -> str:
    """Return a time as text, in UTC and in whole seconds."""
    return datetime.fromtimestamp(round(seconds), UTC).isoformat().replace("+00:00", "Z")
