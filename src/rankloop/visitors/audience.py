"""The visitors of a world, one by one, and when each of them sends feedback."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rankloop.errors import RankloopError, Unsupported
from rankloop.objective import Amount
from rankloop.serving import Item
from rankloop.simulator import streams
from rankloop.types import EMPTY, FloatArray, IntArray, Setting
from rankloop.worlds import Visit, World

_VISITS, _BEHAVIOUR, _GAPS, _ORDER = range(4)


@dataclass(frozen=True)
class VisitorBehaviour:
    """How visitors send feedback.

    Args:
        late: share of visitors whose feedback is delayed.
        lost: share of visitors who never send feedback.
        delay: mean of the exponentially distributed delay of late feedback, in seconds.
        people: number of distinct visitors, who return at random.
    """

    late: float = 0.0
    lost: float = 0.0
    delay: float = 5.0
    people: int = 10_000


@dataclass(frozen=True)
class Visitor:
    """One visit of a simulated visitor."""

    number: int  # of the visit in its run, from 0
    event: str  # id of the feedback event, the same whenever this visit is replayed
    person: str  # id of the visitor
    delay: float | None  # seconds until the feedback is sent, None for never
    visit: Visit
    items: list[dict[str, object]] | None = None  # the items with their values in this visit, where it brings some
    amounts: bool = False  # whether the feedback is an amount of each slot, instead of clicks

    @property
    def k(self) -> int:
        """Return the number of items to request."""
        return self.visit.request.k

    @property
    def context(self) -> list[float] | None:
        """Return the context features, where the world has them."""
        context = self.visit.request.context
        return None if context is None else context[0].tolist()

    @property
    def rewards(self) -> list[float] | None:
        """Return the rewards by slot of this visit, where the world changes them."""
        rewards = self.visit.request.rewards
        return None if rewards is None else rewards.tolist()

    @property
    def losses(self) -> list[float] | None:
        """Return the losses by length of this visit, where the world changes them."""
        losses = self.visit.request.losses
        return None if losses is None else losses.tolist()

    def values(self, items: IntArray) -> list[float] | None:
        """Return the amount of each slot of a list [1, k]; None where the feedback is clicks."""
        return self.visit.click(items)[0][0].tolist() if self.amounts else None

    def click(self, items: IntArray) -> tuple[list[int], float]:
        """Return the clicked slots of a list [1, k], or those with an amount, and its expected regret."""
        clicks, _ = self.visit.click(items)
        return np.flatnonzero(clicks[0]).tolist(), float((self.visit.best - self.visit.value(items))[0])


class Audience:
    """The visitors of one replication of a world.

    The seed determines the world's parameters, so all processes with the same seed use the same world. The name of the
    run determines the visitors: processes with different names draw different visitors, and a name that is used again
    draws the same ones.

    Args:
        world: any world whose items stay the same from round to round.
        seed: the seed of the world's parameters.
        run: the name of this run; event ids begin with it.
        behaviour: when visitors send feedback.
    """

    def __init__(self, world: World, *, seed: int, run: str, behaviour: VisitorBehaviour | None = None) -> None:
        self.run, self.behaviour, self._seed = run, behaviour or VisitorBehaviour(), seed
        world = world.prepare(streams.shared(seed))
        first = world.draw([streams.replication(seed, 0)], None)
        self.setting: Setting = first.setting
        if not self.setting.lasting:
            raise Unsupported("in this world no item returns, and a ranker has only items that stay.")
        rng = np.random.default_rng(0)
        visit = first.visit(rng)
        self.items = _items(visit, self.setting)
        self._brings_features = _features_change(visit, first.visit(rng))
        self._column = {item.id: int(item.id.removeprefix("item-")) for item in self.items}
        # Drawn again: the visit above may have advanced a cycle of rounds.
        self._instance = world.draw([streams.replication(seed, 0)], None)
        self._visits, self._behaviour_rng, self._gaps = (self._stream(part) for part in (_VISITS, _BEHAVIOUR, _GAPS))
        self._next_number = 0

    def _stream(self, part: int) -> np.random.Generator:
        return np.random.default_rng([self._seed, zlib.crc32(self.run.encode()), part])

    def next(self) -> Visitor:
        """Return the next visitor; not thread-safe."""
        number, behaviour = self._next_number, self.behaviour
        self._next_number += 1
        # All three are drawn for every visitor, so that one visitor does not shift the random stream of the next.
        rng = self._behaviour_rng
        choice, wait, person = rng.random(), rng.exponential(), rng.integers(behaviour.people)
        delay: float | None = 0.0
        if choice < behaviour.lost:
            delay = None
        elif choice < behaviour.lost + behaviour.late:
            delay = behaviour.delay * wait
        visit = self._instance.visit(self._visits)
        amounts = self.setting.objective.name == Amount.name
        return Visitor(
            number, f"{self.run}-{number}", f"v{person}", delay, visit, self._values_of_items(visit), amounts
        )

    def _values_of_items(self, visit: Visit) -> list[dict[str, object]] | None:
        """Return the items with the features and prices of a visit, where these are not the stored ones."""
        prices, features = visit.request.prices, visit.request.features
        if prices is None and not self._brings_features:
            return None
        items: list[dict[str, object]] = [{"id": item.id} for item in self.items]
        columns = list(self._column.values())
        if self._brings_features and features is not None:
            rows = np.broadcast_to(features, (1, *features.shape[-2:]))[0, columns].tolist()
            items = [item | {"features": row} for item, row in zip(items, rows, strict=True)]
        if prices is not None:
            cost = np.broadcast_to(prices, (1, prices.shape[-1]))[0, columns].tolist()
            items = [item | {"price": price} for item, price in zip(items, cost, strict=True)]
        return items

    def gap(self, rate: float) -> float:
        """Return the seconds until the next arrival of a Poisson process with `rate` arrivals per second."""
        return float(self._gaps.exponential(1.0 / rate))

    def columns(self, ids: Sequence[str], k: int) -> IntArray:
        """Return the world's item indices of a list of ids, [1, k], with empty slots at the end."""
        items = np.full((1, k), EMPTY, dtype=np.int64)
        for slot, id in enumerate(ids):
            if id not in self._column:
                raise RankloopError(f"the ranker listed {id!r}, which is none of this world's items.")
            items[0, slot] = self._column[id]
        return items

    def fixed_order(self) -> list[str]:
        """Return all item ids in a random order that depends only on the seed: a control ranking."""
        order = np.random.default_rng([self._seed, _ORDER]).permutation(len(self.items))
        return [self.items[i].id for i in order]


def _features_change(one: Visit, other: Visit) -> bool:
    """Return whether the features of the items differ between two visits."""
    x, y = one.request.features, other.request.features
    return x is not None and y is not None and not np.array_equal(x, y)


def _items(visit: Visit, setting: Setting) -> tuple[Item, ...]:
    """Return the allowed items, item-0 …, with features and prices where the world has them."""
    request = visit.request
    L = request.items
    x: FloatArray | None = None
    if request.features is not None:
        x = np.broadcast_to(request.features, (1, L, request.features.shape[-1]))[0]
    prices = np.zeros(L) if setting.objective.prices is None else setting.objective.prices
    allowed = np.ones(L, dtype=np.bool_) if request.allowed is None else np.broadcast_to(request.allowed, (1, L))[0]
    return tuple(
        Item(f"item-{i}", features=None if x is None else tuple(x[i].tolist()), price=float(prices[i]))
        for i in np.flatnonzero(allowed)
    )
