"""Beliefs that do not learn."""

from __future__ import annotations

from dataclasses import dataclass

from rankloop.belief.base import Belief
from rankloop.belief.beta import Beta, BetaState
from rankloop.state import NoState
from rankloop.types import Decision, Evidence


@dataclass(frozen=True)
class Nothing(Belief[NoState]):
    """A belief without estimates that never learns."""

    binary = False
    fractional = True

    def init(self, learners: int) -> NoState:
        """Return an empty state."""
        return NoState()

    def update(self, state: NoState, decision: Decision, evidence: Evidence) -> None:
        """Change nothing."""


@dataclass(frozen=True)
class Fixed(Beta):
    """The mean of a Beta prior, without learning from feedback; scores of another ranker become part of the prior."""

    binary = False
    fractional = True
    believe = Beta.believe
    disbelieve = Beta.disbelieve
    estimates_rates = False
    amend = Belief.amend
    forget = Belief.forget  # there is nothing to forget

    def update(self, state: BetaState, decision: Decision, evidence: Evidence) -> None:
        """Change nothing."""
