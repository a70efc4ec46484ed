"""Products of features and parameters, shared or per learner."""

from __future__ import annotations

import numpy as np

from rankloop.types import FloatArray, Rows


def features_of(rows: Rows) -> FloatArray:
    """The rows' features; a linear belief without features is a mistake in the composition."""
    if rows.x is None:
        raise TypeError("a belief over features needs a design that supplies them")
    return rows.x


def dot(x: FloatArray, theta: FloatArray) -> FloatArray:
    """xᵀθ [B, L] for x [L, d] or [B, L, d] and θ [B, d] or, one for each item, [B, L, d]."""
    if theta.ndim == 3:
        return np.asarray(np.vecdot(x, theta))
    if x.ndim == 2:
        return theta @ x.T
    return np.asarray(np.matvec(x, theta))
