"""How attractions move from round to round: between which permutations of them a round lies, and where between.

Rounds are t = 0, 1, …. Permutation 0 leaves the attractions as they were drawn; 1, 2, … are random ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from rankloop import validate
from rankloop.errors import InvalidInput

MAX_ROUNDS = 10**9
"""Rounds, as many as a run may have."""


class Blend(NamedTuple):
    """Attractions (1 - weight) · those of permutation `start` + weight · those of permutation `end`."""

    start: int
    end: int
    weight: float  # in [0, 1]


class Drift(Protocol):
    """A movement of attractions among the items."""

    def blend(self, t: int) -> Blend:
        """Where the attractions of round t are."""


@dataclass(frozen=True)
class AbruptDrift:
    """A new permutation every so many rounds: number ⌊t/every⌋."""

    every: int

    def __post_init__(self) -> None:
        validate.integer("world.drift.abrupt.every", self.every, high=MAX_ROUNDS)

    def blend(self, t: int) -> Blend:
        """One permutation until the next change."""
        number = t // self.every
        return Blend(number, number, 0.0)


@dataclass(frozen=True)
class SlowDrift:
    """A straight line from each permutation to the next: from number j = ⌊t/rounds⌋ to j + 1, weight t/rounds - j."""

    rounds: int

    def __post_init__(self) -> None:
        validate.integer("world.drift.slow.rounds", self.rounds, high=MAX_ROUNDS)

    def blend(self, t: int) -> Blend:
        """The share of the way that is behind."""
        number, after = divmod(t, self.rounds)
        return Blend(number, number + 1, after / self.rounds)


@dataclass(frozen=True)
class SeasonalDrift:
    """Permutation 0 and permutation 1 in turn, the weight of the second (1 - cos(2πt/period))/2."""

    period: int

    def __post_init__(self) -> None:
        validate.integer("world.drift.seasonal.period", self.period, low=2, high=MAX_ROUNDS)

    def blend(self, t: int) -> Blend:
        """The same in every period, bit for bit."""
        return Blend(0, 1, 0.5 * (1.0 - math.cos(2.0 * math.pi * (t % self.period) / self.period)))


DRIFTS: dict[str, tuple[str, int, Callable[[int], Drift]]] = {
    "abrupt": ("every", 1, AbruptDrift),
    "slow": ("rounds", 1, SlowDrift),
    "seasonal": ("period", 2, SeasonalDrift),
}
"""The kinds of drift by name, each with the name of its size in rounds and the least one."""


def drift_of(value: object) -> Drift:
    """The drift of a mapping such as {abrupt: {every: 1000}}.

    >>> drift_of({"slow": {"rounds": 4}}).blend(6)
    Blend(start=1, end=2, weight=0.5)
    """
    given = validate.mapping("world.drift", value, optional=tuple(DRIFTS))
    if len(given) != 1:
        raise InvalidInput("world.drift", value, f"exactly one of {', '.join(DRIFTS)}")
    ((name, options),) = given.items()
    size, least, make = DRIFTS[name]
    rounds = validate.mapping(f"world.drift.{name}", options, required=(size,))[size]
    return make(validate.integer(f"world.drift.{name}.{size}", rounds, low=least, high=MAX_ROUNDS))
