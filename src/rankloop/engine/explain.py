"""Why does an item stand where it stands? Numbers of the belief behind a score."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankloop.policy import Policy, Ranks
from rankloop.types import Decision, FloatArray, Rows


def explain(policy: Ranks, state: Any, fresh: Any, decision: Decision) -> dict[str, FloatArray]:
    """Estimate, uncertainty and prior share of each listed item, each [k], where the belief has them.

    Args:
        policy: a policy, or a wrapper around one.
        state: of one learner.
        fresh: of one learner who has seen nothing: what it is unsure of is the prior's.
        decision: of one learner.
    """
    inner, belief = _inside(policy, state)
    _, before = _inside(policy, fresh)
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


def _inside(policy: Any, state: Any) -> tuple[Policy[Any] | None, Any]:
    """The composition inside wrappers, and its belief's state."""
    while not isinstance(policy, Policy) and hasattr(policy, "policy"):
        policy, state = policy.policy, getattr(state, "inner", state)
    return (policy, state.belief) if isinstance(policy, Policy) else (None, None)


def _listed(rows: Rows) -> Rows:
    """The rows of a list of one learner as rows to be scored."""
    model = rows.model
    if isinstance(model, np.ndarray):
        model = np.maximum(model[0] if model.ndim == 2 else model, 0)
    return Rows(model, rows.x)
