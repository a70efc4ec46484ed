"""Products of features and parameters, shared or per learner."""

from __future__ import annotations

import numpy as np

from rankloop.errors import InvalidInput, Unsupported, Words
from rankloop.math.kernels import dots
from rankloop.types import FloatArray, Rows


def features_of(rows: Rows) -> FloatArray:
    """Return the rows' features; a linear belief without features is an error in the composition."""
    if rows.x is None:
        raise Unsupported("this policy scores items by their features, and the request has none.")
    return rows.x


def dot(x: FloatArray, theta: FloatArray) -> FloatArray:
    """Return xᵀθ [B, L] for x [L, d] or [B, L, d] and θ [B, d] or, one for each item, [B, L, d]."""
    if theta.ndim == 3:
        return np.asarray(np.vecdot(x, theta))
    x = stacked(x)
    if x.shape[-1] != theta.shape[-1]:
        raise InvalidInput(
            "request.features", Words(f"{x.shape[-1]} numbers a row"), f"{theta.shape[-1]} numbers a row"
        )
    out = np.empty((len(theta), x.shape[1]))
    dots(x, np.ascontiguousarray(theta), out)
    return out


def stacked(x: FloatArray) -> FloatArray:
    """Return rows [L, d] or [B, L, d] as a contiguous [1 or B, L, d]."""
    return np.ascontiguousarray(x[None] if x.ndim == 2 else x)
