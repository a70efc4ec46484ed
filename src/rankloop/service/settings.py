"""What a service is told: one YAML file, overridden by the environment; secrets are never printed."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator

from rankloop.errors import InvalidInput, RankloopError, Words

PREFIX = "RANKLOOP_"
Role = Literal["rank", "feedback", "read", "admin"]


class Part(BaseModel):
    """Unknown fields are refused, and refusals do not repeat what was given."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class Key(Part):
    """An API key: only its hash is kept. `admin` may do everything."""

    name: str = Field(min_length=1, max_length=100)
    roles: frozenset[Role] = Field(min_length=1)
    salt: SecretStr
    sha256: SecretStr  # hexadecimal, of salt + key


class Limits(Part):
    """What one caller may ask for."""

    body: int = Field(default=1_000_000, ge=1)  # bytes
    list: int = Field(default=10_000, ge=1)  # candidates, excluded items, items at once
    bulk: int = Field(default=1_000, ge=1)  # feedback at once
    rate: float = Field(default=10_000.0, gt=0)  # requests per second of one key
    items: int = Field(default=100_000, ge=1)  # of one ranker
    segments: int = Field(default=1_000, ge=1)  # of one ranker
    features: int = Field(default=1_000, ge=1)  # of a row: features × context of one ranker
    rankers: int = Field(default=1_000, ge=1)
    draws: int = Field(default=1_000, ge=0)  # that estimate a propensity


class Snapshots(Part):
    """When a ranker's state is kept, so that the next start is quick."""

    entries: int = Field(default=20_000, ge=1)
    minutes: float = Field(default=10.0, gt=0)


class Settings(Part):
    """All settings; every one has a default."""

    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=0, le=65535)
    log: str = Field(default="rankloop.db", min_length=1, repr=False)  # a file, or postgresql://… with a password
    keys: tuple[Key, ...] = ()
    limits: Limits = Limits()
    snapshots: Snapshots = Snapshots()
    cors_origins: tuple[str, ...] = ()
    policies: tuple[str, ...] = ()  # module:name of functions from a Setting to a policy, loaded at the start
    rankers: dict[str, dict[str, Any]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _guarded(self) -> Self:
        if len({key.name for key in self.keys}) < len(self.keys):
            raise ValueError("every key needs a name of its own")
        if not self.keys and not is_loopback(self.host):
            raise ValueError("without API keys the service listens on loopback only: set host to 127.0.0.1, or keys")
        return self

    @property
    def is_open(self) -> bool:
        """Nobody needs a key: none is configured, and only this machine can connect."""
        return not self.keys


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def load(
    path: str | Path | None = None,
    *,
    environment: Mapping[str, str] = os.environ,
    overrides: Mapping[str, Any] | None = None,
) -> Settings:
    """Settings of a file, then of the environment, then of the command line; the last one counts.

    A variable is `RANKLOOP_` and the field in capitals, two underscores before a field of a part:
    `RANKLOOP_LIMITS__BODY=2000000`. Its value is read as YAML.
    """
    given = _file(Path(path)) if path is not None else {}
    for steps, value in _variables(environment):
        place = given
        for step in steps[:-1]:
            held = place.get(step)
            place[step] = dict(held) if isinstance(held, Mapping) else {}
            place = place[step]
        place[steps[-1]] = value
    given |= {name: value for name, value in (overrides or {}).items() if value is not None}
    try:
        return Settings.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        field = ".".join(str(step) for step in first["loc"]) or "settings"
        raise InvalidInput(field, Words("not acceptable"), first["msg"].removeprefix("Value error, ")) from None


def _file(path: Path) -> dict[str, Any]:
    try:
        given = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput("--config", str(path), f"a file that can be read ({error.strerror})") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise RankloopError(f"{path} is not YAML.") from None  # its words might hold a secret
    if given is not None and not isinstance(given, dict):
        raise InvalidInput("--config", str(path), "a mapping of settings")
    return given or {}


def _variables(environment: Mapping[str, str]) -> list[tuple[list[str], Any]]:
    """The variables that name a setting; others, such as those of the client, are left alone."""
    found = []
    for name in sorted(environment):
        steps = name.removeprefix(PREFIX).lower().split("__")
        if name.startswith(PREFIX) and steps[0] in Settings.model_fields:
            try:
                found.append((steps, yaml.safe_load(environment[name])))
            except yaml.YAMLError:
                raise InvalidInput(name, Words("not YAML"), "a value as in the settings file") from None
    return found
