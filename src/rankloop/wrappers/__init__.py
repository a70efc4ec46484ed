"""Wrappers: policies around a policy that change when it decides, learns or forgets."""

from rankloop.wrappers.base import Wrapper
from rankloop.wrappers.batches import BatchState, EveryN
from rankloop.wrappers.discount import Discounted, DiscountState
from rankloop.wrappers.epochs import EpochRepeat, EpochState
from rankloop.wrappers.random_lists import RandomLists, RandomListSchedule, before_round, with_probability

__all__ = [
    "BatchState",
    "DiscountState",
    "Discounted",
    "EpochRepeat",
    "EpochState",
    "EveryN",
    "RandomListSchedule",
    "RandomLists",
    "Wrapper",
    "before_round",
    "with_probability",
]
