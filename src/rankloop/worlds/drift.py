"""Drift: how attractions change from round to round, as a blend of two permutations of them.

Rounds are t = 0, 1, …. Permutation 0 is the identity; 1, 2, … are random.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from rankloop import validate
from rankloop.errors import InvalidInput

MAX_ROUNDS = 10**9
"""The longest horizon that a run may have."""


class Blend(NamedTuple):
    """Attractions of a round: (1 - weight) · permutation `start` + weight · permutation `end`."""

    start: int
    end: int
    weight: float  # in [0, 1]


class Drift(Protocol):
    """How attractions move among the items."""

    def blend(self, t: int) -> Blend:
        """Return the blend of permutations in round t."""


@dataclass(frozen=True)
class AbruptDrift:
    """A new permutation every `every` rounds: number ⌊t/every⌋ in round t."""

    every: int

    def __post_init__(self) -> None:
        validate.integer("world.drift.abrupt.every", self.every, high=MAX_ROUNDS)

    def blend(self, t: int) -> Blend:
        """Return the permutation since the last change."""
        number = t // self.every
        return Blend(number, number, 0.0)


@dataclass(frozen=True)
class SlowDrift:
    """Linear interpolation from permutation j = ⌊t/rounds⌋ to j + 1, with weight t/rounds - j."""

    rounds: int

    def __post_init__(self) -> None:
        validate.integer("world.drift.slow.rounds", self.rounds, high=MAX_ROUNDS)

    def blend(self, t: int) -> Blend:
        """Return the interpolation of round t."""
        number, after = divmod(t, self.rounds)
        return Blend(number, number + 1, after / self.rounds)


@dataclass(frozen=True)
class SeasonalDrift:
    """A cycle between permutations 0 and 1; the weight of the second is (1 - cos(2πt/period))/2."""

    period: int

    def __post_init__(self) -> None:
        validate.integer("world.drift.seasonal.period", self.period, low=2, high=MAX_ROUNDS)

    def blend(self, t: int) -> Blend:
        """Return the blend of round t, bit for bit the same in every period."""
        return Blend(0, 1, 0.5 * (1.0 - math.cos(2.0 * math.pi * (t % self.period) / self.period)))


DRIFTS: dict[str, tuple[str, int, Callable[[int], Drift]]] = {
    "abrupt": ("every", 1, AbruptDrift),
    "slow": ("rounds", 1, SlowDrift),
    "seasonal": ("period", 2, SeasonalDrift),
}
"""The kinds of drift by name: the name of the parameter (in rounds), its minimum, and the class."""


def drift_of(value: object) -> Drift:
    """Return the drift of a mapping such as {abrupt: {every: 1000}}.

    >>> drift_of({"slow": {"rounds": 4}}).blend(6)
    Blend(start=1, end=2, weight=0.5)
    """
    given = validate.mapping("world.drift", value, optional=tuple(DRIFTS))
    if len(given) != 1:
        raise InvalidInput("world.drift", value, f"exactly one of {', '.join(DRIFTS)}")
    ((name, options),) = given.items()
    parameter, minimum, make = DRIFTS[name]
    rounds = validate.mapping(f"world.drift.{name}", options, required=(parameter,))[parameter]
    return make(validate.integer(f"world.drift.{name}.{parameter}", rounds, low=minimum, high=MAX_ROUNDS))
