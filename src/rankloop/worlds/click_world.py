"""Worlds whose items attract independently of each other: a click model × a source of attraction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from rankloop.math.counter_rng import keys, uniforms
from rankloop.types import EMPTY, BetaPrior, FloatArray, IntArray, Request, Setting
from rankloop.worlds.attraction import AttractionSource
from rankloop.worlds.base import StationaryVisit
from rankloop.worlds.click_models import ClickModel, listed
from rankloop.worlds.goals import Goal
from rankloop.worlds.list_worth import ModelWorth


@dataclass(frozen=True)
class ClickVisit(StationaryVisit["ClickInstance"]):
    """One visitor for each replication; a uniform number for each item decides whether it attracts."""

    key: NDArray[np.uint64]  # [B], key of the counter-based RNG: item i has the uniform number (key, i)
    slot_uniforms: FloatArray  # [B, K] or [B, 0]

    def value(self, items: IntArray) -> FloatArray:
        """Return the exact expected reward, [B]."""
        return self.instance.goal.worth.value(listed(self.instance.nu, items), self._prices(items))

    def click(self, items: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the outcomes [B, K], clicks or amounts, and the reward [B]."""
        p = listed(self.instance.nu, items)
        drawn = uniforms(self.key, items)
        outcomes, own = self.instance.model.outcomes(p, items != EMPTY, drawn, self.slot_uniforms)
        return outcomes, self.instance.goal.worth.reward(outcomes, own, self._prices(items))

    def _prices(self, items: IntArray) -> FloatArray | None:
        """Return the prices of listed items, [B, K]; None where all clicks have the same value."""
        prices = self.instance.prices
        return None if prices is None else listed(prices, items)


@dataclass(frozen=True)
class ClickInstance:
    """B replications with their attraction probabilities."""

    model: ClickModel
    goal: Goal
    nu: FloatArray  # [B, L], expected amounts where outcomes are amounts
    request: Request
    setting: Setting
    prices: FloatArray | None = None  # [B, L]; None without prices, or where each round draws its own

    @cached_property
    def best(self) -> FloatArray:
        """Return the value of the best list, [B]."""
        return self.goal.best(self.nu, self.request.k, self.prices)

    def visit(self, rng: np.random.Generator) -> ClickVisit:
        """Draw all random numbers of the visitors; they do not depend on the lists that are shown."""
        B, L = self.nu.shape
        prices, now = self.goal.prices, self
        if prices is not None and prices.fresh:
            fresh = prices.next(rng, B, L)
            now = replace(self, prices=fresh, request=replace(self.request, prices=fresh))
        slot_uniforms = self.model.slot_uniforms(B, self.request.k, rng)
        return ClickVisit(now, keys(B, rng), slot_uniforms)


def click_instance(
    model: ClickModel,
    goal: Goal | None,
    nu: FloatArray,
    request: Request,
    setting: Setting,
    streams: Sequence[np.random.Generator],
) -> ClickInstance:
    """Return B replications; prices that belong to a replication are drawn from its stream."""
    chosen = Goal(ModelWorth(model)) if goal is None else goal
    setting = replace(setting, bias=model.bias, objective=chosen.given, termination=model.termination)
    prices = None if chosen.prices is None else chosen.prices.draw(streams, request.items)
    if chosen.prices is not None and chosen.prices.values is None:
        request = replace(request, prices=prices)
    return ClickInstance(model, chosen, nu, chosen.request(request), setting, prices)


@dataclass(frozen=True)
class ClickWorld:
    """A click model with a source of attraction probabilities."""

    model: ClickModel
    source: AttractionSource
    k: int
    prior: BetaPrior | None = None  # given to policies instead of the source's prior (misspecification)
    goal: Goal | None = None  # None: the click model's own value

    def prepare(self, rng: np.random.Generator) -> Self:
        """Return the world itself: nothing shared is random."""
        return self

    def draw(self, streams: Sequence[np.random.Generator], rounds: int | None) -> ClickInstance:
        """Draw the attraction probabilities of each replication from its own stream."""
        drawn = self.source.draw(streams)
        B, L = drawn.nu.shape
        x = drawn.features
        request = Request(learners=B, items=L, k=self.k, features=x, allowed=drawn.allowed)
        prior = drawn.prior if self.prior is None else self.prior
        setting = Setting(L, self.k, rounds, dim=None if x is None else x.shape[-1], prior=prior)
        return click_instance(self.model, self.goal, drawn.nu, request, setting, streams)
