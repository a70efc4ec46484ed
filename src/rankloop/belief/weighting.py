"""Less of the past, or some of it borrowed: forgetting, and pseudo-observations from an existing ranker."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankloop.belief.base import defines_both
from rankloop.belief.beta import Beta, BetaState
from rankloop.belief.counts import Counts, CountsState
from rankloop.belief.gaussian import Gaussian, GaussianState
from rankloop.belief.linear import Ridge, RidgeState, add_rows
from rankloop.errors import Unsupported
from rankloop.math import factor
from rankloop.math.linear import features_of
from rankloop.state import State
from rankloop.types import Evidence, Rows

ADDITIVE = (CountsState, BetaState, GaussianState)
"""States whose arrays are a prior plus a sum over observations."""


def can_forget(state: State) -> bool:
    """Whether `forget` knows how."""
    return isinstance(state, ADDITIVE) or type(state) is RidgeState


def forget(state: State, prior: State, share: float) -> None:
    """Keep this share of what was observed, in place; what was believed before the first click stays.

    Args:
        state: of B learners.
        prior: of one learner who has seen nothing.
        share: in (0, 1]; 1 forgets nothing.
    """
    if isinstance(state, ADDITIVE):
        for (_, now), (_, before) in zip(state.arrays(), prior.arrays(), strict=True):
            now[...] = before + share * (now - before)
    elif type(state) is RidgeState and isinstance(prior, RidgeState):
        V, V0 = (factor.precision(F) for F in (state.F, prior.F))
        state.F[...] = factor.from_precision(share * V + (1.0 - share) * V0)
        state.b[...] = prior.b + share * (state.b - prior.b)
    else:
        raise Unsupported(
            f"a {type(state).__name__} cannot forget; choose a policy of counts, Beta, Gaussian or ridge."
        )


def can_believe(belief: Any) -> bool:
    """Whether `believe` knows how."""
    known = isinstance(belief, Counts | Beta | Gaussian) or type(belief) is Ridge
    return known and defines_both(belief)  # with another `update`, pseudo-observations would be another thing


def believe(belief: Any, state: Any, rows: Rows, score: float, strength: float) -> None:
    """Learn as if an item had been seen `strength` times with outcome `score` on average, in place.

    A negative strength takes back what was believed before with the same rows and score.

    Args:
        belief: the policy's.
        state: of B learners.
        rows: of a list [B, 1] of the item.
        score: its mean outcome.
        strength: number of pseudo-observations.
    """
    if isinstance(belief, Counts | Beta | Gaussian):
        at = np.asarray(rows.model)[0, 0]
        least: Any = belief.init(1)  # what is taken back leaves what was believed before, whatever rounding says
    if isinstance(belief, Counts):
        for sums, change in ((state.clicks, strength * score), (state.exposure, strength), (state.shown, strength)):
            sums[:, at] = np.maximum(sums[:, at] + change, 0.0)
    elif isinstance(belief, Beta):
        state.a[:, at] = np.maximum(state.a[:, at] + strength * score, least.a[:, at])
        state.b[:, at] = np.maximum(state.b[:, at] + strength * (1.0 - score), least.b[:, at])
    elif isinstance(belief, Gaussian):
        precision = state.precision[:, at] + strength / belief.sigma**2
        state.precision[:, at] = np.maximum(precision, least.precision[:, at])
        state.shift[:, at] += strength * score / belief.sigma**2
    elif type(belief) is Ridge:
        B, root = len(state.b), (belief.weight * abs(strength)) ** 0.5
        if strength >= 0.0:
            add_rows(state, rows, Evidence(np.full((B, 1), score), np.ones((B, 1))), root)
        else:
            x = np.broadcast_to(features_of(rows)[:, 0] * root, (B, belief.dim))
            model = factor.slot_models(rows.model, (B, 1))[0, 0]
            factor.remove_row(state.F[:, model], x)
            state.b[:, model] -= x * (score * root)
    else:
        raise Unsupported(
            "this policy takes no scores of another ranker; choose one of counts, Beta, Gaussian or ridge."
        )
