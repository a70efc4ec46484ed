"""The rules themselves. Each is a few lines: the doubt is in the state, the plan comes after."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from rankloop.belief.base import Draws, Means, Quantiles, Summarises, Tallies, Tally
from rankloop.belief.choice import ChoiceState
from rankloop.belief.order import OrderState
from rankloop.explore.base import Explore, Schedule
from rankloop.math.logistic import sigmoid
from rankloop.state import State
from rankloop.types import FloatArray, IntArray, Rows, Score

U_contra = TypeVar("U_contra", bound=Summarises, contravariant=True)
S_contra = TypeVar("S_contra", contravariant=True)


@dataclass(frozen=True)
class Indifferent:
    """No opinion, for planners that ask for none."""

    def __call__(self, state: State, t: IntArray, rng: np.random.Generator) -> Score:
        """A score that cannot be asked for."""

        def score(rows: Rows) -> FloatArray:
            raise TypeError("an indifferent rule has no scores; pair it with a planner that asks for none")

        return score


@dataclass(frozen=True)
class Greedy:
    """The estimate, without doubt."""

    def __call__(self, state: Means, t: IntArray, rng: np.random.Generator) -> Score:
        """The mean."""
        return state.mean


@dataclass(frozen=True)
class Bound:
    """An upper confidence bound made of counts."""

    bound: Callable[[Tally, IntArray], FloatArray]

    def __call__(self, state: Tallies, t: IntArray, rng: np.random.Generator) -> Score:
        """bound(counts, t)."""
        return lambda rows: self.bound(state.tally(rows), t)


@dataclass(frozen=True)
class Ucb(Generic[U_contra]):
    """mean + radius·width, at most `cap`; the radius [B] may depend on state and round."""

    radius: Callable[[U_contra, IntArray], FloatArray]
    cap: float = np.inf

    def __call__(self, state: U_contra, t: IntArray, rng: np.random.Generator) -> Score:
        """The capped upper bound."""
        radius = self.radius(state, t)[:, None]

        def score(rows: Rows) -> FloatArray:
            upper = state.mean(rows) + radius * state.width(rows)
            return np.minimum(upper, self.cap)

        return score


@dataclass(frozen=True)
class Thompson:
    """One draw from the posterior, its spread multiplied by a scale."""

    scale: Schedule | float = 1.0

    def __call__(self, state: Draws, t: IntArray, rng: np.random.Generator) -> Score:
        """The score of the drawn parameters."""
        return state.draw(self.spread(t), rng)

    def spread(self, t: IntArray) -> FloatArray | float:
        """The scale in round t [B]; where it is 0, nothing is drawn."""
        return self.scale(t) if callable(self.scale) else self.scale


@dataclass(frozen=True)
class SharedNoise:
    """mean + Z·sd with ONE standard normal Z for all items of a learner (TS-Cascade)."""

    sd: Callable[[Tally, IntArray], FloatArray]

    def __call__(self, state: Tallies, t: IntArray, rng: np.random.Generator) -> Score:
        """All items move up or down together."""
        Z = rng.standard_normal((len(t), 1))

        def score(rows: Rows) -> FloatArray:
            tally = state.tally(rows)
            return tally.mean + Z * self.sd(tally, t)

        return score


@dataclass(frozen=True)
class Quantile:
    """A quantile of the posterior, at a level that depends on the round."""

    level: Schedule

    def __call__(self, state: Quantiles, t: IntArray, rng: np.random.Generator) -> Score:
        """The posterior quantile at level(t)."""
        q = self.level(t)
        return lambda rows: state.quantile(rows, q)


@dataclass(frozen=True)
class Blocks:
    """Minus the block's level plus U(0, 1): blocks in order, each of them shuffled (TopRank)."""

    def __call__(self, state: OrderState, t: IntArray, rng: np.random.Generator) -> Score:
        """Scores whose order is the blocks' with random order inside."""
        scores = rng.random(state.level.shape) - state.level
        return lambda rows: scores[:, rows.model]


@dataclass(frozen=True)
class EpsilonList(Generic[S_contra]):
    """With probability epsilon a uniformly random list, else another rule's."""

    rule: Explore[S_contra]
    epsilon: float

    def __call__(self, state: S_contra, t: IntArray, rng: np.random.Generator) -> Score:
        """Random scores for the learners that explore in this round."""
        explores = rng.random((len(t), 1)) < self.epsilon
        inner = self.rule(state, t, rng)
        noise: list[FloatArray] = []

        def score(rows: Rows) -> FloatArray:
            scores = inner(rows)
            if not noise:
                noise.append(rng.random(scores.shape))
            return np.where(explores, noise[0], scores)

        return score


@dataclass(frozen=True)
class UcbOutsideLink:
    """σ(mean) + radius·width: the bonus stands outside the link (GL-CDCM)."""

    radius: float

    def __call__(self, state: Summarises, t: IntArray, rng: np.random.Generator) -> Score:
        """An upper bound on the probability itself."""
        return lambda rows: np.asarray(sigmoid(state.mean(rows)) + self.radius * state.width(rows))


@dataclass(frozen=True)
class Sensitive:
    """λ̂_k·(α̂ + radius(β², l)): an optimistic attraction, weighted by the estimated bias of the slot.

    Never-shown items come before all others. Matching such products puts the item with the k-th largest index
    into the slot with the k-th largest bias (rearrangement inequality). Rows name the slot as their model.
    """

    radius: Callable[[FloatArray, IntArray], FloatArray]  # (β² [B, J], l [B]) -> [B, J]
    before_all: float = 1e6

    def __call__(self, state: ChoiceState, t: IntArray, rng: np.random.Generator) -> Score:
        """Products of bias and index."""
        U = state.alpha + self.radius(state.beta2, t)
        U = np.where(state.S.sum(axis=1) > 0, U, self.before_all)
        return lambda rows: state.lam[:, rows.model][:, None] * U
