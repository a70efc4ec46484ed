"""Square-root factors of inverse precision matrices, updated row by row.

``F`` with F Fᵀ = V⁻¹ answers every query of a linear belief without a factorisation:
V⁻¹b = F(Fᵀb), draws F z, widths ‖Fᵀx‖. Potter's update keeps F exact when V grows by x xᵀ,
costs O(d²) and cannot lose positive definiteness.
"""

from __future__ import annotations

import numpy as np

from rankloop.math.kernels import potter
from rankloop.math.linear import norm
from rankloop.types import FloatArray, IntArray, Model


def initial(learners: int, models: int, dim: int, precision: float) -> FloatArray:
    """Return F [B, M, d, d] for V = precision * I."""
    F = np.zeros((learners, models, dim, dim))
    F[..., np.arange(dim), np.arange(dim)] = precision**-0.5
    return F


def add_rows(F: FloatArray, model: Model, x: FloatArray) -> FloatArray:
    """Apply V_m += x xᵀ in place for the slots of a list, in order; zero rows change nothing.

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


def remove_row(F: FloatArray, x: FloatArray) -> None:
    """Apply V -= x xᵀ in place, for F [B, d, d] and a row x [B, d] that was added before.

    With f = Fᵀx and s = fᵀf < 1, V⁻¹ becomes F(I + f fᵀ/(1-s))Fᵀ, whose square root is F(I + c f fᵀ) with
    c = (1/√(1-s) - 1)/s.
    """
    f = np.vecmat(x, F)
    s = np.minimum(np.vecdot(f, f), 1.0 - 1e-12)
    c = np.where(s > 0.0, (1.0 / np.sqrt(1.0 - s) - 1.0) / np.where(s > 0.0, s, 1.0), 0.0)
    F += np.matvec(F, f)[:, :, None] * (c[:, None] * f)[:, None, :]


def slot_models(model: Model, shape: tuple[int, ...]) -> IntArray:
    """Return the model of each slot of a list, [B, K], as a new array."""
    if isinstance(model, slice):
        raise TypeError("the models of a list are an index, one for each slot")
    index = np.empty(shape, dtype=np.int64)
    index[...] = model
    return index


def solve(F: FloatArray, b: FloatArray) -> FloatArray:
    """Return V⁻¹b for F [..., d, d] and b [..., d]."""
    return np.asarray(np.matvec(F, np.vecmat(b, F)))


def width(F: FloatArray, x: FloatArray) -> FloatArray:
    """Return ‖x‖ in the norm of V⁻¹, [B, L], for F [B, d, d] and x [L, d] or [B, L, d]."""
    return norm(x, F)


def from_precision(V: FloatArray) -> FloatArray:
    """Return F [..., d, d] of a precision matrix V [..., d, d], even if V is singular up to rounding."""
    try:
        return np.linalg.cholesky(np.linalg.inv(V))
    except np.linalg.LinAlgError:
        values, vectors = positive_eigen(V)
        return np.asarray(vectors / np.sqrt(values)[..., None, :])


def precision(F: FloatArray) -> FloatArray:
    """Return V [..., d, d] of a factor F [..., d, d], however ill-conditioned."""
    vectors, spread, _ = np.linalg.svd(F)
    return np.asarray((vectors / (spread**2)[..., None, :]) @ np.swapaxes(vectors, -1, -2))


def positive_eigen(V: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return eigenvalues [..., d], the smallest raised to the level of rounding, and eigenvectors [..., d, d]."""
    values, vectors = np.linalg.eigh(V)
    least = np.finfo(np.float64).eps * values[..., -1:]
    return np.maximum(values, least), vectors
