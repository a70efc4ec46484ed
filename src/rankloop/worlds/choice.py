"""A world whose visitors choose one item of the whole list, or none (multinomial logit)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from rankloop.types import FloatArray, IntArray, Request, Setting
from rankloop.worlds.attraction import AttractionSource
from rankloop.worlds.base import StationaryVisit
from rankloop.worlds.click_models import listed
from rankloop.worlds.goals import Goal
from rankloop.worlds.list_worth import ChoiceWorth, choice_probabilities


@dataclass(frozen=True)
class ChoiceVisit(StationaryVisit["ChoiceInstance"]):
    """One visitor for each replication; a uniform number selects the chosen slot."""

    uniform: FloatArray  # [B]

    def value(self, items: IntArray) -> FloatArray:
        """Return P(click), or the expected price of the chosen item, [B]."""
        return self.instance.goal.worth.value(listed(self.instance.alpha, items), self._prices(items))

    def click(self, items: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the click on the chosen slot, if any, and its reward."""
        upper = np.cumsum(self.instance.choice_probabilities(items), axis=1)
        lower = np.concatenate([np.zeros((len(items), 1)), upper[:, :-1]], axis=1)
        uniform = self.uniform[:, None]
        clicks = ((lower <= uniform) & (uniform < upper)).astype(np.float64)
        return clicks, self.instance.goal.worth.reward(clicks, clicks.sum(axis=1), self._prices(items))

    def _prices(self, items: IntArray) -> FloatArray | None:
        prices = self.instance.prices
        return None if prices is None else listed(prices, items)


@dataclass(frozen=True)
class ChoiceInstance:
    """B replications with their attraction parameters."""

    alpha: FloatArray  # [B, J]
    bias: FloatArray  # [K]
    goal: Goal
    request: Request
    setting: Setting
    prices: FloatArray | None = None  # [B, J]; None without prices, or where each round draws its own

    @cached_property
    def best(self) -> FloatArray:
        """Return the value of the best list, [B]."""
        return self.goal.best(self.alpha, len(self.bias), self.prices)

    def visit(self, rng: np.random.Generator) -> ChoiceVisit:
        """Draw the visitors of the next round."""
        prices, now = self.goal.prices, self
        if prices is not None and prices.fresh:
            fresh = prices.next(rng, *self.alpha.shape)
            now = replace(self, prices=fresh, request=replace(self.request, prices=fresh))
        return ChoiceVisit(now, rng.random(self.request.learners))

    def choice_probabilities(self, items: IntArray) -> FloatArray:
        """Return P(slot k) = λ_k α / (1 + Σ λ_v α), [B, K]."""
        return choice_probabilities(listed(self.alpha, items), self.bias)


@dataclass(frozen=True)
class ChoiceWorld:
    """Attractions in (0, 1] and position biases in (0, 1]."""

    source: AttractionSource
    bias: FloatArray  # [K]
    goal: Goal | None = None  # None: P(click)

    def prepare(self, rng: np.random.Generator) -> Self:
        """Return the world itself: nothing shared is random."""
        return self

    def draw(self, streams: Sequence[np.random.Generator], rounds: int | None) -> ChoiceInstance:
        """Draw the attractions of each replication from its own stream, then its prices."""
        drawn = self.source.draw(streams)
        B, J = drawn.nu.shape
        K = len(self.bias)
        goal = Goal(ChoiceWorth(self.bias)) if self.goal is None else self.goal
        prices = None if goal.prices is None else goal.prices.draw(streams, J)
        given = prices if goal.prices is not None and goal.prices.values is None else None
        dim = None if drawn.features is None else drawn.features.shape[-1]
        return ChoiceInstance(
            alpha=drawn.nu,
            bias=self.bias,
            goal=goal,
            request=goal.request(Request(B, J, K, drawn.features, allowed=drawn.allowed, prices=given)),
            setting=Setting(J, K, rounds, dim, drawn.prior, bias=self.bias, objective=goal.given),
            prices=prices,
        )
