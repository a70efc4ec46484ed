"""`Lesson`: what a learner learns from a decision."""

from __future__ import annotations

from typing import NamedTuple

from rankloop.eventlog.events import DecisionMade
from rankloop.types import FloatArray


class Lesson(NamedTuple):
    """A decision to learn from, or one that was learned and has another outcome now."""

    event: DecisionMade
    outcome: FloatArray  # [k]
    position: int  # log position of the event that taught it
    before: FloatArray | None = None  # [k] the outcome with which it was learned, if it is to be amended
