"""Requests, feedback, items, settings and answers, each defined once as a typed structure. Needs no NumPy."""

from rankloop.schema.answers import (
    GroupSummary,
    Lift,
    PropensityAnswer,
    Quarantine,
    RankAnswer,
    RankedItem,
    RankerAnswer,
    Receipt,
)
from rankloop.schema.base import Decoder, Payload
from rankloop.schema.feature_settings import FeatureSettings, FieldSettings
from rankloop.schema.feedback_event import FeedbackEvent
from rankloop.schema.item import Item, ItemBody, ItemFields, Prior, SegmentPrior
from rankloop.schema.rank_request import RankRequest, RequestItem, RequestItems
from rankloop.schema.ranker_settings import Guardrail, RankerSettings
from rankloop.schema.reward import KindSettings, RewardSettings

__all__ = [
    "Decoder",
    "FeatureSettings",
    "FeedbackEvent",
    "FieldSettings",
    "GroupSummary",
    "Guardrail",
    "Item",
    "ItemBody",
    "ItemFields",
    "KindSettings",
    "Lift",
    "Payload",
    "Prior",
    "PropensityAnswer",
    "Quarantine",
    "RankAnswer",
    "RankRequest",
    "RankedItem",
    "RankerAnswer",
    "RankerSettings",
    "Receipt",
    "RequestItem",
    "RequestItems",
    "RewardSettings",
    "SegmentPrior",
]
