"""The contract of a belief: how it learns, its optional capabilities, and what its state can answer.

A belief is a prior and an update rule; queries go to its state. Each query is a protocol of its own: an exploration
rule asks for the one it needs, and the type checker refuses a composition whose belief cannot answer it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Protocol, Self, TypeVar

import numpy as np

from rankloop.belief.alike import Alike, find_alike
from rankloop.errors import Unsupported
from rankloop.ownership import drop_stale, overridden
from rankloop.shortlist import Search, Shortlist
from rankloop.state import State
from rankloop.types import Decision, Evidence, FloatArray, IntArray, Rows, Score, ScoreTrust, SlotEffects

S = TypeVar("S", bound=State)


class Belief(Protocol[S]):
    """A prior and an update rule for B independent learners.

    Every belief has `init` and `update`. The other methods are optional capabilities that a belief overrides. A
    subclass with another `update` keeps only the capabilities that it defines itself, since `catch_up` and `believe`
    repeat the update.
    """

    @property
    def binary(self) -> bool:
        """Whether outcomes must be 0 or 1; otherwise any finite number is accepted."""

    @property
    def fractional(self) -> bool:
        """Whether the belief can learn from an exposure between 0 and 1."""

    @property
    def row_features(self) -> int:
        """Number of features d of a row; 0 where rows have none."""
        return 0

    def init(self, learners: int) -> S:
        """Return the state of B learners without observations; of 0 learners, the shapes without memory."""

    def update(self, state: S, decision: Decision, evidence: Evidence) -> None:
        """Learn in place. Slots of exposure 0 change nothing."""

    def of_items(self, state: S, models: IntArray) -> S:
        """Return the state of some items alone, to be scored; its cost must not depend on the number of others.

        Args:
            state: of B learners.
            models: [n], as `Design.candidate_models` returns them: the models that these items feed, or the items
                themselves. In the result they are numbered 0, 1, …, n - 1.
        """
        return state.of_models(models)

    overridden: ClassVar[frozenset[str]] = frozenset()  # capabilities with a definition other than `Belief`'s

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        drop_stale(cls, Belief, follows="update", capabilities=("catch_up", "believe", "disbelieve", "amend"))
        cls.overridden = overridden(cls, Belief, ("check", "forget", "believe", "disbelieve", "amend"))

    # Capabilities

    @property
    def checks_rows(self) -> bool:
        """Whether `check` may refuse a decision."""
        return "check" in self.overridden

    def check(self, decision: Decision) -> None:
        """Refuse a decision from which `update` could not learn, whatever the state; by default none."""
        return

    def check_outcomes(self, y: FloatArray) -> None:
        """Refuse outcomes [B, K] from which `update` could not learn; by default none that are finite numbers."""
        return

    def catch_up(self, state: S, decisions: Decision, evidence: Evidence) -> bool:
        """Learn from T lists [T, K] of one learner in order, with the same result as T updates, bit for bit.

        Returns False, with nothing changed, where the belief has no faster way than T updates.
        """
        return False

    @property
    def forgets(self) -> bool:
        """Whether `forget` is defined."""
        return "forget" in self.overridden

    def forget(self, state: S, prior: S, share: float) -> None:
        """Keep this share of the observations, in place; the prior stays.

        Args:
            state: of B learners.
            prior: the state without observations, of the same learners or of one.
            share: in (0, 1]; 1 forgets nothing.
        """
        raise Unsupported(f"{type(self).__name__} cannot forget.")

    @property
    def takes_priors(self) -> bool:
        """Whether `believe` is defined."""
        return "believe" in self.overridden

    @property
    def replaces_priors(self) -> bool:
        """Whether a prior can be removed later (`disbelieve`), so that another may replace it."""
        return "disbelieve" in self.overridden

    def believe(self, state: S, decision: Decision, score: float, strength: float) -> None:
        """Learn in place as if an item had been observed `strength` times with mean outcome `score`.

        Args:
            state: of B learners.
            decision: a list [1, n] of this item alone, once for each model that it feeds.
            score: the item's mean outcome, in [0, 1] where outcomes are clicks.
            strength: number of pseudo-observations, at least 0.
        """
        raise Unsupported(f"{type(self).__name__} does not accept a prior for an item.")

    def disbelieve(self, state: S, decision: Decision, score: float, strength: float) -> None:
        """Undo `believe` with the same arguments; what was learned since then stays."""
        raise Unsupported(f"{type(self).__name__} cannot remove the prior of an item.")

    @property
    def amends(self) -> bool:
        """Whether `amend` is defined: what an outcome adds to the state does not depend on later updates."""
        return "amend" in self.overridden

    def amend(self, state: S, decision: Decision, before: FloatArray, evidence: Evidence) -> None:
        """Replace outcomes that were learned before, in place, after a later event for the same list.

        Args:
            state: of B learners.
            decision: the list, with its rows as they were scored.
            before: the outcomes [B, K] with which the list was learned.
            evidence: the outcomes now, and the exposures, with which the list was learned.
        """
        raise Unsupported(f"{type(self).__name__} cannot amend what it has learned.")

    def estimates(self, state: S) -> HasMean | None:
        """Return the state as one that has estimates, or None."""
        return None

    def uncertainty(self, state: S) -> HasWidth | None:
        """Return the state as one that quantifies its uncertainty, or None."""
        return None

    def item_estimates(self, state: S) -> tuple[FloatArray, FloatArray] | None:
        """Return estimate and standard deviation of every item in the first slot, [B, L] each, NaN where unknown.

        For beliefs whose rows do not name items; None where `estimates` answers, or nothing does.
        """
        return None

    def slot_effects(self, state: S) -> SlotEffects | None:
        """Return the position biases that the belief has learned; None if it learns none."""
        return None

    def score_trust(self, state: S) -> ScoreTrust | None:
        """Return how far the caller's own scores are trusted; None if the belief does not weigh them."""
        return None

    @property
    def estimates_rates(self) -> bool:
        """Whether an item's estimate is the mean of its own outcomes."""
        return False

    def expected_outcomes(self, state: S, decision: Decision) -> FloatArray | None:
        """Return the expected outcome of each listed item, [B, K], 0 in empty slots; None without estimates."""
        return None

    def slot_order(self, state: S) -> IntArray | None:
        """Return the slots in descending order of their learned bias, [B, K]; None where it is their own order."""
        return None

    @property
    def pools(self) -> bool:
        """Whether one learner serves all segments, which share what they learn (`State.of_segment`)."""
        return False

    @property
    def learns_off_policy(self) -> bool:
        """Whether lists of another policy are as informative as its own."""
        return True


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts behind an estimate, each [B, L]."""

    clicks: FloatArray  # s
    exposure: FloatArray  # sum of exposures; n under the cascade
    shown: FloatArray  # times observed with any exposure

    @property
    def mean(self) -> FloatArray:
        """Clicks / exposure, 0 without observations."""
        return np.divide(self.clicks, self.exposure, out=np.zeros_like(self.clicks), where=self.exposure > 0)


class HasTally(Protocol):
    """A state that counts observations and outcomes."""

    def tally(self, rows: Rows) -> Tally:
        """Return the counts of these rows."""

    def split(self, search: Search) -> tuple[Alike, HasTally] | None:
        """Return what most items have in common, and the state of `Alike.models`; None where it is of no use."""


class HasMean(Protocol):
    """A state with estimates, on the link scale."""

    def mean(self, rows: Rows) -> FloatArray:
        """Return the estimates of these rows, [B, L]."""


class HasWidth(Protocol):
    """A state that quantifies its uncertainty."""

    def width(self, rows: Rows) -> FloatArray:
        """Return one standard deviation, or the norm that confidence bounds are multiples of, [B, L]."""


class HasMeanAndWidth(HasMean, HasWidth, Protocol):
    """A state with estimates and their uncertainty."""


class SupportsDraw(Protocol):
    """A state that can be sampled from."""

    def draw(self, scale: FloatArray | float, rng: np.random.Generator) -> Score:
        """Return the scores of one posterior draw for each learner; `scale` ([B] or a number) multiplies its spread."""

    def draw_largest(self, scale: FloatArray | float, search: Search, rng: np.random.Generator) -> Shortlist | None:
        """Return the largest scores of such a draw; None where all have to be computed."""


class HasQuantiles(Protocol):
    """A state with posterior quantiles."""

    def quantile(self, rows: Rows, q: FloatArray) -> FloatArray:
        """Return the quantiles q [B] of these rows, [B, L]."""

    def split(self, search: Search) -> tuple[Alike, HasQuantiles] | None:
        """Return what most items have in common, and the state of `Alike.models`; None where it is of no use."""


class EstimateState(State, ABC):
    """A state with estimates."""

    @abstractmethod
    def mean(self, rows: Rows) -> FloatArray:
        """Return the estimates of these rows on the link scale, [B, L]."""

    def expected(self, rows: Rows) -> FloatArray:
        """Return the expected outcomes of these rows, [B, L]: the mean, where the link is the identity."""
        return self.mean(rows)

    def draw_largest(self, scale: FloatArray | float, search: Search, rng: np.random.Generator) -> Shortlist | None:
        """Return None: a draw computes all scores."""
        return None

    def split(self, search: Search) -> tuple[Alike, Self] | None:
        """Return None: nothing is known of what items have in common."""
        return None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "draw" in vars(cls) and "draw_largest" not in vars(cls):  # an inherited shortlist is of another draw
            cls.draw_largest = EstimateState.draw_largest  # type: ignore[method-assign]


class SummaryState(EstimateState):
    """A state with estimates and their uncertainty."""

    @abstractmethod
    def width(self, rows: Rows) -> FloatArray:
        """Return one standard deviation, or the norm that confidence bounds are multiples of, [B, L]."""


@dataclass
class ByItemState(EstimateState):
    """A state whose arrays are records of items, each [B, L]."""

    def split(self, search: Search) -> tuple[Alike, Self] | None:
        """Return what most items have in common, and the state of the others and of one of them."""
        found = find_alike(tuple(np.asarray(array, dtype=np.float64) for _, array in self.arrays()), search)
        return None if found is None else (found, self.of_models(found.models()))


E = TypeVar("E", bound=EstimateState)
W = TypeVar("W", bound=SummaryState)


class Estimating(Belief[E], Protocol):
    """A belief whose state has estimates."""

    def estimates(self, state: E) -> HasMean | None:
        """Return the state itself."""
        return state

    def expected_outcomes(self, state: E, decision: Decision) -> FloatArray | None:
        """Return the expected outcome of each listed item, [B, K], 0 in empty slots."""
        shown, rows = decision.shown, decision.rows
        if not rows.by_learner:
            return np.where(shown, state.expected(rows), 0.0)
        if len(shown) == 1:
            return np.where(shown, state.expected(rows.of_learner(0)), 0.0)
        found = np.zeros(shown.shape)
        for b in range(len(shown)):  # states score rows that all learners share; these rows differ by learner
            one = slice(b, b + 1)
            found[one] = np.where(shown[one], state.view(one).expected(rows.of_learner(b)), 0.0)
        return found


class Summarising(Estimating[W], Protocol):
    """A belief whose state has estimates and their uncertainty."""

    def uncertainty(self, state: W) -> HasWidth | None:
        """Return the state itself."""
        return state
