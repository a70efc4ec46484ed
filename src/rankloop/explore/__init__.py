"""Exploration rules: how does doubt become a score?"""

from rankloop.explore.base import Explore, Schedule
from rankloop.explore.bounds import kl_ucb, ucb1
from rankloop.explore.rules import (
    Blocks,
    Bound,
    EpsilonList,
    Greedy,
    Indifferent,
    Quantile,
    SharedNoise,
    Thompson,
    Ucb,
)

__all__ = [
    "Blocks",
    "Bound",
    "EpsilonList",
    "Explore",
    "Greedy",
    "Indifferent",
    "Quantile",
    "Schedule",
    "SharedNoise",
    "Thompson",
    "Ucb",
    "kl_ucb",
    "ucb1",
]
