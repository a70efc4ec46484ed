"""Square-root factors of inverse precision matrices, updated row by row.

``F`` with F Fᵀ = V⁻¹ gives everything a linear belief is asked for without a factorisation:
V⁻¹b = F(Fᵀb), draws F z, widths ‖Fᵀx‖. Potter's update keeps F exact when V grows by x xᵀ,
costs O(d²) and cannot lose positive definiteness.
"""

from __future__ import annotations

import numpy as np

from rankloop.math.kernels import norms, potter
from rankloop.math.linear import stacked
from rankloop.types import FloatArray, IntArray, Model


def initial(learners: int, models: int, dim: int, precision: float) -> FloatArray:
    """F [B, M, d, d] for V = precision * I."""
    F = np.zeros((learners, models, dim, dim))
    F[..., np.arange(dim), np.arange(dim)] = precision**-0.5
    return F


def add_rows(F: FloatArray, model: Model, x: FloatArray) -> FloatArray:
    """V_m += x xᵀ in place for the slots of a list, in order; zero rows change nothing.

    Args:
        F: [B, M, d, d].
        model: the model of each slot: an int, [K] or [B, K]; -1, an empty slot, needs a zero row.
        x: [B, K, d].

    Returns:
        V_m⁻¹x right after each row was added, [B, K, d].
    """
    gain = np.zeros(x.shape)
    index = slot_models(model, x.shape[:2])
    B, M, d, _ = F.shape
    if x.shape[0] != B or x.shape[2] != d or index.max(initial=0) >= M or index.min(initial=0) < -1:
        # Compiled loops do not check their bounds.
        raise ValueError(f"rows of shape {x.shape} for models 0 to {index.max(initial=0)} do not fit F {F.shape}")
    potter(F, index, np.ascontiguousarray(x), gain)
    return gain


def slot_models(model: Model, shape: tuple[int, ...]) -> IntArray:
    """The model of each slot of a list, [B, K], as an array of its own."""
    if isinstance(model, slice):
        raise TypeError("the models of a list are an index, one for each slot")
    index = np.empty(shape, dtype=np.int64)
    index[...] = model
    return index


def solve(F: FloatArray, b: FloatArray) -> FloatArray:
    """V⁻¹b for F [..., d, d] and b [..., d]."""
    return np.asarray(np.matvec(F, np.vecmat(b, F)))


def width(F: FloatArray, x: FloatArray) -> FloatArray:
    """‖x‖ in the norm of V⁻¹, [B, L], for F [B, d, d] and x [L, d] or [B, L, d]."""
    x = stacked(x)
    out = np.empty((len(F), x.shape[1]))
    norms(x, np.ascontiguousarray(F), out)
    return out


def from_precision(V: FloatArray) -> FloatArray:
    """F [..., d, d] of a precision matrix V [..., d, d]."""
    return np.linalg.cholesky(np.linalg.inv(V))
