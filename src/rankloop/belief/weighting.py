"""Less of the past, or some of it borrowed: forgetting, and pseudo-observations from an existing ranker."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankloop.belief.beta import Beta, BetaState
from rankloop.belief.counts import Counts, CountsState
from rankloop.belief.gaussian import Gaussian, GaussianState
from rankloop.belief.linear import Ridge, RidgeState, add_rows
from rankloop.errors import Unsupported
from rankloop.math import factor
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
        V, V0 = (np.linalg.inv(F @ np.swapaxes(F, -1, -2)) for F in (state.F, prior.F))
        state.F[...] = factor.from_precision(share * V + (1.0 - share) * V0)
        state.b[...] = prior.b + share * (state.b - prior.b)
    else:
        raise Unsupported(
            f"a {type(state).__name__} cannot forget; choose a policy of counts, Beta, Gaussian or ridge."
        )


def can_believe(belief: Any) -> bool:
    """Whether `believe` knows how."""
    return isinstance(belief, Counts | Beta | Gaussian) or type(belief) is Ridge


def believe(belief: Any, state: Any, rows: Rows, score: float, strength: float) -> None:
    """Learn as if an item had been seen `strength` times with outcome `score` on average, in place.

    Args:
        belief: the policy's.
        state: of B learners.
        rows: of a list [B, 1] of the item.
        score: its mean outcome.
        strength: number of pseudo-observations, any number of at least 0.
    """
    if isinstance(belief, Counts | Beta | Gaussian):
        at = np.asarray(rows.model)[0, 0]
    if isinstance(belief, Counts):
        state.clicks[:, at] += strength * score
        state.exposure[:, at] += strength
        state.shown[:, at] += strength
    elif isinstance(belief, Beta):
        state.a[:, at] += strength * score
        state.b[:, at] += strength * (1.0 - score)
    elif isinstance(belief, Gaussian):
        state.precision[:, at] += strength / belief.sigma**2
        state.shift[:, at] += strength * score / belief.sigma**2
    elif type(belief) is Ridge:
        B = len(state.b)
        seen = Evidence(np.full((B, 1), score), np.ones((B, 1)))
        add_rows(state, rows, seen, (belief.weight * strength) ** 0.5)
    else:
        raise Unsupported(
            "this policy takes no scores of another ranker; choose one of counts, Beta, Gaussian or ridge."
        )
