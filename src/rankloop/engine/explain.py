"""Why does an item stand where it stands? Numbers of the belief behind a score."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankloop.engine.inside import belief_of
from rankloop.policy import Ranks
from rankloop.types import Decision, FloatArray, Rows


def explain(policy: Ranks, state: Any, fresh: Any, decision: Decision) -> dict[str, FloatArray]:
    """Estimate, uncertainty and prior share of each listed item, each [k], where the belief has them.

    Args:
        policy: a policy, or a wrapper around one.
        state: of one learner.
        fresh: of one learner who has seen nothing: what it is unsure of is the prior's.
        decision: of one learner.
    """
    inner, belief = belief_of(policy, state)
    _, before = belief_of(policy, fresh)
    if inner is None:
        return {}
    rows = _listed(decision.rows)
    found: dict[str, FloatArray] = {}
    if hasattr(belief, "mean"):
        found["estimate"] = belief.mean(rows)[0]
    if hasattr(belief, "width"):
        width = belief.width(rows)[0]
        start = before.width(rows)[0]
        share = np.divide(width, start, out=np.ones_like(width), where=start > 0) ** 2
        found |= {"uncertainty": width, "prior_share": np.clip(share, 0.0, 1.0)}
    return found


def _listed(rows: Rows) -> Rows:
    """The rows of a list of one learner as rows to be scored."""
    model = rows.model
    if isinstance(model, np.ndarray):
        model = np.maximum(model[0] if model.ndim == 2 else model, 0)
    return Rows(model, rows.x)
