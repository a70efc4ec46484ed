"""Wrappers: when do we decide, learn and forget? A policy around a policy."""

from rankloop.wrappers.base import Wrapper
from rankloop.wrappers.batches import BatchState, EveryN
from rankloop.wrappers.discount import Discounted, DiscountState
from rankloop.wrappers.epochs import EpochRepeat, EpochState
from rankloop.wrappers.random_lists import RandomLists, When, before, with_chance

__all__ = [
    "BatchState",
    "DiscountState",
    "Discounted",
    "EpochRepeat",
    "EpochState",
    "EveryN",
    "RandomLists",
    "When",
    "Wrapper",
    "before",
    "with_chance",
]
