"""Loads the settings of the service from a YAML file and the environment; secrets are never printed."""

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
    """Return the settings of a file, overridden by the environment, overridden by the command line.

    A variable is `RANKLOOP_` and the field in capitals, with two underscores before a nested field:
    `RANKLOOP_LIMITS__BODY=2000000`. Its value is read as YAML.

    Args:
        path: the YAML file.
        environment: environment variables by name.
        overrides: settings of the command line; None leaves a setting as it is.
    """
    settings = _read_file(Path(path)) if path is not None else {}
    for keys, value in _variables(environment):
        target = settings
        for key in keys[:-1]:
            nested = fields_of(target.get(key)) or {}
            target[key] = nested
            target = nested
        target[keys[-1]] = value
    settings |= {name: value for name, value in (overrides or {}).items() if value is not None}
    return ServiceSettings.of(settings)


def _read_file(path: Path) -> dict[str, object]:
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput("--config", str(path), f"a file that can be read ({error.strerror})") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise RankloopError(f"{path} is not YAML.") from None  # the parser's message might contain a secret
    settings = {} if document is None else fields_of(document)
    if settings is None:
        raise InvalidInput("--config", str(path), "a mapping of settings")
    return settings


def _variables(environment: Mapping[str, str]) -> list[tuple[list[str], object]]:
    """Return the keys and values of the variables that name a setting; others, such as the client's, are ignored."""
    variables = []
    for name in sorted(environment):
        keys = name.removeprefix(PREFIX).lower().split("__")
        if name.startswith(PREFIX) and keys[0] in ServiceSettings.__struct_fields__:
            try:
                variables.append((keys, yaml.safe_load(environment[name])))
            except yaml.YAMLError:
                raise InvalidInput(name, Words("not YAML"), "a value as in the settings file") from None
    return variables
