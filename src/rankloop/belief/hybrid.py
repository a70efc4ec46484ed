"""The hybrid belief: features explain a part, and every item has an effect of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankloop.belief.base import Summarising
from rankloop.belief.hybrid_fit import LEAST_MEAN, PRIOR_SD, adapt, prior_mean
from rankloop.belief.hybrid_state import HybridState, signature_weights
from rankloop.belief.linear import blend_precision
from rankloop.math import factor
from rankloop.math.hybrid.kernels import HEAD, learn
from rankloop.math.linear import features_of
from rankloop.special_functions import NORMAL_95
from rankloop.types import Decision, Evidence, FloatArray, IntArray, ScoreTrust, SlotEffects

ADDITIVE = ("n", "Y", "S", "R", "P", "Q", "N", "C", "G", "g", "by_slot", "totals")
"""Arrays of the state that are sums over observations."""


@dataclass(frozen=True)
class Hybrid(Summarising[HybridState]):
    """μ_i = x_iᵀθ + b_i, θ ~ N(θ_0, I/0.3²), b_i ~ N(0, τ²), outcomes y = λ·μ_i + noise of variance s².

    The posterior is that of a regression with one coefficient for each item, in O(d²) an observation. Every `adapt`
    updates of a learner the variances are fitted by empirical Bayes and, where biases are learned, the bias λ_k of each
    slot; otherwise λ is the exposure of the feedback model.
    """

    items: int  # L
    slots: int  # K
    width: int  # q, columns of a row with its offset
    learns_bias: bool = True
    adapt: int | None = 200  # updates between two fits of variances and biases; None for never
    tau2: float = 0.01  # τ² at first
    s2: float = 0.1  # s² at first
    order_mean: float = 0.1  # prior mean of the order's coefficient at first
    most_mean: float = 1.0  # largest estimate that enters the fit of biases
    binary = False
    fractional = True
    additive: ClassVar[tuple[str, ...]] = ADDITIVE

    @property
    def row_features(self) -> int:
        """Columns of a row: the offset and p features."""
        return self.width

    def init(self, learners: int) -> HybridState:
        """Return the prior."""
        B, L, K, q = learners, self.items, self.slots, self.width
        by_slot = K if self.learns_bias else 0
        state = HybridState(
            F=factor.initial(B, 1, q - 1, PRIOR_SD**-2)[:, 0],
            b=np.zeros((B, q - 1)),
            n=np.zeros((B, L)),
            Y=np.zeros((B, L)),
            S=np.zeros((B, L, q)),
            R=np.zeros((B, L)),
            P=np.zeros((B, L)),
            Q=np.zeros((B, L)),
            N=np.zeros((B, L, by_slot)),
            C=np.zeros((B, L, by_slot)),
            varied=np.zeros((B, L), dtype=np.bool_),
            G=np.zeros((B, q, q)),
            g=np.zeros((B, q)),
            by_slot=np.zeros((B, 5, K)),
            totals=np.zeros((B, 2)),
            bias=np.ones((B, K)),
            bias_error=np.zeros((B, K)),
            order=np.broadcast_to(np.arange(K), (B, K)).copy(),
            moved=np.zeros(B, dtype=np.bool_),
            tau2=np.full(B, self.tau2),
            s2=np.full(B, self.s2),
            order_mean=np.full(B, self.order_mean),
            updates=np.zeros(B, dtype=np.int64),
        )
        state.b[...] = PRIOR_SD**-2 * prior_mean(state)
        return state

    def update(self, state: HybridState, decision: Decision, evidence: Evidence) -> None:
        """Eliminate the effects of the listed items, slot by slot; then adapt the learners for which it is due."""
        self._learn(state, decision.rows.models(), features_of(decision.rows), evidence)
        state.updates += 1
        if self.adapt is not None:
            due = state.updates % self.adapt == 0
            many = np.count_nonzero(due)
            if many == len(due) > 0:
                self._adapt(state)
            elif many:  # learners of one batch may have learned different numbers of rounds
                for b in np.flatnonzero(due).tolist():
                    self._adapt(state.view(slice(b, b + 1)))

    def catch_up(self, state: HybridState, decisions: Decision, evidence: Evidence) -> bool:
        """Learn from T lists [T, K] of one learner in order, in as many steps as there are adaptations."""
        items, x = decisions.rows.models(), features_of(decisions.rows)
        done, T = 0, len(items)
        while done < T:
            left = T if self.adapt is None else self.adapt - int(state.updates[0]) % self.adapt
            now = slice(done, min(T, done + left))
            self._learn(state, items[now], x[now], Evidence(evidence.y[now], evidence.exposure[now]), one_learner=True)
            state.updates += now.stop - now.start
            done = now.stop
            if self.adapt is not None and state.updates[0] % self.adapt == 0:
                self._adapt(state)
        return True

    def amend(self, state: HybridState, decision: Decision, before: FloatArray, evidence: Evidence) -> None:
        """Add the change δ of the outcomes to Y and b, which are linear in them: ΔY = λδ, Δb = λδ·(x - S/c)/s².

        A, n and S do not depend on outcomes. λ is the present bias of the slot, with which the sums of all items with
        fixed rows are kept.
        """
        items, x, change = decision.rows.models(), features_of(decision.rows), evidence.y - before
        K, seen = items.shape[1], (items >= 0) & (evidence.exposure > 0.0)
        at, change = np.where(seen, items, 0), np.where(seen, change, 0.0)
        product = state.bias[:, :K] * evidence.exposure * change
        state.b += np.vecmat(product, self._amend_sums(state, at, x, product, change)) / state.s2[:, None]
        rows = np.arange(len(items))[:, None]
        varied = state.varied[rows, at]
        state.g += np.vecmat(np.where(varied, product, 0.0), x)
        state.by_slot[:, 0, :K] += np.where(varied, change, 0.0)
        state.by_slot[:, 2, :K] += np.where(x[..., 3] > 0.0, change, 0.0)
        state.totals[:, 0] += np.where(seen, evidence.y**2 - before**2, 0.0).sum(axis=1)

    def _amend_sums(
        self, state: HybridState, items: IntArray, x: FloatArray, product: FloatArray, change: FloatArray
    ) -> FloatArray:
        """Add to the sums of items [B, K], and return u = x - S/c of their rows, [B, K, p]."""
        rows = np.arange(len(items))[:, None]
        c = state.n[rows, items] + (state.s2 / state.tau2)[:, None]
        np.add.at(state.Y, (rows, items), product)
        if self.learns_bias:
            slots = np.arange(items.shape[1])
            np.add.at(state.C, (rows, items, slots), np.where(state.varied[rows, items], 0.0, change))
        return np.asarray(x[..., 1:] - state.S[rows, items, 1:] / c[..., None])

    def forget(self, state: HybridState, prior: HybridState, share: float) -> None:
        """Keep this share of all sums, of A - Λ and of b - Λθ_0; the next adaptation computes A and b from the sums."""
        apart = state.varied & ~prior.varied & (prior.n > 0.0)
        kept = {name: getattr(prior, name) for name in self.additive}
        if apart.any():  # the prior of an item whose rows changed since is not in the prior's G and g
            weight = np.where(apart, 1.0 / np.where(apart, prior.n, 1.0), 0.0)
            S = np.broadcast_to(prior.S, state.S.shape)
            kept["G"] = prior.G + np.einsum("bi,bij,bik->bjk", weight, S, S)
            kept["g"] = prior.g + np.einsum("bi,bi,bij->bj", weight, np.broadcast_to(prior.Y, weight.shape), S)
        for name, before in kept.items():
            now = getattr(state, name)
            now[...] = before + share * (now - before)
        blend_precision(state.F, prior.F, share)
        shift = prior.b + PRIOR_SD**-2 * (
            prior_mean(state) - prior_mean(prior)
        )  # θ_0 of the order may have been fitted
        state.b[...] = shift + share * (state.b - shift)

    def believe(self, state: HybridState, decision: Decision, score: float, strength: float) -> None:
        """Learn `strength` observations of the score, with exposure 1."""
        if strength <= 0.0:
            return
        B, item = len(state.b), int(decision.rows.models()[0, 0])
        shape = (B, 1)
        x = np.repeat(features_of(decision.rows)[:, :1], B, axis=0)
        self._learn(state, np.full(shape, item), x, Evidence(np.full(shape, score), np.ones(shape)), strength=strength)
        state.P[:, item] += strength
        state.Q[:, item] += strength * score

    def disbelieve(self, state: HybridState, decision: Decision, score: float, strength: float) -> None:
        """Remove what `believe` added; exact up to rounding."""
        if strength <= 0.0:
            return
        item, x = int(decision.rows.models()[0, 0]), features_of(decision.rows)[0, 0]
        for name, change in (("n", strength), ("P", strength), ("Y", strength * score), ("Q", strength * score)):
            getattr(state, name)[:, item] -= change
        state.S[:, item] -= strength * x
        state.R[:, item] -= strength * float(signature_weights(len(x)) @ x)
        for name in ("n", "P"):
            now = getattr(state, name)
            now[:, item] = np.where(now[:, item] > 1e-9 * strength, now[:, item], 0.0)
        for b in np.flatnonzero(state.varied[:, item]).tolist():
            state.G[b] -= strength * np.outer(x, x)
            state.g[b] -= strength * score * x
        for b in np.flatnonzero(state.n[:, item] == 0.0).tolist():
            state.Y[b, item], state.Q[b, item], state.R[b, item], state.S[b, item] = 0.0, 0.0, 0.0, 0.0
        c = state.n[:, item] + state.s2 / state.tau2
        u = x[1:] - state.S[:, item, 1:] / c[:, None]
        share = c / (c + strength) / state.s2
        left = strength * (score - x[0]) - strength * (state.Y[:, item] - state.S[:, item, 0]) / c
        factor.remove_row(state.F, u * np.sqrt(strength * share)[:, None])
        state.b -= (share * left)[:, None] * u

    def expected_outcomes(self, state: HybridState, decision: Decision) -> FloatArray | None:
        """Return the expected outcome of each listed item in its slot, [B, K], 0 in empty slots.

        With learned biases the bias of the slot is included.
        """
        expected = super().expected_outcomes(state, decision)
        return None if expected is None else expected * state.bias[:, : expected.shape[1]]

    def slot_order(self, state: HybridState) -> IntArray | None:
        """Return the slots in descending order of their learned bias, [B, K]; None while it is the slots' own order."""
        return state.order if self.learns_bias and np.count_nonzero(state.moved) else None

    def slot_effects(self, state: HybridState) -> SlotEffects | None:
        """Return λ̂ with 95 % intervals, each [B, K]; the first is 1, and the others have none before a fit."""
        if not self.learns_bias:
            return None
        is_known = (state.bias_error > 0.0) | (np.arange(self.slots) == 0)
        radius = np.where(is_known, NORMAL_95 * state.bias_error, np.nan)
        return SlotEffects(state.bias.copy(), np.maximum(state.bias - radius, 0.0), state.bias + radius)

    def score_trust(self, state: HybridState) -> ScoreTrust | None:
        """Return the coefficient of the score or, without scores, of the order relative to its fitted prior mean.

        NaN where no item with a score or a rank was observed.
        """
        theta, sd = state.coefficients(), np.linalg.vector_norm(state.F, axis=-1)
        score, order = HEAD - 2, HEAD - 1
        has_score, has_order = (state.S[:, :, column].any(axis=1) for column in (score, order))
        mean = np.where(has_order, theta[:, order] / state.order_mean, np.nan)
        deviation = np.where(has_order, sd[:, order - 1] / state.order_mean, np.nan)
        return ScoreTrust(np.where(has_score, theta[:, score], mean), np.where(has_score, sd[:, score - 1], deviation))

    def _adapt(self, state: HybridState) -> None:
        adapt(state, learns_bias=self.learns_bias, most_mean=self.most_mean, first_tau2=self.tau2)

    def _learn(
        self,
        state: HybridState,
        items: IntArray,
        x: FloatArray,
        evidence: Evidence,
        *,
        one_learner: bool = False,
        strength: float = 0.0,
    ) -> None:
        if x.shape[2] != self.width or items.max(initial=0) >= self.items or items.shape[1] > self.slots:
            # Compiled loops do not check their bounds.
            raise ValueError(f"rows of shape {x.shape} do not fit {self.items} items, {self.slots} slots")
        x, y, exposure = (np.ascontiguousarray(part) for part in (x, evidence.y, evidence.exposure))
        lists = np.ascontiguousarray(items), x, y, exposure
        self._learn_lists(state, lists, one_learner=one_learner, strength=strength)

    def _learn_lists(
        self,
        state: HybridState,
        lists: tuple[IntArray, FloatArray, FloatArray, FloatArray],
        *,
        one_learner: bool,
        strength: float,
    ) -> None:
        """Learn from items [T, K], rows [T, K, q], outcomes and exposures [T, K] that were checked."""
        learn(
            (state.F, state.b), state.sums, (state.N, state.C), state.varied, (state.G, state.g), state.by_slot,
            state.totals, state.bias, state.variances, (LEAST_MEAN, self.most_mean), signature_weights(self.width),
            lists, one_learner, strength,
        )  # fmt: skip
