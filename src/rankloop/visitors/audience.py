"""Who visits: the visitors of a world one by one, and when each of them tells what they did."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rankloop.errors import RankloopError, Unsupported
from rankloop.serving import Item
from rankloop.simulator import streams
from rankloop.types import EMPTY, FloatArray, IntArray, Setting
from rankloop.worlds import Visit, World

_MINDS, _HABITS, _GAPS, _ORDER = range(4)


@dataclass(frozen=True)
class Habits:
    """How visitors tell what they did.

    Args:
        late: share of visitors who tell later.
        lost: share of visitors who never tell.
        delay: mean of the exponential time in seconds after which late ones tell.
        people: so many different visitors come again and again.
    """

    late: float = 0.0
    lost: float = 0.0
    delay: float = 5.0
    people: int = 10_000


@dataclass(frozen=True)
class Visitor:
    """One visit."""

    number: int  # of the visit in its run, from 0
    event: str  # the id of what they tell, the same whenever this visit is played
    person: str
    delay: float | None  # seconds until they tell, 0 at once, None never
    visit: Visit

    @property
    def k(self) -> int:
        """How many items they ask for."""
        return self.visit.request.k

    @property
    def context(self) -> list[float] | None:
        """Who they are, where the world says so."""
        context = self.visit.request.context
        return None if context is None else context[0].tolist()

    def looks(self, items: IntArray) -> tuple[list[int], float]:
        """Slots that they click of a list [1, k], and what the list is worth less than the best one."""
        clicks, _ = self.visit.click(items)
        return np.flatnonzero(clicks[0]).tolist(), float((self.visit.best - self.visit.value(items))[0])


class Audience:
    """One learner's visitors of a world.

    The seed settles the world, so that all processes with one seed visit the same; the run settles who comes, so
    that two processes meet different visitors, and one that is named again the same ones.

    Args:
        world: any world whose items last.
        seed: of the world's parameters.
        run: a name of this run; events are named after it.
        habits: who tells when.
    """

    def __init__(self, world: World, *, seed: int, run: str, habits: Habits | None = None) -> None:
        self.run, self.habits, self._seed = run, habits or Habits(), seed
        world = world.prepare(streams.shared(seed))
        first = world.draw([streams.replication(seed, 0)], None)
        self.setting: Setting = first.setting
        if not self.setting.lasting:
            raise Unsupported("in this world no item returns, and a ranker has only items that stay.")
        self.items = _items(first.visit(np.random.default_rng(0)), self.setting)
        self._column = {item.id: int(item.id.removeprefix("item-")) for item in self.items}
        # Drawn again: the question above may have been a round of a cycle.
        self._instance = world.draw([streams.replication(seed, 0)], None)
        self._minds, self._luck, self._gaps = (self._stream(part) for part in (_MINDS, _HABITS, _GAPS))
        self._came = 0

    def _stream(self, part: int) -> np.random.Generator:
        return np.random.default_rng([self._seed, zlib.crc32(self.run.encode()), part])

    def next(self) -> Visitor:
        """The next visitor; not for two threads at once."""
        number, habits = self._came, self.habits
        self._came += 1
        # All are drawn for everyone: what one visitor does never moves the luck of the next.
        fate, wait, person = self._luck.random(), self._luck.exponential(), self._luck.integers(habits.people)
        delay = None if fate < habits.lost else habits.delay * wait if fate < habits.lost + habits.late else 0.0
        return Visitor(number, f"{self.run}-{number}", f"v{person}", delay, self._instance.visit(self._minds))

    def gap(self, rate: float) -> float:
        """Seconds until the next visitor comes, where `rate` of them come in a second, at random moments."""
        return float(self._gaps.exponential(1.0 / rate))

    def columns(self, ids: Sequence[str], k: int) -> IntArray:
        """A list of ids as the world counts its items, [1, k], the rest empty."""
        items = np.full((1, k), EMPTY, dtype=np.int64)
        for slot, id in enumerate(ids):
            if id not in self._column:
                raise RankloopError(f"the ranker listed {id!r}, which is none of this world's items.")
            items[0, slot] = self._column[id]
        return items

    def fixed_order(self) -> list[str]:
        """All items in an order that the seed alone settles: what a caller without a ranker might show."""
        order = np.random.default_rng([self._seed, _ORDER]).permutation(len(self.items))
        return [self.items[i].id for i in order]


def _items(visit: Visit, setting: Setting) -> tuple[Item, ...]:
    """The items that may be listed, item-0 …, with features and prices where the world has them."""
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
