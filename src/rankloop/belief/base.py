"""What a belief is, and what its state can be asked.

A belief is a prior and an update rule; its state answers. Answers are capabilities, not one fat
interface: an exploration rule asks for the one it needs, and the type checker refuses a composition
whose belief cannot give it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from rankloop.state import State
from rankloop.types import EMPTY, Decision, Evidence, FloatArray, Rows, Score

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


class ChecksRows(Protocol):
    """A belief that cannot learn from every decision says so before anything changes."""

    def check(self, decision: Decision) -> None:
        """Refuse a decision from which `update` could not learn; the state has no say."""


def has_row_check(belief: Any) -> bool:
    """Whether a belief `ChecksRows`."""
    return hasattr(belief, "check")


def check_rows(belief: Any, decision: Decision) -> None:
    """What a belief that `ChecksRows` refuses; others refuse nothing."""
    if has_row_check(belief):
        belief.check(decision)


def defines_both(part: Any) -> bool:
    """Whether the class that defines `update` defines `catch_up` too.

    A subclass with another `update` inherits a `catch_up` that no longer matches, and is updated list by list.
    """
    owner = next((cls for cls in type(part).__mro__ if "update" in vars(cls)), None)
    return owner is not None and "catch_up" in vars(owner)


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
    """Can say what it expects. Where `mean` is on a link's scale, a method `expected` answers the outcome itself."""

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


def expected_outcomes(state: State, decision: Decision) -> FloatArray | None:
    """The outcome that a belief expects of each listed item, [B, K], 0 in empty slots; None where it has no estimates.

    A state answers for whole lists (`expected_of_lists`), or for rows on the scale of outcomes (`expected`), or has a
    `mean` that is on this scale already.
    """
    whole = getattr(state, "expected_of_lists", None)
    if whole is not None:
        return np.asarray(whole(decision.items))
    answer = getattr(state, "expected", getattr(state, "mean", None))
    if answer is None:
        return None
    model, x, shown = decision.rows.model, decision.rows.x, decision.items != EMPTY
    if not isinstance(model, np.ndarray) or model.ndim == 1:
        return np.where(shown, answer(decision.rows), 0.0)
    if len(model) == 1:
        return np.where(shown, answer(Rows(np.maximum(model[0], 0), x)), 0.0)
    found = np.zeros(shown.shape)
    for b in range(len(model)):  # a state answers for rows that its learners share, and these are each learner's own
        one = slice(b, b + 1)
        rows = Rows(model[one], None if x is None else x[one])
        found[one] = expected_outcomes(state.view(one), Decision(decision.items[one], rows, decision.request))
    return found
