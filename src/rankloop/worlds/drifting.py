"""Worlds that drift: the attractions of a click world move among its items while it is played."""

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
from rankloop.worlds.click_world import ClickInstance, ClickVisit, ClickWorld, best_value
from rankloop.worlds.drift import Blend, Drift


def permutations(key: NDArray[np.uint64], number: int, items: int) -> IntArray:
    """Permutation `number` of the items under each replication's key [B], [B, L]; number 0 is the identity.

    The others sort uniform numbers, of which each permutation has L of its own: any of them can be had at any time.
    """
    if number == 0:
        return np.broadcast_to(np.arange(items), (len(key), items))
    own = np.arange((number - 1) * items, number * items)
    return np.argsort(uniforms(key, own[None]), axis=1, kind="stable")


@dataclass
class DriftingInstance:
    """B replications whose attractions move; of each round a `ClickInstance` that stands still."""

    start: ClickInstance  # as it was drawn: permutation 0
    drift: Drift
    key: NDArray[np.uint64]  # [B], of each replication's permutations
    played: int = 0
    _shuffled: dict[int, FloatArray] = field(init=False, default_factory=dict)  # the last two that were asked for
    _blend: Blend = field(init=False, default=Blend(0, 0, 0.0))
    _now: ClickInstance = field(init=False)  # what `_blend` gives

    def __post_init__(self) -> None:
        self._now = self.start

    @property
    def setting(self) -> Setting:
        """What policies are told; it says nothing of the drift."""
        return self.start.setting

    def visit(self, rng: np.random.Generator) -> ClickVisit:
        """The visitors of the next round, drawn as in a world that does not drift."""
        self.played += 1
        return self.at(self.played - 1).visit(rng)

    def at(self, t: int) -> ClickInstance:
        """The world as it is in round t = 0, 1, …."""
        blend = self.drift.blend(t)
        if blend != self._blend:
            nu = self._attraction(blend)
            best = best_value(self.start.model, nu, self.start.request.k)
            self._now, self._blend = replace(self.start, nu=nu, best=best), blend
        return self._now

    def _attraction(self, blend: Blend) -> FloatArray:
        start = self._permuted(blend.start)
        if blend.weight == 0.0:
            return start
        return (1.0 - blend.weight) * start + blend.weight * self._permuted(blend.end)

    def _permuted(self, number: int) -> FloatArray:
        """The attractions of one permutation, [B, L]."""
        if number not in self._shuffled:
            order = permutations(self.key, number, self.start.nu.shape[1])
            self._shuffled[number] = take(self.start.nu, order)
            for old in list(self._shuffled)[:-2]:
                del self._shuffled[old]
        return self._shuffled[number]


@dataclass(frozen=True)
class DriftingWorld:
    """A click world and how its attractions move; all else stays as it is."""

    world: ClickWorld
    drift: Drift

    def __post_init__(self) -> None:
        """Refuse attractions that would no longer be what their source says."""
        reason = self.world.source.explained_by
        if reason is not None:
            accepted = "numbers or beta beside world.drift, which moves attractions to other items and nothing else"
            raise InvalidInput("world.attraction", Words(f"a function of {reason}"), accepted)

    def prepare(self, rng: np.random.Generator) -> Self:
        """The click world prepared."""
        return replace(self, world=self.world.prepare(rng))

    def draw(self, streams: Sequence[np.random.Generator], rounds: int | None) -> DriftingInstance:
        """What the click world draws, then the key of the permutations, from each replication's stream."""
        start = self.world.draw(streams, rounds)
        return DriftingInstance(start, self.drift, np.concatenate([keys(1, rng) for rng in streams]))
