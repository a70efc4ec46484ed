"""Requests made from the OpenAPI document, good and bad: the service answers each as the document says.

The long version: make fuzz
"""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from rankloop.schema.service_settings import ServiceSettings
from rankloop.service.access.auth import make_key
from rankloop.service.app import application
from rankloop.service.service import Service

pytestmark = pytest.mark.slow

SECONDS = float(os.environ.get("RANKLOOP_FUZZ", "25"))
EXAMPLES = max(12, round(SECONDS / 2))
"""Of one kind, for each operation; where there is no time for all of them, for as many as there is."""
log = logging.getLogger("rankloop.tests")
NAME = "0"
CONFIG = {"policy": "cascade-lin-ts", "slots": 3, "dim": 2}
ITEMS = [{"id": id, "features": [0.1, 0.2]} for id in ("a", "b", "c", "0")]
EXCLUDED = [positive_data_acceptance]  # a body that the schema allows may still name an item that is not there


@pytest.fixture
def service(tmp_path: Path) -> Iterator[tuple[Any, str]]:
    """An application with a ranker, and its key."""
    key, kept = make_key("fuzz", ["admin"])
    service = Service.open(ServiceSettings.of({"log": str(tmp_path / "log.db"), "keys": [kept]}))
    yield application(service), key
    service.close()


def test_every_response_conforms_to_the_openapi_document(service: tuple[Any, str]) -> None:
    app, key = service
    rankers = app.state.service.rankers
    operations: list[Any] = [found.ok() for found in _schema(app, key).get_all_operations()]
    assert len(operations) == 30
    asked: list[int] = []

    def ask(case: Any) -> None:
        if NAME not in {hosted.name for hosted in rankers}:
            rankers.put(NAME, CONFIG)
            rankers.put_items(NAME, ITEMS)
        asked.append(case.call_and_validate(excluded_checks=EXCLUDED).status_code)

    begin = time.monotonic()
    for i, operation in enumerate(operations):
        end = begin + SECONDS * (i + 1) / len(operations)  # nobody takes the others' time
        for mode in GenerationMode:
            _play(operation.as_strategy(mode), ask, end)
            if "{name}" in operation.path:  # of the ranker that is there, by somebody who may
                allowed = {"Authorization": f"Bearer {key}"}
                _play(operation.as_strategy(mode, path_parameters={"name": NAME}, headers=allowed), ask, end)
    assert {200, 404, 422} <= set(asked)  # a slow machine has time for fewer of the rarer ones
    assert len(asked) >= 2 * len(operations)
    log.info("%s requests: %s", f"{len(asked):,}", ", ".join(f"{n:,} × {s}" for s, n in sorted(Counter(asked).items())))


def _schema(app: Any, key: str) -> Any:
    config = schemathesis.Config.from_dict({"auth": {"openapi": {"key": {"bearer": key}}}})
    return schemathesis.openapi.from_asgi("/openapi.json", app, config=config)


def _play(cases: Any, ask: Callable[[Any], None], end: float) -> None:
    """Ask so many times, as long as there is time, and at least once."""
    some = False

    @given(case=cases)
    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def one(case: Any) -> None:
        nonlocal some
        if not some or time.monotonic() < end:
            some = True
            ask(case)

    with suppress(Unsatisfiable):  # nothing can be wrong with a request that takes nothing
        one()
