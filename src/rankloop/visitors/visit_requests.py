"""The two requests of a visit: rank and feedback."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rankloop.client import Call, Calls
from rankloop.schema import RankAnswer, Receipt
from rankloop.visitors.audience import Visitor


@dataclass(frozen=True)
class VisitFeedback:
    """The feedback of one visitor for one list."""

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
    """Return the rank request of a visitor; `order` is the control ranking, for A/B tests."""
    person = None if order is None else visitor.person
    return Calls.rank(ranker, k=visitor.k, context=visitor.context, candidates=candidates, order=order, visitor=person)


def feedback(ranker: str, given: VisitFeedback) -> Call[Receipt]:
    """Return the feedback request of a visitor, marked as final."""
    # Where a world approximates its best list, another list may be better: no negative regret is sent.
    regret = max(0.0, given.regret)
    return Calls.feedback(ranker, given.decision, clicked=given.clicked, event=given.event, final=True, regret=regret)
