"""A running service as its users see it: what the tests of its promises share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from rankloop.cli.main import main
from served import Served, until

Answer = dict[str, Any]


class Site:
    """Asks a service over HTTP, also after it was killed and started again."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self._client = httpx.Client(timeout=60.0)

    def __call__(self, method: str, path: str, body: Any = None, key: str | None = None) -> httpx.Response:
        """One request, whatever becomes of it."""
        headers = {"Content-Type": "application/json"} | ({} if key is None else {"Authorization": f"Bearer {key}"})
        return self._client.request(method, self.served.url + path, json=body, headers=headers)

    def ranker(self, name: str, method: str = "GET", path: str = "", body: Any = None, status: int = 200) -> Any:
        """A request about a ranker that must have this status; its answer."""
        response = self(method, f"/v1/rankers/{name}{path}", body)
        assert response.status_code == status, response.text
        return response.json() if response.content else None

    def create(self, name: str, config: Answer, items: list[Answer]) -> None:
        """A new ranker with items."""
        self.ranker(name, "PUT", body=config, status=201)
        self.ranker(name, "PUT", "/items", {"items": items}, 204)

    def rank(self, name: str, **asked: Any) -> Answer:
        """A list."""
        found: Answer = self.ranker(name, "POST", "/rank", asked)
        return found

    def tell(self, name: str, decision: str, **told: Any) -> str:
        """What became of feedback that must be taken."""
        found: str = self.ranker(name, "POST", "/feedback", {"decision": decision} | told)["status"]
        return found

    def report(self, name: str) -> dict[str, Answer]:
        """What is believed of the items, by id."""
        return {row["item"]: row for row in self.ranker(name, path="/report")["items"]}

    def settled(self, name: str) -> None:
        """Wait until the windows of all lists have closed."""
        until(lambda: self.ranker(name)["open_decisions"] == 0, "the windows close")

    def close(self) -> None:
        """Leave nothing open."""
        self._client.close()
        self.served.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A service of the test's own, started."""
    yield from running(Served(tmp_path / "served"))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One service for tests that each have a ranker of their own."""
    yield from running(Served(tmp_path_factory.mktemp("shared")))


def running(served: Served) -> Iterator[Site]:
    """Start a service, and end it."""
    made = Site(served)
    try:
        served.start()
        yield made
    finally:
        made.close()


def named(ids: str) -> list[Answer]:
    """Items without features, one for each letter."""
    return [{"id": id} for id in ids]


def listed(ranking: Answer) -> list[str]:
    """The ids of a list in their order."""
    return [place["item"] for place in ranking["items"]]


def command(*arguments: object) -> int:
    """The exit status of a command."""
    try:
        return main([str(one) for one in arguments])
    except SystemExit as ended:  # what the parser of the command line refuses
        return ended.code if isinstance(ended.code, int) else 1
