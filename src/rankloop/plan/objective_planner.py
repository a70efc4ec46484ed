"""The planner that follows from a click model and an objective."""

from __future__ import annotations

from rankloop.plan.base import Planner
from rankloop.plan.top_k import TopK
from rankloop.types import Setting


def plan_for(click_model: str, setting: Setting) -> Planner:
    """Return the planner of the list of largest value under a click model, `Feedback.name`, and the objective."""
    return TopK()
