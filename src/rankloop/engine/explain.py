"""Why does an item stand where it stands? Numbers of the belief behind a score."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rankloop.engine.inside import belief_of
from rankloop.math.kernels import left_of_variance
from rankloop.policy import Ranks
from rankloop.types import EMPTY, Decision, FloatArray, IntArray, Rows


def explain(policy: Ranks, state: Any, fresh: Any, decision: Decision) -> FloatArray | None:
    """Estimate, uncertainty and prior share of each listed item, [3, k], NaN where the belief has none.

    Args:
        policy: a policy, or a wrapper around one.
        state: of one learner.
        fresh: of one learner who has seen nothing: what it is unsure of is the prior's.
        decision: of one learner.
    """
    inner, belief = belief_of(policy, state)
    if inner is None or not (hasattr(belief, "mean") or hasattr(belief, "width")):
        return None
    _, before = belief_of(policy, fresh)
    found = np.empty((3, decision.items.shape[1]))
    rows = _listed(decision.rows)
    found[0] = belief.mean(rows)[0] if hasattr(belief, "mean") else np.nan
    if hasattr(belief, "width"):
        found[1] = belief.width(rows)[0]
        left_of_variance(found[1], before.width(rows)[0], found[2])
    else:
        found[1:] = np.nan
    return found


def exploration(
    items: IntArray, scores: FloatArray | None, why: FloatArray | None, pinned: Sequence[int] = ()
) -> list[float | None]:
    """How much of each place's score is exploring: |score - estimate| beside |estimate|.

    All of it where a place is random, nothing where it is pinned; None where the policy has no estimate, and in
    empty slots.
    """
    slots = items.tolist()
    if scores is None:
        return [None if column == EMPTY else 0.0 if at in pinned else 1.0 for at, column in enumerate(slots)]
    if why is None:
        return [0.0 if at in pinned else None for at in range(len(slots))]
    found: list[float | None] = []
    for at, (column, score, estimate) in enumerate(zip(slots, scores.tolist(), why[0].tolist(), strict=True)):
        if column == EMPTY or estimate != estimate:
            found.append(None)
        elif at in pinned:
            found.append(0.0)
        elif math.isinf(score):  # beyond all numbers: nobody has seen it
            found.append(1.0)
        else:
            added = abs(score - estimate)
            whole = added + abs(estimate)
            found.append(added / whole if whole > 0 else 0.0)
    return found


def _listed(rows: Rows) -> Rows:
    """The rows of a list of one learner as rows to be scored."""
    model = rows.model
    if isinstance(model, np.ndarray):
        model = np.maximum(model[0] if model.ndim == 2 else model, 0)
    return Rows(model, rows.x)
