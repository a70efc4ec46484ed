"""What crosses an edge, each defined once: rank requests, feedback, items, settings and answers. Needs no NumPy."""

from rankloop.schema.answers import Arm, Lift, Listed, PropensityAnswer, Quarantine, RankAnswer, RankerAnswer, Receipt
from rankloop.schema.base import Decoder, Payload
from rankloop.schema.feedback_event import FeedbackEvent
from rankloop.schema.item import Item, ItemBody, ItemFields, Prior, SegmentPrior
from rankloop.schema.rank_request import RankRequest
from rankloop.schema.ranker_settings import Guardrail, RankerSettings

__all__ = [
    "Arm",
    "Decoder",
    "FeedbackEvent",
    "Guardrail",
    "Item",
    "ItemBody",
    "ItemFields",
    "Lift",
    "Listed",
    "Payload",
    "Prior",
    "PropensityAnswer",
    "Quarantine",
    "RankAnswer",
    "RankRequest",
    "RankerAnswer",
    "RankerSettings",
    "Receipt",
    "SegmentPrior",
]
