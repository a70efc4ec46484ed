"""The two requests of a visit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rankloop.client import Call, Calls
from rankloop.schema import RankAnswer, Receipt
from rankloop.visitors.audience import Visitor


@dataclass(frozen=True)
class VisitFeedback:
    """What one visitor did to one list."""

    event: str
    decision: str
    clicked: Sequence[int]
    regret: float


def rank(
    ranker: str,
    visitor: Visitor,
    *,
    candidates: Sequence[str] | None = None,
    order: Sequence[str] | None = None,
) -> Call[RankAnswer]:
    """Ask for a visitor's list; with an order of the caller's own, so that a control group can be kept."""
    person = None if order is None else visitor.person
    return Calls.rank(ranker, k=visitor.k, context=visitor.context, candidates=candidates, order=order, visitor=person)


def feedback(ranker: str, told: VisitFeedback) -> Call[Receipt]:
    """Tell what a visitor did: all that there is to tell of this list."""
    # Where a world knows its best list only nearly, a list may be better than that.
    lost = max(0.0, told.regret)
    return Calls.feedback(ranker, told.decision, clicked=told.clicked, event=told.event, final=True, regret=lost)
