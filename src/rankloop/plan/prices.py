"""Prices of a request, and what an item gains at its price."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankloop.errors import InvalidInput, Words
from rankloop.math.links import Link
from rankloop.objective import Objective
from rankloop.types import FloatArray, Request


def prices_of(objective: Objective, request: Request) -> FloatArray:
    """Return the price of each candidate, [1 or B, L]: the request's own, or those of the objective.

    All prices are 1 where neither has any.
    """
    prices = request.prices
    if prices is None:
        if objective.prices is None:
            return np.ones((1, request.items))
        prices = objective.prices if request.columns is None else objective.prices[..., request.columns]
    prices = prices[None] if prices.ndim == 1 else prices
    if prices.shape not in ((1, request.items), (request.learners, request.items)):  # kernels do not check bounds
        raise InvalidInput("request.prices", Words(f"an array of shape {prices.shape}"), f"{request.items} prices")
    return prices


@dataclass(frozen=True, eq=False)
class PricedGains:
    """The expected revenue of each item: its price times its attraction."""

    objective: Objective
    link: Link

    def __call__(self, scores: FloatArray, request: Request) -> FloatArray:
        """Return the gains [B, L] of scores [B, L]."""
        return np.asarray(prices_of(self.objective, request) * self.link.attraction(scores))
