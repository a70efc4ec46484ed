"""Exploration rules: how estimates and their uncertainty become scores."""

from rankloop.explore.base import ExplorationRule, Schedule
from rankloop.explore.bounds import epoch_ucb, kl_ucb, pbm_ucb, ucb1
from rankloop.explore.rules import (
    Blocks,
    Bound,
    EpsilonList,
    Greedy,
    Indifferent,
    Quantile,
    Sensitive,
    SharedNoise,
    Thompson,
    Ucb,
    UcbOutsideLink,
)

__all__ = [
    "Blocks",
    "Bound",
    "EpsilonList",
    "ExplorationRule",
    "Greedy",
    "Indifferent",
    "Quantile",
    "Schedule",
    "Sensitive",
    "SharedNoise",
    "Thompson",
    "Ucb",
    "UcbOutsideLink",
    "epoch_ucb",
    "kl_ucb",
    "pbm_ucb",
    "ucb1",
]
