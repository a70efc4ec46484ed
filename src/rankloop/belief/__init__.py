"""Beliefs: what do we think, and how sure are we?"""

from rankloop.belief.base import Belief, Draws, Means, Quantiles, Summarises, Tallies, Tally
from rankloop.belief.beta import Beta, BetaState
from rankloop.belief.counts import Counts, CountsState
from rankloop.belief.gaussian import Gaussian, GaussianState
from rankloop.belief.linear import LinearState, Ridge, RidgeState
from rankloop.belief.logistic import LogisticFrozen, LogisticMAP, LogisticState
from rankloop.belief.newton import NewtonState, OnlineNewton
from rankloop.belief.nothing import Fixed, FixedState, Nothing
from rankloop.belief.order import OrderState, PairwiseOrder
from rankloop.belief.self_weighted import SelfWeightedRidge, SelfWeightedState

__all__ = [
    "Belief",
    "Beta",
    "BetaState",
    "Counts",
    "CountsState",
    "Draws",
    "Fixed",
    "FixedState",
    "Gaussian",
    "GaussianState",
    "LinearState",
    "LogisticFrozen",
    "LogisticMAP",
    "LogisticState",
    "Means",
    "NewtonState",
    "Nothing",
    "OnlineNewton",
    "OrderState",
    "PairwiseOrder",
    "Quantiles",
    "Ridge",
    "RidgeState",
    "SelfWeightedRidge",
    "SelfWeightedState",
    "Summarises",
    "Tallies",
    "Tally",
]
