"""The two requests of a visit, and the fields of them that are new."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rankloop.client import Call, Calls
from rankloop.engine import Ranking, Receipt
from rankloop.visitors.audience import Visitor

TELL_REGRET = False
"""Whether feedback has the field `regret`; services of this version refuse it."""


@dataclass(frozen=True)
class Told:
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
) -> Call[Ranking]:
    """Ask for a visitor's list; with an order of the caller's own, so that a control group can be kept."""
    call = Calls.rank(ranker, k=visitor.k, context=visitor.context, candidates=candidates)
    return call if order is None else replace(call, body={**call.body, "order": list(order), "visitor": visitor.person})


def feedback(ranker: str, told: Told, *, regret: bool | None = None) -> Call[Receipt]:
    """Tell what a visitor did: all that there is to tell of this list."""
    call = Calls.feedback(ranker, told.decision, clicked=told.clicked, event=told.event, final=True)
    # Where a world knows its best list only nearly, a list may be better than that.
    lost = {"regret": max(0.0, told.regret)} if (TELL_REGRET if regret is None else regret) else {}
    return replace(call, body={**call.body, **lost})
