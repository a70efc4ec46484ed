"""The two requests of a visit: rank and feedback."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from rankloop.client import Call, Calls
from rankloop.schema import RankAnswer, Receipt
from rankloop.visitors.audience import Visitor

VALUES = frozenset({"features", "price", "rewards"})
"""What a visit may bring besides its context, where a world changes it: features and prices of the items, rewards and
losses by slot."""


@dataclass(frozen=True)
class VisitFeedback:
    """The feedback of one visitor for one list."""

    event: str
    decision: str
    clicked: Sequence[int]
    regret: float
    values: Sequence[float] | None = None  # the amount of each slot, instead of clicks


def rank(
    ranker: str,
    visitor: Visitor,
    *,
    candidates: Sequence[str] | None = None,
    order: Sequence[str] | None = None,
    values: Collection[str] = VALUES,
) -> Call[RankAnswer]:
    """Return the rank request of a visitor.

    Args:
        ranker: the name of the ranker.
        visitor: the visitor; items that the visit brings with their features or prices are the candidates.
        candidates: ids of the items to request (None for all).
        order: the control ranking, for A/B tests.
        values: which values of a visit the ranker takes, of `VALUES`.
    """
    items = None
    if visitor.items is not None and any(name in values for name in visitor.items[0]):
        items = [{name: item[name] for name in item if name == "id" or name in values} for item in visitor.items]
    return Calls.rank(
        ranker,
        k=visitor.k,
        context=visitor.context,
        candidates=candidates if items is None else None,
        items=items,
        rewards=visitor.rewards if "rewards" in values else None,
        losses=visitor.losses if "rewards" in values else None,
        order=order,
        visitor=None if order is None else visitor.person,
    )


def feedback(ranker: str, given: VisitFeedback) -> Call[Receipt]:
    """Return the feedback request of a visitor, marked as final."""
    # Where a world approximates its best list, another list may be better: no negative regret is sent.
    regret = max(0.0, given.regret)
    clicked = given.clicked if given.values is None else None
    return Calls.feedback(
        ranker, given.decision, clicked=clicked, values=given.values, event=given.event, final=True, regret=regret
    )
