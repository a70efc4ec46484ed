"""The exploration rules. The state holds the uncertainty; the planner makes the list."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from rankloop.belief.alike import EVERYTHING
from rankloop.belief.base import HasMean, HasMeanAndWidth, HasQuantiles, HasTally, SupportsDraw, Tally
from rankloop.belief.choice import ChoiceState
from rankloop.belief.order import OrderState
from rankloop.explore.base import ExplorationRule, FromState, Schedule
from rankloop.math.logistic import sigmoid
from rankloop.propensity import list_distribution as lists
from rankloop.propensity.list_distribution import ClosedForms, Composition, ListDistribution
from rankloop.shortlist import Search, Shortlist
from rankloop.state import State
from rankloop.types import FloatArray, IntArray, Rows, Score

U_contra = TypeVar("U_contra", bound=HasMeanAndWidth, contravariant=True)
S_contra = TypeVar("S_contra", contravariant=True)


@dataclass(frozen=True)
class Indifferent(ExplorationRule[State]):
    """A rule without scores, for planners that use none."""

    def __call__(self, state: State, t: IntArray, rng: np.random.Generator) -> Score:
        """Return a score function that must not be called."""

        def score(rows: Rows) -> FloatArray:
            raise TypeError("the rule Indifferent has no scores; pair it with a planner that uses none")

        return score


@dataclass(frozen=True)
class Greedy(FromState[HasMean]):
    """The estimate, without exploration."""

    explores = False

    def __call__(self, state: HasMean, t: IntArray, rng: np.random.Generator) -> Score:
        """Return the mean."""
        return state.mean


@dataclass(frozen=True)
class Bound(FromState[HasTally]):
    """An upper confidence bound computed from counts."""

    bound: Callable[[Tally, IntArray], FloatArray]

    def __call__(self, state: HasTally, t: IntArray, rng: np.random.Generator) -> Score:
        """Return bound(counts, t)."""
        return lambda rows: self.bound(state.tally(rows), t)

    def shortlist(self, state: HasTally, search: Search, t: IntArray, rng: np.random.Generator) -> Shortlist | None:
        """Return the bounds of items with different counts, and random ones of the many with equal counts."""
        split = state.split(search)
        return None if split is None else split[0].scored(self.bound(split[1].tally(EVERYTHING), t), rng)


@dataclass(frozen=True)
class Ucb(FromState[U_contra], Generic[U_contra]):
    """mean + radius·width, at most `cap`; the radius [B] may depend on state and round."""

    radius: Callable[[U_contra, IntArray], FloatArray]
    cap: float = np.inf

    def __call__(self, state: U_contra, t: IntArray, rng: np.random.Generator) -> Score:
        """Return the capped upper bound."""
        radius = self.radius(state, t)[:, None]

        def score(rows: Rows) -> FloatArray:
            upper = state.mean(rows) + radius * state.width(rows)
            return np.minimum(upper, self.cap)

        return score

    def without_exploration(self) -> Ucb[U_contra]:
        """Return the rule with radius 0 and without a cap."""
        return Ucb(lambda state, t: np.zeros(len(t)))


@dataclass(frozen=True)
class Thompson(ExplorationRule[SupportsDraw]):
    """One draw from the posterior, its spread multiplied by a scale."""

    scale: Schedule | float = 1.0

    def __call__(self, state: SupportsDraw, t: IntArray, rng: np.random.Generator) -> Score:
        """Return the scores of the drawn parameters."""
        return state.draw(self.spread(t), rng)

    def shortlist(self, state: SupportsDraw, search: Search, t: IntArray, rng: np.random.Generator) -> Shortlist | None:
        """Return the state's shortlist of one draw."""
        return state.draw_largest(self.spread(t), search, rng)

    def spread(self, t: IntArray) -> FloatArray | float:
        """Return the scale in round t [B]; where it is 0, nothing is drawn."""
        return self.scale(t) if callable(self.scale) else self.scale

    def without_exploration(self) -> Thompson:
        """Return the rule with scale 0."""
        return Thompson(0.0)

    def list_distribution(self, planner: ClosedForms, policy: Composition) -> ListDistribution:
        """Return a closed form for scale 0 only."""
        always = not callable(self.scale) and self.scale != 0.0
        return lists.drawn(self.spread, planner.of_fixed_scores(policy), always=always)


@dataclass(frozen=True)
class SharedNoise(ExplorationRule[HasTally]):
    """mean + Z·sd with ONE standard normal Z for all items of a learner (TS-Cascade)."""

    sd: Callable[[Tally, IntArray], FloatArray]

    def __call__(self, state: HasTally, t: IntArray, rng: np.random.Generator) -> Score:
        """Return scores that move up or down together."""
        Z = rng.standard_normal((len(t), 1))

        def score(rows: Rows) -> FloatArray:
            tally = state.tally(rows)
            return tally.mean + Z * self.sd(tally, t)

        return score

    def without_exploration(self) -> SharedNoise:
        """Return the rule with standard deviation 0."""
        return SharedNoise(lambda tally, t: np.zeros_like(tally.clicks))

    def list_distribution(self, planner: ClosedForms, policy: Composition) -> ListDistribution:
        """Return the closed form for scores that are lines in Z."""

        def lines(state: HasTally, t: IntArray, rows: Rows) -> tuple[FloatArray, FloatArray]:
            tally = state.tally(rows)
            return tally.mean, self.sd(tally, t)

        return planner.of_lines(policy, lines)


@dataclass(frozen=True)
class Quantile(FromState[HasQuantiles]):
    """A quantile of the posterior, at a level that depends on the round."""

    level: Schedule

    def __call__(self, state: HasQuantiles, t: IntArray, rng: np.random.Generator) -> Score:
        """Return the posterior quantile at level(t)."""
        q = self.level(t)
        return lambda rows: state.quantile(rows, q)

    def shortlist(self, state: HasQuantiles, search: Search, t: IntArray, rng: np.random.Generator) -> Shortlist | None:
        """Return the quantiles of items with different posteriors, and random ones of the many with equal ones."""
        split = state.split(search)
        return None if split is None else split[0].scored(split[1].quantile(EVERYTHING, self.level(t)), rng)


@dataclass(frozen=True)
class Blocks(ExplorationRule[OrderState]):
    """Minus the block's level plus U(0, 1): blocks in order, each of them shuffled (TopRank)."""

    def __call__(self, state: OrderState, t: IntArray, rng: np.random.Generator) -> Score:
        """Return scores that keep the order of the blocks and are random within a block."""
        scores = rng.random(state.level.shape) - state.level
        return lambda rows: scores[:, rows.model]

    def list_distribution(self, planner: ClosedForms, policy: Composition) -> ListDistribution:
        """Return the closed form for levels, which are the blocks."""

        def levels(state: OrderState, rows: Rows) -> FloatArray:
            return np.asarray(0.0 - state.level[:, rows.model], dtype=np.float64)

        return planner.of_levels(policy, levels)


@dataclass(frozen=True)
class EpsilonList(ExplorationRule[S_contra], Generic[S_contra]):
    """With probability epsilon a uniformly random list, else the list of another rule."""

    rule: ExplorationRule[S_contra]
    epsilon: float

    def __call__(self, state: S_contra, t: IntArray, rng: np.random.Generator) -> Score:
        """Return random scores for the learners that explore in this round."""
        explores = rng.random((len(t), 1)) < self.epsilon
        inner = self.rule(state, t, rng)
        noise: list[FloatArray] = []

        def score(rows: Rows) -> FloatArray:
            scores = inner(rows)
            if not noise:
                noise.append(rng.random(scores.shape))
            return np.where(explores, noise[0], scores)

        return score

    def list_distribution(self, planner: ClosedForms, policy: Composition) -> ListDistribution:
        """Return the mixture of random scores and the other rule's."""
        own = self.rule.list_distribution(planner, policy.with_rule(self.rule))
        return lists.epsilon(self.epsilon, planner.of_random_scores(policy), own)


@dataclass(frozen=True)
class UcbOutsideLink(FromState[HasMeanAndWidth]):
    """σ(mean) + radius·width: the bonus stands outside the link (GL-CDCM).

    A planner that weighs prices takes the log-odds of this bound, as it takes those of an estimate.
    """

    radius: float
    log_odds: bool = False

    def __call__(self, state: HasMeanAndWidth, t: IntArray, rng: np.random.Generator) -> Score:
        """Return an upper bound on the probability itself, or its log-odds, which are +inf from 1 on."""

        def score(rows: Rows) -> FloatArray:
            upper = np.asarray(sigmoid(state.mean(rows)) + self.radius * state.width(rows))
            if not self.log_odds:
                return upper
            with np.errstate(divide="ignore"):
                return np.asarray(np.log(upper) - np.log1p(-np.minimum(upper, 1.0)))

        return score


@dataclass(frozen=True)
class Sensitive(FromState[ChoiceState]):
    """λ̂_k·(α̂ + radius(β², l)): an optimistic attraction, weighted by the estimated bias of the slot.

    Items that were never shown come before all others. Matching such products puts the item with the k-th largest index
    into the slot with the k-th largest bias (rearrangement inequality). The model of a row is its slot.
    """

    radius: Callable[[FloatArray, IntArray], FloatArray]  # (β² [B, J], l [B]) -> [B, J]
    before_all: float = 1e6
    cap: float = np.inf  # the largest attraction

    def __call__(self, state: ChoiceState, t: IntArray, rng: np.random.Generator) -> Score:
        """Return the products of bias and index."""
        U = np.minimum(state.alpha + self.radius(state.beta2, t), self.cap)
        U = np.where(state.S.sum(axis=1) > 0, U, self.before_all)
        return lambda rows: state.lam[:, rows.model][:, None] * U
