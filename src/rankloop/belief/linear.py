"""Beliefs about a parameter vector: a centre and a square-root factor of the covariance."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankloop.math import factor
from rankloop.math.arrays import add_at
from rankloop.math.kernels import shift
from rankloop.math.linear import dot, features_of
from rankloop.state import State
from rankloop.types import Decision, Evidence, FloatArray, Rows, Score


@dataclass
class LinearState(State, ABC):
    """N(centre, F Fᵀ) for each of M parameter vectors."""

    FEATURES: ClassVar = {"F": 2, "b": 1, "theta": 1, "x": 1, "H": 2}

    F: FloatArray  # [B, M, d, d], F Fᵀ = V⁻¹

    @abstractmethod
    def centre(self) -> FloatArray:
        """θ̂, [B, M, d]."""

    def mean(self, rows: Rows) -> FloatArray:
        """xᵀθ̂."""
        return dot(features_of(rows), self.centre()[:, rows.model])

    def width(self, rows: Rows) -> FloatArray:
        """‖x‖ in the norm of V⁻¹."""
        F, x = self.F[:, rows.model], features_of(rows)
        return factor.width(F, x) if F.ndim == 3 else np.linalg.vector_norm(np.vecmat(x, F), axis=-1)

    def draw(self, scale: FloatArray | float, rng: np.random.Generator) -> Score:
        """xᵀθ̃ with one θ̃ ~ N(θ̂, scale² V⁻¹) per model."""
        z = rng.standard_normal(self.F.shape[:-1])
        z *= np.reshape(scale, (-1, 1, 1))
        theta = self.shifted(z)
        return lambda rows: dot(features_of(rows), theta[:, rows.model])

    def shifted(self, z: FloatArray) -> FloatArray:
        """θ̂ + F z, [B, M, d], for z [B, M, d]."""
        return np.asarray(self.centre() + np.matvec(self.F, z))


@dataclass
class RidgeState(LinearState):
    """Sufficient statistics of a ridge regression."""

    b: FloatArray  # [B, M, d], weighted sum of x y

    def centre(self) -> FloatArray:
        """V⁻¹b."""
        return factor.solve(self.F, self.b)

    def shifted(self, z: FloatArray) -> FloatArray:
        """F(Fᵀb + z): one product less than centre and noise apart."""
        theta = np.empty_like(z)
        shift(self.F, self.b, z, theta)
        return theta


@dataclass(frozen=True)
class Ridge:
    """V = ridge·I + weight·Σ xxᵀ, b = weight·Σ xy: linear regression with known noise 1/weight.

    An observation of exposure e has mean e·xᵀθ, so its row is e·x.
    """

    dim: int
    ridge: float = 1.0
    weight: float = 1.0
    models: int = 1
    binary = False
    fractional = True

    def init(self, learners: int) -> RidgeState:
        """V = ridge·I and b = 0."""
        F = factor.initial(learners, self.models, self.dim, self.ridge)
        return RidgeState(F, np.zeros((learners, self.models, self.dim)))

    def update(self, state: RidgeState, decision: Decision, evidence: Evidence) -> None:
        """One row for each observed slot."""
        add_rows(state, decision.rows, evidence, self.weight**0.5)

    def catch_up(self, state: RidgeState, decisions: Decision, evidence: Evidence) -> None:
        """T lists [T, K] of one learner in their order: the same, bit for bit, as T updates."""
        root, model = self.weight**0.5, decisions.rows.model
        x = features_of(decisions.rows) * (evidence.exposure * root)[:, :, None]
        index = factor.slot_models(model, x.shape[:2])
        factor.add_rows(state.F, index.reshape(1, -1), x.reshape(1, -1, self.dim))
        y = evidence.y * root
        if isinstance(model, np.ndarray):
            for t in range(len(x)):
                add_at(state.b, index[t : t + 1], x[t : t + 1] * y[t : t + 1, :, None])
        else:
            steps = np.concatenate([state.b[:, model], np.vecmat(y, x)])
            state.b[:, model] = np.cumsum(steps, axis=0)[-1:]


def add_rows(state: RidgeState, rows: Rows, evidence: Evidence, root: FloatArray | float) -> None:
    """V += root²·xxᵀ and b += root²·xy for the slots of a list, root [B, K] or a number.

    An unobserved slot is a zero row and changes nothing.
    """
    x = features_of(rows) * (evidence.exposure * root)[:, :, None]
    factor.add_rows(state.F, rows.model, x)
    y = evidence.y * root
    if isinstance(rows.model, np.ndarray):
        add_at(state.b, np.broadcast_to(rows.model, y.shape), x * y[:, :, None])
    else:
        state.b[:, rows.model] += np.vecmat(y, x)
