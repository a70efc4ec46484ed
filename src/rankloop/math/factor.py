"""Square-root factors of inverse precision matrices, updated row by row.

``F`` with F Fᵀ = V⁻¹ gives everything a linear belief is asked for without a factorisation:
V⁻¹b = F(Fᵀb), draws F z, widths ‖Fᵀx‖. Potter's update keeps F exact when V grows by x xᵀ,
costs O(d²) and cannot lose positive definiteness.
"""

from __future__ import annotations

import numpy as np

from rankloop.types import FloatArray, Model


def initial(learners: int, models: int, dim: int, precision: float) -> FloatArray:
    """F [B, M, d, d] for V = precision * I."""
    F = np.zeros((learners, models, dim, dim))
    F[..., np.arange(dim), np.arange(dim)] = precision**-0.5
    return F


def add_rows(F: FloatArray, x: FloatArray) -> None:
    """V += Σ_k x_k x_kᵀ in place, for F [..., d, d] and the rows x [..., K, d].

    Andrews' block form of Potter's update: with P = xF and the Cholesky factor C Cᵀ = I + P Pᵀ,
    F -= (F Pᵀ) C⁻ᵀ (C + I)⁻¹ P. One pass over F for all K rows; zero rows change nothing.
    """
    P = x @ F
    C: FloatArray = np.linalg.cholesky(P @ P.swapaxes(-1, -2) + np.eye(x.shape[-2])).astype(np.float64, copy=False)
    R = _forward(C, P @ F.swapaxes(-1, -2), shift=0.0)
    F -= np.matmul(R.swapaxes(-1, -2), _forward(C, P, shift=1.0))


def _forward(C: FloatArray, b: FloatArray, shift: float) -> FloatArray:
    """(C + shift·I)⁻¹ b by forward substitution, C lower triangular [..., K, K] and b [..., K, d]; b is spent."""
    for k in range(C.shape[-1]):
        if k:
            b[..., k, :] -= np.vecmat(C[..., k, :k], b[..., :k, :])
        b[..., k, :] /= C[..., k, k, None] + shift
    return b


def solve(F: FloatArray, b: FloatArray) -> FloatArray:
    """V⁻¹b for F [..., d, d] and b [..., d]."""
    return np.asarray(np.matvec(F, np.vecmat(b, F)))


def width(F: FloatArray, x: FloatArray) -> FloatArray:
    """‖x‖ in the norm of V⁻¹, [B, L], for F [B, d, d] and x [L, d] or [B, L, d]."""
    return np.asarray(np.linalg.vector_norm(x @ F, axis=-1))


def from_precision(V: FloatArray) -> FloatArray:
    """F [..., d, d] of a precision matrix V [..., d, d]."""
    return np.linalg.cholesky(np.linalg.inv(V))


def add_to_models(F: FloatArray, model: Model, x: FloatArray) -> None:
    """V_m += x xᵀ for the slots of a list: F [B, M, d, d], model an int, [K] or [B, K], and x [B, K, d]."""
    if isinstance(model, np.ndarray):
        # Each slot has a model of its own, so each update is of one row.
        index = (slice(None), model) if model.ndim == 1 else (np.arange(len(x))[:, None], model)
        picked = F[index]
        add_rows(picked, x[:, :, None, :])
        F[index] = picked
    else:
        add_rows(F[:, model], x)
