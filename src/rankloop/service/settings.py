"""Loads the settings of the service from a YAML file and the environment; secrets are never printed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import yaml

from rankloop.errors import InvalidInput, RankloopError, Words
from rankloop.schema.api_key import ApiKey, check_key_names
from rankloop.schema.base import Payload
from rankloop.schema.mappings import fields_of
from rankloop.schema.service_settings import ServiceSettings
from rankloop.yaml_reader import load_yaml

PREFIX = "RANKLOOP_"


class _KeySettings(Payload, frozen=True):
    """The API keys of the settings, checked by themselves."""

    hides_values: ClassVar[bool] = True

    keys: tuple[ApiKey, ...]

    def check_consistency(self) -> None:
        """Refuse two lasting keys with the same name."""
        check_key_names(self.keys)


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
    settings = merged_settings(path, environment)
    settings |= {name: value for name, value in (overrides or {}).items() if value is not None}
    return ServiceSettings.of(settings)


def load_keys(path: str | Path, *, environment: Mapping[str, str] = os.environ) -> tuple[ApiKey, ...]:
    """Return the API keys of a settings file, overridden by the environment, whatever its other settings are."""
    return _KeySettings.of({"keys": merged_settings(path, environment).get("keys") or ()}).keys


def merged_settings(path: str | Path | None, environment: Mapping[str, str]) -> dict[str, object]:
    """Return the settings of a file, overridden by the environment, not checked."""
    settings = read_file(Path(path)) if path is not None else {}
    for keys, value in _variables(environment):
        target = settings
        for key in keys[:-1]:
            nested = fields_of(target.get(key)) or {}
            target[key] = nested
            target = nested
        target[keys[-1]] = value
    return settings


def read_file(path: Path) -> dict[str, object]:
    """Return the settings of a file, not checked."""
    try:
        document = load_yaml(path.read_text(encoding="utf-8"))
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
                variables.append((keys, load_yaml(environment[name])))
            except yaml.YAMLError:
                raise InvalidInput(name, Words("not YAML"), "a value as in the settings file") from None
    return variables
