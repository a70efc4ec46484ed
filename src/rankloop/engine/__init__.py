"""One ranker in production: items that come and go, lists, feedback, a log from which everything can be rebuilt."""

from rankloop.engine.config import RankerConfig
from rankloop.engine.ranker import Ranker
from rankloop.engine.ranking import Ranking
from rankloop.errors import ConflictingDecision, UnknownDecision
from rankloop.schema import Item, Listed, Receipt

__all__ = [
    "ConflictingDecision",
    "Item",
    "Listed",
    "Ranker",
    "RankerConfig",
    "Ranking",
    "Receipt",
    "UnknownDecision",
]
