"""The pooled hybrid belief: segments share a model, and every item deviates from it in each segment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from rankloop.belief.hybrid import ADDITIVE, Hybrid
from rankloop.belief.hybrid_fit import LEAST_MEAN
from rankloop.belief.hybrid_state import HybridState, signature_weights
from rankloop.belief.pooled_fit import adapt
from rankloop.belief.pooled_state import PooledState
from rankloop.math.hybrid.pooled_kernels import pooled_learn
from rankloop.math.linear import features_of
from rankloop.types import Decision, FloatArray, IntArray


@dataclass(frozen=True)
class PooledHybrid(Hybrid):
    """μ_ig = x_iᵀθ + b_i + d_ig, with d_ig ~ N(0, ω²) for item i in segment g, and all else as in `Hybrid`.

    Both effects are eliminated from every observation, first d, then b, so that the posterior is that of a regression
    with one coefficient for each item and for each item in each segment. ω² is fitted together with τ².
    """

    segments: int = 1  # G
    omega2: float = 0.0025  # ω² at first
    additive = (*ADDITIVE, "X", "m", "Z", "T")

    @property
    def pools(self) -> bool:
        """True: segments deviate from what they share."""
        return True

    def init(self, learners: int) -> PooledState:
        """Return the prior; learners answer for the first segment."""
        B, G, L, q = learners, self.segments, self.items, self.width
        shared = vars(super().init(B))
        by_slot = self.slots if self.learns_bias else 0
        counts = {name: np.zeros((B, G, L, by_slot)) for name in ("N", "C")}
        return PooledState(
            **shared | counts,
            X=np.zeros((B, L, q)),
            m=np.zeros((B, G, L)),
            Z=np.zeros((B, G, L)),
            T=np.zeros((B, G, L, q)),
            omega2=np.full(B, self.omega2),
            segment=np.zeros(B, dtype=np.int64),
        )

    def believe(self, state: HybridState, decision: Decision, score: float, strength: float) -> None:
        """Learn `strength` observations of the score of the item, whatever the segment."""
        super().believe(state, decision, score, strength)
        self._add_pseudo_rows(_pooled(state), decision, strength)

    def disbelieve(self, state: HybridState, decision: Decision, score: float, strength: float) -> None:
        """Remove what `believe` added; exact up to rounding."""
        super().disbelieve(state, decision, score, strength)
        self._add_pseudo_rows(_pooled(state), decision, -strength)

    def _add_pseudo_rows(self, state: PooledState, decision: Decision, strength: float) -> None:
        item = int(decision.rows.models()[0, 0])
        state.X[:, item] += strength * features_of(decision.rows)[0, 0]
        state.X[:, item] *= (state.P[:, item] > 0.0)[:, None]

    def _amend_sums(
        self, state: HybridState, items: IntArray, x: FloatArray, product: FloatArray, change: FloatArray
    ) -> FloatArray:
        """Add to the sums of cells and items, and return u = x - T/c_g - ζS/c of the rows, [B, K, p]."""
        pooled, rows = _pooled(state), np.arange(len(items))[:, None]
        tau2, omega2, s2 = (variance[:, None] for variance in pooled.three_variances)
        at = pooled.segment[:, None], items
        own, c = pooled.m[rows, *at] + s2 / omega2, state.n[rows, items] + s2 / tau2
        zeta = s2 / omega2 / own
        np.add.at(pooled.Z, (rows, *at), product)
        np.add.at(state.Y, (rows, items), zeta * product)
        if self.learns_bias:
            slots = np.arange(items.shape[1])
            np.add.at(state.C, (rows, *at, slots), np.where(state.varied[rows, items], 0.0, change))
        shared = (zeta / c)[..., None] * state.S[rows, items, 1:]
        return np.asarray(x[..., 1:] - pooled.T[rows, *at, 1:] / own[..., None] - shared)

    def _adapt(self, state: HybridState) -> None:
        first = self.tau2, self.omega2
        adapt(_pooled(state), learns_bias=self.learns_bias, most_mean=self.most_mean, first=first)

    def _learn_lists(
        self,
        state: HybridState,
        lists: tuple[IntArray, FloatArray, FloatArray, FloatArray],
        *,
        one_learner: bool,
        strength: float,
    ) -> None:
        pooled = _pooled(state)
        if strength == 0.0 and pooled.segment.min(initial=0) < 0:  # compiled loops do not check their bounds
            raise ValueError("lessons need a segment, and this state answers for one without observations")
        pooled_learn(
            (state.F, state.b), state.sums, pooled.cells, (state.N, state.C), (state.P, state.Q), state.varied,
            (state.G, state.g), state.by_slot, state.totals, state.bias, pooled.three_variances,
            (LEAST_MEAN, self.most_mean), signature_weights(self.width), pooled.segment, lists, one_learner, strength,
        )  # fmt: skip


def _pooled(state: HybridState) -> PooledState:
    """Return the state that `init` made, as what it is."""
    return cast("PooledState", state)
