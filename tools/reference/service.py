"""An application over an empty log in a temporary folder, for pages that describe its routes and metrics."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import get_args

from fastapi import FastAPI

from rankloop.schema.api_key import ApiKey, Role
from rankloop.schema.service_settings import ServiceSettings
from rankloop.service.app import create_app

ROLES: tuple[str, ...] = get_args(Role)


@contextmanager
def application() -> Iterator[FastAPI]:
    """Yield an application that has one API key for each role; the key is the name of the role."""
    keys = tuple(
        ApiKey(name=role, roles=frozenset({role}), salt="", sha256=hashlib.sha256(role.encode()).hexdigest())
        for role in get_args(Role)
    )
    rankers = {"example": {"policy": "cascade-ucb1", "slots": 2}}
    with tempfile.TemporaryDirectory() as folder:
        app = create_app(ServiceSettings(log=str(Path(folder) / "log.db"), keys=keys, rankers=rankers))
        try:
            yield app
        finally:
            app.state.service.close()
