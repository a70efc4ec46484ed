"""A day of simulated visitors in the log of a service: what screenshots of the dashboard show."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rankloop.eventlog import SqliteStore
from rankloop.schema import FeedbackEvent
from rankloop.schema.service_settings import ServiceSettings
from rankloop.service.service import Service
from rankloop.serving import Ranker, RankerConfig
from rankloop.types import FloatArray

KINDS = ("tea", "coffee", "cocoa", "juice", "soup", "bread", "cheese", "honey", "jam", "pasta", "rice", "oil")
FLAVOURS = ("green", "dark", "plain", "spicy", "sweet", "wild")
DAY = 86400.0


class Clock:
    """A time that goes on when it is told to."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        """What time it is."""
        return self.now


@dataclass(frozen=True)
class Shop:
    """Items with features, and visitors who look from the top and click the first that attracts them."""

    ids: tuple[str, ...]
    features: FloatArray  # [L, d]
    attraction: FloatArray  # [L]

    @classmethod
    def made(cls, rng: np.random.Generator, dim: int = 8) -> Shop:
        """Attractions that are almost linear in the features."""
        ids = tuple(f"{flavour} {kind}" for flavour, kind in itertools.product(FLAVOURS, KINDS))
        x = rng.random((len(ids), dim))
        x /= np.linalg.vector_norm(x, axis=1, keepdims=True)
        wanted = x @ rng.random(dim) + 0.15 * rng.standard_normal(len(ids))
        ranks = wanted.argsort().argsort() / len(ids)
        return cls(ids, x, 0.005 + 0.09 * ranks**3)

    def items(self) -> list[dict[str, Any]]:
        """As a ranker takes them."""
        return [{"id": id, "features": row} for id, row in zip(self.ids, self.features.tolist(), strict=True)]

    def value(self, shown: list[int]) -> float:
        """Probability that somebody clicks something in this list."""
        return float(1.0 - np.prod(1.0 - self.attraction[shown]))

    def click(self, shown: list[int], rng: np.random.Generator) -> list[int]:
        """The first slot that attracts, if any does."""
        liked = np.flatnonzero(rng.random(len(shown)) < self.attraction[shown])
        return [int(slot) for slot in liked[:1]]


def arrivals(rng: np.random.Generator, visits: int, end: float, days: float) -> Iterator[float]:
    """Times of visits before the end, more of them in the evening."""
    times = end - days * DAY * rng.random(4 * visits)
    busy = 0.55 + 0.45 * np.sin(2 * math.pi * (times / DAY - 0.4))
    yield from sorted(times[rng.random(4 * visits) < busy][:visits].tolist())


def play(ranker: Ranker, clock: Clock, shop: Shop, visits: int, days: float, order: list[int], seed: int) -> None:
    """Visits to a ranker, some of whose feedback is late or never comes; `order` is what control shows."""
    rng = np.random.default_rng(seed)
    place, k = {id: at for at, id in enumerate(shop.ids)}, ranker.config.slots
    best = shop.value(np.argsort(-shop.attraction)[:k].tolist())
    own = [shop.ids[at] for at in order[:k]]
    coming: list[tuple[float, str, list[int], float]] = []

    def settle(until: float) -> None:
        while coming and coming[0][0] <= until:
            clock.now, id, clicked, lost = heapq.heappop(coming)
            ranker.submit_feedback(FeedbackEvent(id, clicked, regret=lost))

    for visitor, time in enumerate(arrivals(rng, visits, clock.now, days)):
        settle(time)
        clock.now = time
        ranking = ranker.rank(order=own, visitor=f"visitor-{visitor}")
        shown = [place[id] for id in ranking.ids]
        lag = float(np.exp(rng.normal(1.5, 1.6)))
        if rng.random() < 0.97:
            heapq.heappush(coming, (time + lag, ranking.id, shop.click(shown, rng), best - shop.value(shown)))
        if visitor % 50 == 0:
            ranker.tick()
    settle(math.inf)


def fill(log: Path, visits: int, days: float, end: float) -> None:
    """Write three rankers to a new log: one in an A/B test, one in shadow mode, one whose guardrail trips."""
    shop = Shop.made(np.random.default_rng(3))
    order = np.argsort(-shop.attraction + 0.3 * np.random.default_rng(5).standard_normal(len(shop.ids)))
    linear = {"policy": "cascade-lin-ts", "slots": 6, "dim": 8, "seed": 7, "window": 1800.0, "traffic": 0.7}
    settings: dict[str, dict[str, Any]] = {
        "shop": linear | {"guardrail": {"drop": 0.3, "min_lists": 1000}},
        "news": {"policy": "ts-beta", "prior": [1, 10], "slots": 5, "mode": "shadow", "seed": 7},
        "music": {"policy": "random", "slots": 4, "traffic": 0.5, "guardrail": {"min_lists": 100}, "seed": 7},
    }
    orders = {"shop": order, "news": order, "music": np.argsort(-shop.attraction)}
    service = Service.open(ServiceSettings(log=str(log), rankers=settings))
    service.close()
    for seed, (name, config) in enumerate(settings.items()):
        clock = Clock(end)
        ranker = Ranker(RankerConfig.of(config), name=name, store=SqliteStore(log), clock=clock)
        ranker.put_items(shop.items() if "dim" in config else [{"id": id} for id in shop.ids])
        play(ranker, clock, shop, visits if name == "shop" else visits // 4, days, orders[name].tolist(), seed)
        clock.now = max(clock.now, end)
        ranker.tick()
        ranker.close()
