"""Where a service's settings come from: one YAML file, overridden by the environment; secrets are never printed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import yaml

from rankloop.errors import InvalidInput, RankloopError, Words
from rankloop.schema.mappings import fields_of
from rankloop.schema.service_settings import ServiceSettings

PREFIX = "RANKLOOP_"


def load(
    path: str | Path | None = None,
    *,
    environment: Mapping[str, str] = os.environ,
    overrides: Mapping[str, object] | None = None,
) -> ServiceSettings:
    """Settings of a file, then of the environment, then of the command line; the last one counts.

    A variable is `RANKLOOP_` and the field in capitals, two underscores before a field of a part:
    `RANKLOOP_LIMITS__BODY=2000000`. Its value is read as YAML.
    """
    given = _file(Path(path)) if path is not None else {}
    for steps, value in _variables(environment):
        place = given
        for step in steps[:-1]:
            inner = fields_of(place.get(step)) or {}
            place[step] = inner
            place = inner
        place[steps[-1]] = value
    given |= {name: value for name, value in (overrides or {}).items() if value is not None}
    return ServiceSettings.of(given)


def _file(path: Path) -> dict[str, object]:
    try:
        given = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput("--config", str(path), f"a file that can be read ({error.strerror})") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise RankloopError(f"{path} is not YAML.") from None  # its words might hold a secret
    found = {} if given is None else fields_of(given)
    if found is None:
        raise InvalidInput("--config", str(path), "a mapping of settings")
    return found


def _variables(environment: Mapping[str, str]) -> list[tuple[list[str], object]]:
    """The variables that name a setting; others, such as those of the client, are left alone."""
    found = []
    for name in sorted(environment):
        steps = name.removeprefix(PREFIX).lower().split("__")
        if name.startswith(PREFIX) and steps[0] in ServiceSettings.__struct_fields__:
            try:
                found.append((steps, yaml.safe_load(environment[name])))
            except yaml.YAMLError:
                raise InvalidInput(name, Words("not YAML"), "a value as in the settings file") from None
    return found
