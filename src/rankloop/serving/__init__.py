"""One ranker in production: items that come and go, lists, feedback, a log from which everything can be rebuilt."""

from rankloop.errors import ConflictingDecision, UnknownDecision
from rankloop.schema import Item, RankedItem, Receipt
from rankloop.serving.config import RankerConfig
from rankloop.serving.ranker import Ranker
from rankloop.serving.ranking import Ranking

__all__ = [
    "ConflictingDecision",
    "Item",
    "RankedItem",
    "Ranker",
    "RankerConfig",
    "Ranking",
    "Receipt",
    "UnknownDecision",
]
