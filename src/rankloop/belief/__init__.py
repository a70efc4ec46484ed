"""Beliefs: estimates with uncertainty, and how they are updated."""

from rankloop.belief.amounts import AmountState, CountState, OnlineAmounts, OnlineCounts
from rankloop.belief.base import (
    Belief,
    Estimating,
    HasMean,
    HasMeanAndWidth,
    HasQuantiles,
    HasTally,
    HasWidth,
    Summarising,
    SupportsDraw,
    Tally,
)
from rankloop.belief.beta import Beta, BetaState
from rankloop.belief.choice import ESTIMATORS, ChoiceEstimates, ChoiceState
from rankloop.belief.counts import Counts, CountsState
from rankloop.belief.diagonal import (
    Diagonal,
    DiagonalLaplace,
    DiagonalLogisticState,
    DiagonalNewton,
    DiagonalRidge,
    DiagonalState,
)
from rankloop.belief.gaussian import Gaussian, GaussianState
from rankloop.belief.laplace import LaplaceState, RecursiveLaplace
from rankloop.belief.linear import LinearState, Ridge, RidgeState
from rankloop.belief.logistic import LogisticFrozen, LogisticGram, LogisticMAP, LogisticState
from rankloop.belief.logistic_rows import LogisticRows, OnlineLogistic, OnlineState, RowsState
from rankloop.belief.newton import NewtonState, OnlineNewton
from rankloop.belief.order import OrderState, PairwiseOrder
from rankloop.belief.self_weighted import SelfWeightedRidge, SelfWeightedState
from rankloop.belief.static import Fixed, Nothing

__all__ = [
    "ESTIMATORS",
    "AmountState",
    "Belief",
    "Beta",
    "BetaState",
    "ChoiceEstimates",
    "ChoiceState",
    "CountState",
    "Counts",
    "CountsState",
    "Diagonal",
    "DiagonalLaplace",
    "DiagonalLogisticState",
    "DiagonalNewton",
    "DiagonalRidge",
    "DiagonalState",
    "Estimating",
    "Fixed",
    "Gaussian",
    "GaussianState",
    "HasMean",
    "HasMeanAndWidth",
    "HasQuantiles",
    "HasTally",
    "HasWidth",
    "LaplaceState",
    "LinearState",
    "LogisticFrozen",
    "LogisticGram",
    "LogisticMAP",
    "LogisticRows",
    "LogisticState",
    "NewtonState",
    "Nothing",
    "OnlineAmounts",
    "OnlineCounts",
    "OnlineLogistic",
    "OnlineNewton",
    "OnlineState",
    "OrderState",
    "PairwiseOrder",
    "RecursiveLaplace",
    "Ridge",
    "RidgeState",
    "RowsState",
    "SelfWeightedRidge",
    "SelfWeightedState",
    "Summarising",
    "SupportsDraw",
    "Tally",
]
