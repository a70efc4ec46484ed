"""Beliefs about a parameter vector: a centre and a square-root factor of the covariance."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

from rankloop.belief.base import Summarising, SummaryState, W
from rankloop.belief.counts import add_at
from rankloop.math import factor
from rankloop.math.kernels import shift
from rankloop.math.linear import features_of, products, widths
from rankloop.math.logistic import sigmoid
from rankloop.state import State
from rankloop.types import Decision, Evidence, FloatArray, IntArray, Rows, Score


@dataclass
class LinearState(SummaryState):
    """N(centre, F Fᵀ) for each of M parameter vectors."""

    FEATURES: ClassVar = {"F": 2, "b": 1, "theta": 1, "x": 1, "H": 2}

    F: FloatArray  # [B, M, d, d], F Fᵀ = V⁻¹

    @abstractmethod
    def centre(self) -> FloatArray:
        """θ̂, [B, M, d]."""

    def mean(self, rows: Rows) -> FloatArray:
        """Return xᵀθ̂."""
        return products(rows, self.centre()[:, rows.model])

    def width(self, rows: Rows) -> FloatArray:
        """Return ‖x‖ in the norm of V⁻¹."""
        return widths(rows, self.F[:, rows.model])

    def draw(self, scale: FloatArray | float, rng: np.random.Generator) -> Score:
        """Return xᵀθ̃ with one θ̃ ~ N(θ̂, scale² V⁻¹) per model."""
        z = rng.standard_normal(self.F.shape[:-1])
        z *= np.reshape(scale, (-1, 1, 1))
        theta = self.shifted(z)
        return lambda rows: products(rows, theta[:, rows.model])

    def shifted(self, z: FloatArray) -> FloatArray:
        """Return θ̂ + F z, [B, M, d], for z [B, M, d]."""
        return np.asarray(self.centre() + np.matvec(self.F, z))


@dataclass
class LogisticLinearState(LinearState):
    """An estimate of log-odds: P(click) = σ(xᵀθ̂)."""

    theta: FloatArray  # [B, M, d]

    def centre(self) -> FloatArray:
        """θ̂, [B, M, d]."""
        return self.theta

    def expected(self, rows: Rows) -> FloatArray:
        """Return σ(xᵀθ̂), the probability of a click."""
        return np.asarray(sigmoid(self.mean(rows)))


@dataclass
class RidgeState(LinearState):
    """Sufficient statistics of a ridge regression."""

    b: FloatArray  # [B, M, d], weighted sum of x y

    def centre(self) -> FloatArray:
        """V⁻¹b."""
        return factor.solve(self.F, self.b)

    def shifted(self, z: FloatArray) -> FloatArray:
        """Return F(Fᵀb + z), which takes one product less than adding F z to the centre."""
        theta = np.empty_like(z)
        shift(self.F, self.b, z, theta)
        return theta


class Linear(Summarising[W], Protocol):
    """A belief about parameter vectors of d features."""

    if TYPE_CHECKING:  # a dataclass field in subclasses: a property here would become its default at run time

        @property
        def dim(self) -> int:
            """Features d of a row."""

    @property
    def row_features(self) -> int:
        """The length d of the parameter vector."""
        return self.dim


@dataclass(frozen=True)
class Ridge(Linear[RidgeState]):
    """V = ridge·I + weight·Σ xxᵀ, b = weight·Σ xy: linear regression with known noise variance 1/weight.

    An observation of exposure e has mean e·xᵀθ, so its row is e·x.
    """

    dim: int
    ridge: float = 1.0
    weight: float = 1.0
    models: int = 1
    binary = False
    fractional = True

    def init(self, learners: int) -> RidgeState:
        """Return V = ridge·I and b = 0."""
        F = factor.initial(learners, self.models, self.dim, self.ridge)
        return RidgeState(F, np.zeros((learners, self.models, self.dim)))

    def update(self, state: RidgeState, decision: Decision, evidence: Evidence) -> None:
        """Add one row for each observed slot."""
        add_rows(state, decision.rows, evidence, self.weight**0.5)

    def catch_up(self, state: RidgeState, decisions: Decision, evidence: Evidence) -> bool:
        """Learn from T lists [T, K] of one learner in order, with the same result as T updates, bit for bit."""
        root, rows = self.weight**0.5, decisions.rows
        x = features_of(rows) * (evidence.exposure * root)[:, :, None]
        index = factor.slot_models(rows.model, x.shape[:2])
        factor.add_rows(state.F, index.reshape(1, -1), x.reshape(1, -1, self.dim))
        y = evidence.y * root
        if rows.by_slot:
            for t in range(len(x)):
                add_at(state.b, index[t : t + 1], x[t : t + 1] * y[t : t + 1, :, None])
        else:
            steps = np.concatenate([state.b[:, rows.model], np.vecmat(y, x)])
            state.b[:, rows.model] = np.cumsum(steps, axis=0)[-1:]
        return True

    def amend(self, state: RidgeState, decision: Decision, before: FloatArray, evidence: Evidence) -> None:
        """Add the change of the outcomes to b = weight·Σ xy; V holds the rows already."""
        rows, change = decision.rows, evidence.y - before
        x = features_of(rows) * (self.weight * evidence.exposure * change)[:, :, None]
        if rows.by_slot:
            add_at(state.b, factor.slot_models(rows.model, change.shape), x)
        else:
            state.b[:, rows.model] += x.sum(axis=1)

    def forget(self, state: RidgeState, prior: RidgeState, share: float) -> None:
        """Keep this share of the rows, and the whole prior."""
        blend_precision(state.F, prior.F, share)
        state.b[...] = prior.b + share * (state.b - prior.b)

    def believe(self, state: RidgeState, decision: Decision, score: float, strength: float) -> None:
        """Add the item's row with weight `strength`."""
        add_rows(state, decision.rows, pseudo(state, decision, score), (self.weight * strength) ** 0.5)

    def disbelieve(self, state: RidgeState, decision: Decision, score: float, strength: float) -> None:
        """Remove the same rows; exact up to rounding."""
        x = features_of(decision.rows)[0] * (self.weight * strength) ** 0.5
        models = factor.slot_models(decision.rows.model, (1, len(x)))[0]
        remove_rows(state.F, models, x)
        for model, row in zip(models.tolist(), x, strict=True):
            state.b[:, model] -= row * (score * (self.weight * strength) ** 0.5)


def add_rows(state: RidgeState, rows: Rows, evidence: Evidence, root: FloatArray | float) -> None:
    """Apply V += root²·xxᵀ and b += root²·xy for the slots of a list, root [B, K] or a number.

    An unobserved slot is a zero row and changes nothing.
    """
    x = features_of(rows) * (evidence.exposure * root)[:, :, None]
    factor.add_rows(state.F, rows.model, x)
    y = evidence.y * root
    if rows.by_slot:
        add_at(state.b, factor.slot_models(rows.model, y.shape), x * y[:, :, None])
    else:
        state.b[:, rows.model] += np.vecmat(y, x)


def remove_rows(F: FloatArray, models: IntArray, x: FloatArray) -> None:
    """Apply V_m -= xxᵀ in place, in every learner, for rows x [n, d] of models [n] that were added before."""
    for model, row in zip(models.tolist(), x, strict=True):
        factor.remove_row(F[:, model], np.broadcast_to(row, (len(F), len(row))))


def blend_precision(F: FloatArray, prior: FloatArray, share: float) -> None:
    """Set V to share·V + (1 - share)·V_prior, in place."""
    F[...] = factor.from_precision(share * factor.precision(F) + (1.0 - share) * factor.precision(prior))


def blend_estimate(F: FloatArray, theta: FloatArray, prior: tuple[FloatArray, FloatArray], share: float) -> None:
    """Keep this share of the natural parameters V and Vθ of N(θ, F Fᵀ), the rest from a prior (F, θ), in place."""
    prior_F, prior_theta = prior
    shift = share * np.matvec(factor.precision(F), theta) + (1.0 - share) * np.matvec(
        factor.precision(prior_F), prior_theta
    )
    blend_precision(F, prior_F, share)
    theta[...] = factor.solve(F, shift)


def pseudo(state: State, decision: Decision, score: float) -> Evidence:
    """Return one observation of the score in every row of a prior's list, for each learner of a state."""
    shape = (next(len(array) for _, array in state.arrays()), decision.items.shape[1])
    return Evidence(np.full(shape, score), np.ones(shape))
