"""The belief of those who do not learn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankloop.state import NoState, State
from rankloop.types import BetaPrior, Decision, Evidence, FloatArray, Rows


@dataclass(frozen=True)
class Nothing:
    """Knows nothing and learns nothing."""

    binary = False
    fractional = True

    def init(self, learners: int) -> NoState:
        """No state."""
        return NoState()

    def update(self, state: NoState, decision: Decision, evidence: Evidence) -> None:
        """Nothing to do."""


@dataclass
class FixedState(State):
    """Estimates that never change."""

    estimate: FloatArray  # [B, L]

    def mean(self, rows: Rows) -> FloatArray:
        """The estimates as they were given."""
        return self.estimate[:, rows.model]


@dataclass(frozen=True)
class Fixed:
    """The mean of a prior, whatever happens."""

    prior: BetaPrior
    items: int
    binary = False
    fractional = True

    def init(self, learners: int) -> FixedState:
        """Prior means a/(a+b)."""
        mean = self.prior.a / (self.prior.a + self.prior.b)
        return FixedState(np.array(np.broadcast_to(mean, (learners, self.items))))

    def update(self, state: FixedState, decision: Decision, evidence: Evidence) -> None:
        """Nothing to do."""
