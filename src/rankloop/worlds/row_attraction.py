"""Attractions that differ from round to round: functions of the visitor's context and of the items' features.

With a context x and features y of an item, the attraction is a function of the crossed row z = (x, y, x⊗y), and of y
alone without a context. The weights of the row belong to a replication and never change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from rankloop.math.logistic import sigmoid
from rankloop.types import FloatArray, Setting
from rankloop.worlds.contexts import ContextSource

Link = Literal["linear", "logistic", "identity"]
"""ν = zᵀw in [0, 1], σ(zᵀw), or zᵀw of any size (an expected amount)."""


def row_width(dim: int, context: int | None) -> int:
    """Return the length of a row: d, or dx + d + dx·d with a context."""
    return dim if context is None else context + dim + context * dim


@dataclass(frozen=True)
class RoundAttraction:
    """What differs in one round of B replications."""

    nu: FloatArray  # [B, L]
    features: FloatArray  # [L, d] or [B, L, d]
    context: FloatArray | None  # [B, dx]


@dataclass(frozen=True)
class RowTastes:
    """The weights of B replications, from which the attractions of each round follow."""

    source: RowSource
    weights: FloatArray  # [B, row_width]
    features: FloatArray | None  # [L, d] or [B, L, d]; None where they are drawn each round

    def next(self, rng: np.random.Generator) -> RoundAttraction:
        """Draw the features of a round, then its contexts, where they change, and return the attractions."""
        B, d = len(self.weights), self.source.dim
        y = self.features
        if y is None:
            y = unit_rows(rng.random((B, self.source.items, d)))
        if self.source.contexts is None:
            return RoundAttraction(self._linked(np.matvec(y, self.weights)), y, None)
        x = self.source.contexts.draw(rng, B)
        return RoundAttraction(self._linked(crossed_product(self.weights, x, y)), y, x)

    def _linked(self, u: FloatArray) -> FloatArray:
        if self.source.link == "logistic":
            return np.asarray(sigmoid(u))
        # The weights keep linear attractions in [0, 1]: only rounding errors can leave it.
        return np.clip(u, 0.0, 1.0) if self.source.link == "linear" else u


def crossed_product(weights: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
    """Return zᵀw of the crossed rows z = (x, y, x⊗y), [B, L], without making them.

    Args:
        weights: [B, dx + d + dx·d].
        x: contexts [B, dx].
        y: features [L, d] or [B, L, d].
    """
    (B, dx), d = x.shape, y.shape[-1]
    crossed = weights[:, dx + d :].reshape(B, dx, d)
    effect = weights[:, dx : dx + d] + np.vecmat(x, crossed)
    return np.asarray(np.matvec(y, effect) + np.vecdot(weights[:, :dx], x)[:, None])


def unit_rows(x: FloatArray) -> FloatArray:
    """Return vectors [..., d] scaled to unit norm."""
    return np.asarray(x / np.linalg.vector_norm(x, axis=-1, keepdims=True))


@dataclass(frozen=True, eq=False)
class RowSource:
    """Attractions by round: weights and features as given, or drawn for each replication.

    Features are uniform on [0, 1]^d, scaled to unit norm. Weights that are not given, with a and m_j of unit norm:

    - without a context, linear or logistic: a, uniform on [0, 1]^d before scaling, so that ν = yᵀa or σ(yᵀa);
    - logistic with a context: independent standard normal weights of z, ν = σ(zᵀw);
    - linear with a context: ν = ½ Σ_j a_j y_j (1 + m_jᵀx), m_j a uniform direction: feature j attracts visitors whose
      context points along m_j. In [0, 1] for contexts of the unit ball; the weights of x alone are 0.
    """

    items: int
    dim: int
    link: Link
    contexts: ContextSource | None = None
    fresh: bool = False  # features are drawn each round
    features: FloatArray | None = None  # [L, d]
    weights: FloatArray | None = None  # [row_width]
    explained_by = "the items' features"

    @property
    def context(self) -> int | None:
        """Return dx, the length of a context, where visitors have one."""
        return None if self.contexts is None else self.contexts.dim

    def draw(self, streams: Sequence[np.random.Generator]) -> RowTastes:
        """Draw the weights, then the features, from each replication's stream."""
        drawn = [self._one(rng) for rng in streams]
        weights = np.stack([one for one, _ in drawn])
        if self.fresh or self.features is not None:
            return RowTastes(self, weights, self.features)
        return RowTastes(self, weights, np.stack([features for _, features in drawn]))

    def _one(self, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        weights = self._drawn_weights(rng) if self.weights is None else self.weights
        drawn = 0 if self.fresh or self.features is not None else self.items
        return weights, unit_rows(rng.random((drawn, self.dim)))

    def _drawn_weights(self, rng: np.random.Generator) -> FloatArray:
        dx, d = self.context, self.dim
        if dx is None:
            return unit_rows(rng.random(d))
        if self.link == "logistic":
            return rng.standard_normal(row_width(d, dx))
        a, m = unit_rows(rng.random(d)), unit_rows(rng.standard_normal((d, dx)))
        return np.concatenate([np.zeros(dx), 0.5 * a, 0.5 * (m.T * a).ravel()])


def row_setting(source: RowSource, setting: Setting) -> Setting:
    """Return the setting with what policies know about rows that change from round to round."""
    return replace(setting, dim=source.dim, context=source.context, changing=True)
