"""Worlds whose items attract independently of each other: a click model × a source of attraction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from rankloop.math.columns import take
from rankloop.math.counter_rng import keys, uniforms
from rankloop.types import BetaPrior, FloatArray, IntArray, Request, Setting
from rankloop.worlds.attraction import AttractionSource
from rankloop.worlds.base import StationaryVisit
from rankloop.worlds.click_models import ClickModel, listed


@dataclass(frozen=True)
class ClickVisit(StationaryVisit["ClickInstance"]):
    """One visitor for each replication; a uniform number for each item decides whether it attracts."""

    key: NDArray[np.uint64]  # [B], key of the counter-based RNG: item i has the uniform number (key, i)
    slot_uniforms: FloatArray  # [B, K] or [B, 0]

    def value(self, items: IntArray) -> FloatArray:
        """Return the exact expected reward, [B]."""
        return self.instance.model.value(listed(self.instance.nu, items))

    def click(self, items: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the clicks [B, K] and the reward [B]."""
        attracted = uniforms(self.key, items) < listed(self.instance.nu, items)
        return self.instance.model.click(attracted, self.slot_uniforms)


@dataclass(frozen=True)
class ClickInstance:
    """B replications with their attraction probabilities."""

    model: ClickModel
    nu: FloatArray  # [B, L]
    best: FloatArray  # [B]
    request: Request
    setting: Setting

    def visit(self, rng: np.random.Generator) -> ClickVisit:
        """Draw all random numbers of the visitors; they do not depend on the lists that are shown."""
        slot_uniforms = self.model.slot_uniforms(self.nu.shape[0], self.request.k, rng)
        return ClickVisit(self, keys(len(self.nu), rng), slot_uniforms)


def best_value(model: ClickModel, nu: FloatArray, k: int) -> FloatArray:
    """Return the value [B] of the best lists: the k most attractive items, in the click model's best order."""
    top = np.partition(nu, -k, axis=1)[:, -k:]  # unordered: a full sort would cost more
    return model.value(take(top, model.best(top, k)))


@dataclass(frozen=True)
class ClickWorld:
    """A click model with a source of attraction probabilities."""

    model: ClickModel
    source: AttractionSource
    k: int
    prior: BetaPrior | None = None  # given to policies instead of the source's prior (misspecification)

    def prepare(self, rng: np.random.Generator) -> Self:
        """Return the world itself: nothing shared is random."""
        return self

    def draw(self, streams: Sequence[np.random.Generator], rounds: int | None) -> ClickInstance:
        """Draw the attraction probabilities of each replication from its own stream."""
        drawn = self.source.draw(streams)
        B, L = drawn.nu.shape
        x = drawn.features
        return ClickInstance(
            model=self.model,
            nu=drawn.nu,
            best=best_value(self.model, drawn.nu, self.k),
            request=Request(learners=B, items=L, k=self.k, features=x, allowed=drawn.allowed),
            setting=Setting(
                items=L,
                slots=self.k,
                rounds=rounds,
                dim=None if x is None else x.shape[-1],
                prior=drawn.prior if self.prior is None else self.prior,
                bias=self.model.bias,
            ),
        )
