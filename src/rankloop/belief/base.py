"""What a belief is, and what its state can be asked.

A belief is a prior and an update rule; its state answers. Answers are capabilities, not one fat
interface: an exploration rule asks for the one it needs, and the type checker refuses a composition
whose belief cannot give it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from rankloop.state import State
from rankloop.types import Decision, Evidence, FloatArray, Rows, Score

S = TypeVar("S", bound=State)


class Belief(Protocol[S]):
    """A prior and an update rule for B independent learners."""

    @property
    def binary(self) -> bool:
        """True where outcomes must be 0 or 1; otherwise any finite number teaches."""

    @property
    def fractional(self) -> bool:
        """True where an exposure between 0 and 1 is understood."""

    def init(self, learners: int) -> S:
        """The state of B learners who have seen nothing."""

    def update(self, state: S, decision: Decision, evidence: Evidence) -> None:
        """Learn in place. Slots of exposure 0 change nothing."""


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts behind an estimate, each [B, L]."""

    clicks: FloatArray  # s
    exposure: FloatArray  # sum of exposures; n under the cascade
    shown: FloatArray  # times observed with any exposure

    @property
    def mean(self) -> FloatArray:
        """Clicks / exposure, 0 where nothing was observed."""
        return np.divide(self.clicks, self.exposure, out=np.zeros_like(self.clicks), where=self.exposure > 0)


class Tallies(Protocol):
    """Can say how often and with what result."""

    def tally(self, rows: Rows) -> Tally:
        """Counts of these rows."""


class Means(Protocol):
    """Can say what it expects."""

    def mean(self, rows: Rows) -> FloatArray:
        """Estimates of these rows, [B, L]."""


class Summarises(Means, Protocol):
    """Can say what it expects and how sure it is."""

    def width(self, rows: Rows) -> FloatArray:
        """One standard deviation, or the norm that bounds are multiples of, [B, L]."""


class Draws(Protocol):
    """Can be sampled from."""

    def draw(self, scale: FloatArray | float, rng: np.random.Generator) -> Score:
        """One posterior draw per learner, its spread multiplied by scale ([B] or a number)."""


class Quantiles(Protocol):
    """Knows its quantiles."""

    def quantile(self, rows: Rows, q: FloatArray) -> FloatArray:
        """Quantile q [B] of these rows, [B, L]."""
