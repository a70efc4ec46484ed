"""Designs: which model a slot feeds, and with which features."""

from rankloop.design.base import Design, context_of, features_at, item_features
from rankloop.design.coverage import Coverage
from rankloop.design.hashed import Hashed, hashed_or_shared
from rankloop.design.items import PerItem, PerItemSlot, SlotOnly
from rankloop.design.positions import Interaction, Positional
from rankloop.design.shared import Crossed, PerSlot, Shared, refuse_hashed, shared_rows

__all__ = [
    "Coverage",
    "Crossed",
    "Design",
    "Hashed",
    "Interaction",
    "PerItem",
    "PerItemSlot",
    "PerSlot",
    "Positional",
    "Shared",
    "SlotOnly",
    "context_of",
    "features_at",
    "hashed_or_shared",
    "item_features",
    "refuse_hashed",
    "shared_rows",
]
