"""Learning through the service is learning in the simulator: same worlds, policies and visitors, same regret."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rankloop import catalogue, simulate
from rankloop.policy import SupportsRanking
from rankloop.schema.service_settings import ServiceLimits, ServiceSettings
from rankloop.service.app import application
from rankloop.service.service import Service
from rankloop.simulator import streams
from rankloop.types import Decision, FloatArray, IntArray, Request, Setting
from rankloop.worlds import from_spec

pytestmark = pytest.mark.slow

ERRORS = 3.0
"""Standard errors by which a mean may differ: nine comparisons fail together for one seed in forty."""
ROUNDS, REPLICATIONS, SEED = 120, 24, 11
POINTS = (30, 60, 120)
NAME = "r"


def linear(items: int, dim: int) -> tuple[FloatArray, FloatArray]:
    """Features in the positive orthant, and attraction that is linear in them and differs much."""
    x = np.random.default_rng(5).dirichlet(np.full(dim, 0.4), items)
    return x, x @ np.linspace(0.7, 0.05, dim)


X, NU = linear(10, 3)
CASCADE: dict[str, Any] = {"kind": "cascade", "attraction": NU.tolist(), "features": X.tolist(), "k": 2}
CONTEXTS: dict[str, Any] = {
    "kind": "item-position",
    "alpha": np.linspace(0.0, 0.5, 6).tolist(),
    "beta": (3.0 * np.random.default_rng(1).standard_normal((6, 2))).tolist(),
    "k": 2,
    "objective": "clicks",
}


class Asked:
    """A service in this process, asked without a network."""

    def __init__(self, folder: Path) -> None:
        limits = ServiceLimits(rate=1e9, segments=10_000)
        self._service = Service.open(ServiceSettings(log=str(folder / "log.db"), limits=limits))
        self._app, self._runner = application(self._service), asyncio.Runner()

    def __call__(self, method: str, path: str, *bodies: Any) -> list[Any]:
        """Ask the same route for all bodies at once; the answers."""

        async def together() -> list[Any]:
            return await asyncio.gather(*(self._ask(method, f"/v1/rankers/{NAME}{path}", body) for body in bodies))

        return self._runner.run(together())

    async def _ask(self, method: str, path: str, body: Any) -> Any:
        content, parts = json.dumps(body).encode(), list[bytes]()

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": content, "more_body": False}

        async def send(message: Any) -> None:
            assert message.get("status", 200) < 300, parts
            parts.append(message.get("body", b""))

        headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
        headers.append((b"content-length", b"%d" % len(content)))
        where = {"path": path, "raw_path": path.encode(), "query_string": b"", "root_path": ""}
        await self._app({"type": "http", "method": method, "headers": headers, **where}, receive, send)
        told = b"".join(parts)
        return json.loads(told) if told else None

    def close(self) -> None:
        self._runner.close()
        self._service.close()


@dataclass(frozen=True)
class Played:
    """What happened in each round: lists [T, R, K] and cumulative regret [T, R]."""

    lists: IntArray
    regret: FloatArray


def through_the_service(
    folder: Path, config: Mapping[str, Any], world: Mapping[str, Any], *, rounds: int, replications: int, seed: int
) -> Played:
    """A segment for each replication; worlds and visitors as a run of the simulator with this seed has them."""
    instance = (
        from_spec(world)
        .prepare(streams.shared(seed))
        .draw([streams.replication(seed, r) for r in range(replications)], rounds)
    )
    visitors = streams.visitors(seed, 0)
    service = Asked(folder)
    service("PUT", "", config)
    ids = [f"item-{i}" for i in range(instance.setting.items)]
    features = world["features"] if config.get("dim") else [None] * len(ids)
    service("PUT", "/items", {"items": [{"id": id, "features": x} for id, x in zip(ids, features, strict=True)]})
    lists, regret, lost = [], [], np.zeros(replications)
    for _ in range(rounds):
        visit = instance.visit(visitors)
        context: Any = visit.request.context
        contexts = [{} if context is None else {"context": context[r].tolist()} for r in range(replications)]
        answers = service("POST", "/rank", *({"segment": f"s{r}", **one} for r, one in enumerate(contexts)))
        shown = np.array([[ids.index(place["item"]) for place in one["items"]] for one in answers])
        clicks, _ = visit.click(shown)
        clicked = [np.flatnonzero(row).tolist() for row in clicks]
        told = [{"decision": a["decision"], "clicked": c} for a, c in zip(answers, clicked, strict=True)]
        assert {one["status"] for one in service("POST", "/feedback", *told)} == {"learned"}
        lost = lost + visit.best - visit.value(shown)
        lists.append(shown)
        regret.append(lost)
    service.close()
    return Played(np.array(lists), np.array(regret))


@pytest.mark.parametrize(
    ("id", "config", "world"),
    [
        ("cascade-lin-ts", {"dim": 3}, CASCADE),
        ("cascade-ucb1", {}, CASCADE),
        ("ucr", {"context": 2, "objective": "clicks"}, CONTEXTS),
    ],
)
def test_the_regret_is_the_simulators(id: str, config: dict[str, Any], world: dict[str, Any], tmp_path: Path) -> None:
    """Means at three points of the curve agree within three standard errors of the paired differences.

    Both play the same worlds and visitors; only a policy's own luck differs. The errors are small enough to tell the
    policy from a random one.
    """
    size: dict[str, Any] = {"rounds": ROUNDS, "replications": REPLICATIONS, "seed": SEED}
    played = through_the_service(tmp_path, {"policy": id, "slots": 2, "seed": 3} | config, world, **size)
    result = simulate([id], world, chunk=REPLICATIONS, **size)
    for point in POINTS:
        at = result[id].rounds.tolist().index(point)
        own, simulated, random = played.regret[point - 1], result[id].regret[at], result.random.regret[at]
        error = (own - simulated).std(ddof=1) / REPLICATIONS**0.5
        assert abs(own.mean() - simulated.mean()) < ERRORS * error, (point, own.mean(), simulated.mean(), error)
        if point == ROUNDS:
            assert ERRORS * error < (random.mean() - simulated.mean()) / 2.0


class Recorded:
    """A policy that remembers the lists it decided."""

    def __init__(self, policy: SupportsRanking) -> None:
        self._policy = policy
        self.lists: list[IntArray] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._policy, name)

    def decide(self, state: Any, request: Request, rng: np.random.Generator) -> Decision:
        """As the policy."""
        decision = self._policy.decide(state, request, rng)
        self.lists.append(decision.items.copy())
        return decision


@pytest.mark.parametrize(
    ("id", "config", "world"),
    [
        ("cascade-lin-ucb", {"dim": 3, "params": {"c": 0.5}}, CASCADE),
        (
            "feature-ucr",
            {"dim": 3, "context": 2, "objective": "clicks", "params": {"T0": 1}},
            CONTEXTS | {"features": X[:6].tolist()},
        ),
    ],
)
def test_without_chance_the_lists_are_the_simulators(
    id: str, config: dict[str, Any], world: dict[str, Any], tmp_path: Path
) -> None:
    """Policies without chance and without ties, since features differ: every list of every round is the same."""
    size: dict[str, Any] = {"rounds": 60, "replications": 6, "seed": SEED}
    recorded: list[Recorded] = []

    def policy(setting: Setting) -> SupportsRanking:
        recorded.append(Recorded(catalogue.build(id, setting, **config.get("params", {}))))
        return recorded[-1]

    played = through_the_service(tmp_path, {"policy": id, "slots": 2} | config, world, **size)
    result = simulate([policy], world, **size)
    (lists,) = [np.array(one.lists) for one in recorded if one.lists]
    assert np.array_equal(lists, played.lists)
    assert len(np.unique(lists.reshape(-1, 2), axis=0)) > 5
    assert np.allclose(result.traces[0].regret, played.regret, rtol=1e-12)
