"""What a belief is, what it can do besides learning, and what its state can be asked.

A belief is a prior and an update rule; its state answers. Answers are capabilities, not one fat
interface: an exploration rule asks for the one it needs, and the type checker refuses a composition
whose belief cannot give it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeVar

import numpy as np

from rankloop.errors import Unsupported
from rankloop.ownership import drop_stale, overridden
from rankloop.state import State
from rankloop.types import Decision, Evidence, FloatArray, Rows, Score

S = TypeVar("S", bound=State)


class Belief(Protocol[S]):
    """A prior and an update rule for B independent learners.

    `init` and `update` are what every belief has. The other methods are capabilities: a belief that has one overrides
    it, and nothing else needs to know. A subclass with another `update` keeps only those that it defines itself, since
    `catch_up` and `believe` repeat the update.
    """

    @property
    def binary(self) -> bool:
        """True where outcomes must be 0 or 1; otherwise any finite number teaches."""

    @property
    def fractional(self) -> bool:
        """True where an exposure between 0 and 1 is understood."""

    @property
    def row_features(self) -> int:
        """Number of features d of a row; 0 where rows have none."""
        return 0

    def init(self, learners: int) -> S:
        """The state of B learners who have seen nothing."""

    def update(self, state: S, decision: Decision, evidence: Evidence) -> None:
        """Learn in place. Slots of exposure 0 change nothing."""

    overridden: ClassVar[frozenset[str]] = frozenset()  # the capabilities that are not those of `Belief`

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        drop_stale(cls, Belief, follows="update", capabilities=("catch_up", "believe", "disbelieve", "amend"))
        cls.overridden = overridden(cls, Belief, ("check", "forget", "believe", "disbelieve"))

    # Capabilities

    @property
    def checks_rows(self) -> bool:
        """True where `check` may refuse a decision."""
        return "check" in self.overridden

    def check(self, decision: Decision) -> None:
        """Refuse a decision from which `update` could not learn; the state has no say. Nothing is refused here."""
        return

    def catch_up(self, state: S, decisions: Decision, evidence: Evidence) -> bool:
        """Learn from T lists [T, K] of one learner in their order, the same bit for bit as T updates.

        Returns False, with nothing changed, where a belief has no quicker way than T updates.
        """
        return False

    @property
    def forgets(self) -> bool:
        """True where `forget` is defined."""
        return "forget" in self.overridden

    def forget(self, state: S, prior: S, share: float) -> None:
        """Keep this share of what was observed, in place; what was believed before the first click stays.

        Args:
            state: of B learners.
            prior: of the same learners, or of one, before the first click.
            share: in (0, 1]; 1 forgets nothing.
        """
        raise Unsupported(f"{type(self).__name__} cannot forget.")

    @property
    def takes_priors(self) -> bool:
        """True where `believe` is defined."""
        return "believe" in self.overridden

    @property
    def replaces_priors(self) -> bool:
        """True where a prior can be taken back later (`disbelieve`), so that another may replace it."""
        return "disbelieve" in self.overridden

    def believe(self, state: S, decision: Decision, score: float, strength: float) -> None:
        """Learn in place as if an item had been seen `strength` times with outcome `score` on average.

        Args:
            state: of B learners.
            decision: a list [1, n] that shows the item alone, once for each model that it feeds.
            score: the item's mean outcome, in [0, 1] where outcomes are clicks.
            strength: number of pseudo-observations, at least 0.
        """
        raise Unsupported(f"{type(self).__name__} takes no prior of an item.")

    def disbelieve(self, state: S, decision: Decision, score: float, strength: float) -> None:
        """Take back what `believe` did with the same arguments; what was learned since then stays."""
        raise Unsupported(f"{type(self).__name__} cannot take back the prior of an item.")

    def amend(self, state: S, decision: Decision, change: Evidence) -> bool:
        """Add to outcomes that were learned already, in place: a later event of the same list.

        Args:
            state: of B learners.
            decision: the list, its rows as they were scored.
            change: what is added to the outcome of each slot, and the exposure with which the slot was learned.

        Returns False, with nothing changed, where the order of what was learned matters.
        """
        return False

    def estimates(self, state: S) -> HasMean | None:
        """The state as one that has estimates; None where it has none."""
        return None

    def uncertainty(self, state: S) -> HasWidth | None:
        """The state as one that knows how sure it is; None where it does not."""
        return None

    @property
    def estimates_rates(self) -> bool:
        """True where the estimate of an item is the rate of its own outcomes."""
        return False

    def expected_outcomes(self, state: S, decision: Decision) -> FloatArray | None:
        """The expected outcome of each listed item, [B, K], 0 in empty slots; None without estimates."""
        return None

    @property
    def learns_off_policy(self) -> bool:
        """True where lists that another policy made teach as well as its own."""
        return True


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


class HasTally(Protocol):
    """Can say how often and with what result."""

    def tally(self, rows: Rows) -> Tally:
        """Counts of these rows."""


class HasMean(Protocol):
    """Can say what it expects, on the scale of its link."""

    def mean(self, rows: Rows) -> FloatArray:
        """Estimates of these rows, [B, L]."""


class HasWidth(Protocol):
    """Can say how sure it is."""

    def width(self, rows: Rows) -> FloatArray:
        """One standard deviation, or the norm that bounds are multiples of, [B, L]."""


class HasMeanAndWidth(HasMean, HasWidth, Protocol):
    """Can say what it expects and how sure it is."""


class SupportsDraw(Protocol):
    """Can be sampled from."""

    def draw(self, scale: FloatArray | float, rng: np.random.Generator) -> Score:
        """One posterior draw per learner, its spread multiplied by scale ([B] or a number)."""


class HasQuantiles(Protocol):
    """Knows its quantiles."""

    def quantile(self, rows: Rows, q: FloatArray) -> FloatArray:
        """Quantile q [B] of these rows, [B, L]."""


class EstimateState(State, ABC):
    """A state that has estimates."""

    @abstractmethod
    def mean(self, rows: Rows) -> FloatArray:
        """Estimates of these rows on the scale of the link, [B, L]."""

    def expected(self, rows: Rows) -> FloatArray:
        """Expected outcomes of these rows, [B, L]: the mean, where the link is the identity."""
        return self.mean(rows)


class SummaryState(EstimateState):
    """A state that has estimates and knows how sure it is."""

    @abstractmethod
    def width(self, rows: Rows) -> FloatArray:
        """One standard deviation, or the norm that bounds are multiples of, [B, L]."""


E = TypeVar("E", bound=EstimateState)
W = TypeVar("W", bound=SummaryState)


class Estimating(Belief[E], Protocol):
    """A belief whose state has estimates."""

    def estimates(self, state: E) -> HasMean | None:
        """The state itself."""
        return state

    def expected_outcomes(self, state: E, decision: Decision) -> FloatArray | None:
        """What the state expects of each listed item, [B, K], 0 in empty slots."""
        shown, rows = decision.shown, decision.rows
        if not rows.by_learner:
            return np.where(shown, state.expected(rows), 0.0)
        if len(shown) == 1:
            return np.where(shown, state.expected(rows.of_learner(0)), 0.0)
        found = np.zeros(shown.shape)
        for b in range(len(shown)):  # a state answers for rows that its learners share, and these are each one's own
            one = slice(b, b + 1)
            found[one] = np.where(shown[one], state.view(one).expected(rows.of_learner(b)), 0.0)
        return found


class Summarising(Estimating[W], Protocol):
    """A belief whose state has estimates and knows how sure it is."""

    def uncertainty(self, state: W) -> HasWidth | None:
        """The state itself."""
        return state
