"""Non-stationary worlds: the attractions of a click world move among its items over the rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from rankloop.errors import InvalidInput, Words
from rankloop.math.columns import take
from rankloop.math.counter_rng import keys, uniforms
from rankloop.types import FloatArray, IntArray, Setting
from rankloop.worlds.click_world import ClickInstance, ClickVisit, ClickWorld
from rankloop.worlds.drift import Blend, Drift

DRIFT_ACCEPTS = "numbers or beta together with world.drift, which moves attractions to other items and nothing else"
"""Attractions that a drift can move."""


def permutations(key: NDArray[np.uint64], number: int, items: int) -> IntArray:
    """Return permutation `number` of the items under each replication's key [B], [B, L]; number 0 is the identity.

    The others sort L uniform numbers of a counter-based RNG each, so any permutation can be computed at any time.
    """
    if number == 0:
        return np.broadcast_to(np.arange(items), (len(key), items))
    counters = np.arange((number - 1) * items, number * items)
    return np.argsort(uniforms(key, counters[None]), axis=1, kind="stable")


@dataclass
class DriftingInstance:
    """B replications whose attractions move; each round is a stationary `ClickInstance`."""

    start: ClickInstance  # permutation 0
    drift: Drift
    key: NDArray[np.uint64]  # [B], of each replication's permutations
    played: int = 0
    _shuffled: dict[int, FloatArray] = field(init=False, default_factory=dict)  # the two permutations used last
    _blend: Blend = field(init=False, default=Blend(0, 0, 0.0))
    _now: ClickInstance = field(init=False)  # the instance of `_blend`

    def __post_init__(self) -> None:
        self._now = self.start

    @property
    def setting(self) -> Setting:
        """Return what policies know; it does not mention the drift."""
        return self.start.setting

    def visit(self, rng: np.random.Generator) -> ClickVisit:
        """Draw the visitors of the next round, as in a stationary world."""
        self.played += 1
        return self.at(self.played - 1).visit(rng)

    def at(self, t: int) -> ClickInstance:
        """Return the instance of round t = 0, 1, …."""
        blend = self.drift.blend(t)
        if blend != self._blend:
            self._now, self._blend = replace(self.start, nu=self._attraction(blend)), blend
        return self._now

    def _attraction(self, blend: Blend) -> FloatArray:
        start = self._permuted(blend.start)
        if blend.weight == 0.0:
            return start
        return (1.0 - blend.weight) * start + blend.weight * self._permuted(blend.end)

    def _permuted(self, number: int) -> FloatArray:
        """Return the attractions under one permutation, [B, L]."""
        if number not in self._shuffled:
            order = permutations(self.key, number, self.start.nu.shape[1])
            self._shuffled[number] = take(self.start.nu, order)
            for old in list(self._shuffled)[:-2]:
                del self._shuffled[old]
        return self._shuffled[number]


@dataclass(frozen=True)
class DriftingWorld:
    """A click world with drifting attractions; everything else is stationary."""

    world: ClickWorld
    drift: Drift

    def __post_init__(self) -> None:
        """Refuse a source whose attractions are tied to items, for instance by features."""
        reason = self.world.source.explained_by
        if reason is not None:
            raise InvalidInput("world.attraction", Words(f"a function of {reason}"), DRIFT_ACCEPTS)

    def prepare(self, rng: np.random.Generator) -> Self:
        """Return the world with its click world prepared."""
        return replace(self, world=self.world.prepare(rng))

    def draw(self, streams: Sequence[np.random.Generator], rounds: int | None) -> DriftingInstance:
        """Draw the click world, then the key of the permutations, from each replication's stream."""
        start = self.world.draw(streams, rounds)
        return DriftingInstance(start, self.drift, np.concatenate([keys(1, rng) for rng in streams]))
