"""A world whose visitors choose one item of the whole list, or none (multinomial logit)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from rankloop.math.columns import take
from rankloop.types import EMPTY, FloatArray, IntArray, Request, Setting
from rankloop.worlds.attraction import AttractionSource
from rankloop.worlds.base import StationaryVisit
from rankloop.worlds.click_models import most_attractive


@dataclass(frozen=True)
class ChoiceVisit(StationaryVisit["ChoiceInstance"]):
    """One visitor for each replication; a uniform number selects the chosen slot."""

    uniform: FloatArray  # [B]

    def value(self, items: IntArray) -> FloatArray:
        """Return P(click), [B]."""
        return np.asarray(self.instance.choice_probabilities(items).sum(axis=1))

    def click(self, items: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the click on the chosen slot, if any, and its reward."""
        upper = np.cumsum(self.instance.choice_probabilities(items), axis=1)
        lower = np.concatenate([np.zeros((len(items), 1)), upper[:, :-1]], axis=1)
        uniform = self.uniform[:, None]
        clicks = ((lower <= uniform) & (uniform < upper)).astype(np.float64)
        return clicks, clicks.sum(axis=1)


@dataclass(frozen=True)
class ChoiceInstance:
    """B replications with their attraction parameters."""

    alpha: FloatArray  # [B, J]
    bias: FloatArray  # [K]
    best: FloatArray  # [B]
    request: Request
    setting: Setting

    def visit(self, rng: np.random.Generator) -> ChoiceVisit:
        """Draw the visitors of the next round."""
        return ChoiceVisit(self, rng.random(self.request.learners))

    def choice_probabilities(self, items: IntArray) -> FloatArray:
        """Return P(slot k) = λ_k α / (1 + Σ λ_v α), [B, K]."""
        return choice_probabilities(self.alpha, self.bias, items)


def choice_probabilities(alpha: FloatArray, bias: FloatArray, items: IntArray) -> FloatArray:
    """Return P(slot k is chosen), [B, K], for attractions [B, J], position biases [K] and lists [B, K]."""
    weight = np.where(items != EMPTY, bias[: items.shape[1]] * take(alpha, items), 0.0)
    return np.asarray(weight / (1.0 + weight.sum(axis=1, keepdims=True)))


@dataclass(frozen=True)
class ChoiceWorld:
    """Attractions in (0, 1] and position biases in (0, 1]."""

    source: AttractionSource
    bias: FloatArray  # [K]

    def prepare(self, rng: np.random.Generator) -> Self:
        """Return the world itself: nothing shared is random."""
        return self

    def draw(self, streams: Sequence[np.random.Generator], rounds: int | None) -> ChoiceInstance:
        """Draw the attractions of each replication from its own stream."""
        drawn = self.source.draw(streams)
        B, J = drawn.nu.shape
        K = len(self.bias)
        best = most_attractive(drawn.nu, np.argsort(-self.bias, kind="stable"))
        dim = None if drawn.features is None else drawn.features.shape[-1]
        return ChoiceInstance(
            alpha=drawn.nu,
            bias=self.bias,
            best=choice_probabilities(drawn.nu, self.bias, best).sum(axis=1),
            request=Request(B, J, K, drawn.features, allowed=drawn.allowed),
            setting=Setting(J, K, rounds, dim, drawn.prior, bias=self.bias),
        )
