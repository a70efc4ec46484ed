"""A belief: a Gamma posterior of each item's rate of clicks, with forgetting and priors of its own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankloop.belief import Summarising
from rankloop.belief.base import SummaryState
from rankloop.belief.counts import add_at
from rankloop.design import PerItem
from rankloop.explore import Thompson
from rankloop.feedback import SemiBandit
from rankloop.plan import TopK
from rankloop.policy import Policy
from rankloop.types import Decision, Evidence, FloatArray, Rows, Score, Setting


@dataclass
class GammaState(SummaryState):
    """Gamma(shape, rate) for every item, each [B, L]."""

    shape: FloatArray
    rate: FloatArray

    def mean(self, rows: Rows) -> FloatArray:
        return self.shape[:, rows.model] / self.rate[:, rows.model]

    def width(self, rows: Rows) -> FloatArray:
        return np.sqrt(self.shape[:, rows.model]) / self.rate[:, rows.model]

    def draw(self, scale: FloatArray | float, rng: np.random.Generator) -> Score:
        mean = self.shape / self.rate
        sample = mean + np.reshape(scale, (-1, 1)) * (rng.gamma(self.shape) / self.rate - mean)
        return lambda rows: sample[:, rows.model]


@dataclass(frozen=True)
class Gamma(Summarising[GammaState]):
    """shape += y, rate += exposure."""

    items: int
    binary = True
    fractional = True

    def init(self, learners: int) -> GammaState:
        return GammaState(np.full((learners, self.items), 0.5), np.ones((learners, self.items)))

    def update(self, state: GammaState, decision: Decision, evidence: Evidence) -> None:
        add_at(state.shape, decision.columns, evidence.y)
        add_at(state.rate, decision.columns, evidence.exposure)

    def forget(self, state: GammaState, prior: GammaState, share: float) -> None:
        state.shape[...] = prior.shape + share * (state.shape - prior.shape)
        state.rate[...] = prior.rate + share * (state.rate - prior.rate)

    def believe(self, state: GammaState, decision: Decision, score: float, strength: float) -> None:
        state.shape[:, decision.columns[0]] += strength * score
        state.rate[:, decision.columns[0]] += strength

    def disbelieve(self, state: GammaState, decision: Decision, score: float, strength: float) -> None:
        self.believe(state, decision, score, -strength)
        np.maximum(state.shape, 0.5, out=state.shape)
        np.maximum(state.rate, 1.0, out=state.rate)


def own_belief(setting: Setting) -> Policy[GammaState]:
    """Thompson sampling of click rates."""
    return Policy(PerItem(), Gamma(setting.items), Thompson(), TopK(), SemiBandit())
