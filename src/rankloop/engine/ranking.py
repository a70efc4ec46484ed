"""What a ranker answers: a list with its reasons, and a receipt for feedback."""

from __future__ import annotations

from dataclasses import dataclass

from rankloop.engine.propensity import Propensity


@dataclass(frozen=True, slots=True)
class Listed:
    """One place of a list, and why this item stands there.

    `score` is what the place was given for: `estimate` plus what exploring added. `uncertainty` is one standard
    deviation of the estimate; `prior_share` how much of it is still what was believed before the first click.
    None where a policy has no such number.
    """

    item: str
    rule: str  # ranked, explored, pinned or random
    score: float | None = None
    estimate: float | None = None
    uncertainty: float | None = None
    prior_share: float | None = None


@dataclass(frozen=True, slots=True)
class Ranking:
    """A decided list."""

    id: str
    segment: str
    policy: str
    items: tuple[Listed, ...]
    propensity: Propensity | None = None  # where it was asked for

    @property
    def ids(self) -> tuple[str, ...]:
        """The items in order."""
        return tuple(listed.item for listed in self.items)


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of feedback: `learned`, `kept` (waits for the window), `late`, `duplicate` or `withdrawn`."""

    decision: str
    status: str
