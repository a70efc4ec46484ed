"""An exploration rule: an optimism that fades with the rounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankloop.belief import Beta, BetaState, HasMeanAndWidth
from rankloop.design import PerItem
from rankloop.explore.base import FromState
from rankloop.feedback import Cascade
from rankloop.plan import TopK
from rankloop.policy import Policy
from rankloop.types import FloatArray, IntArray, Rows, Score, Setting


@dataclass(frozen=True)
class Fading(FromState[HasMeanAndWidth]):
    """mean + width·√(1 + 10/t): its scores follow from the state, so every planner knows its propensities."""

    def __call__(self, state: HasMeanAndWidth, t: IntArray, rng: np.random.Generator) -> Score:
        optimism = np.sqrt(1.0 + 10.0 / t)[:, None]

        def score(rows: Rows) -> FloatArray:
            return np.asarray(state.mean(rows) + optimism * state.width(rows))

        return score


def own_rule(setting: Setting) -> Policy[BetaState]:
    """Optimism that fades."""
    prior = setting.need_prior("own-rule")
    return Policy(PerItem(), Beta(prior, setting.items), Fading(), TopK(), Cascade())
