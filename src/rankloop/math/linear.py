"""Products of features and parameters, shared or per learner."""

from __future__ import annotations

import numpy as np

from rankloop.errors import InvalidInput, Unsupported, Words
from rankloop.math.crossed import crossed, parameters_of_items, with_one
from rankloop.math.kernels import dots, norms
from rankloop.types import FloatArray, Rows


def features_of(rows: Rows) -> FloatArray:
    """Return the rows' features; a linear belief without features is an error in the composition."""
    x = _given(rows)
    if rows.context is None:
        return x
    return crossed(rows.context, np.broadcast_to(x, (len(rows.context), *x.shape[-2:])), rows.products)


def _given(rows: Rows) -> FloatArray:
    if rows.x is None:
        raise Unsupported("this policy scores items by their features, and the request has none.")
    return rows.x


def products(rows: Rows, theta: FloatArray) -> FloatArray:
    """Return xᵀθ of rows, [B, L], for θ [B, d] or, one for each row, [B, L, d]."""
    if rows.context is None or theta.ndim == 3:
        return dot(features_of(rows), theta)
    y = _given(rows)
    own = parameters_of_items(rows.context, theta, y.shape[-1], rows.products)
    return dot(y, own[:, 1:]) + own[:, :1]


def widths(rows: Rows, F: FloatArray) -> FloatArray:
    """Return ‖Fᵀx‖ of rows, [B, L], for F [B, d, d] or, one for each row, [B, L, d, d]."""
    if F.ndim == 4:
        return np.asarray(np.linalg.vector_norm(np.vecmat(features_of(rows), F), axis=-1))
    if rows.context is None:
        return norm(features_of(rows), F)
    y = _given(rows)
    return norm(with_one(y), parameters_of_items(rows.context, F, y.shape[-1], rows.products))


def norm(x: FloatArray, F: FloatArray) -> FloatArray:
    """Return ‖Fᵀx‖ [B, L] for x [L, d] or [B, L, d] and F [B, d, m]."""
    x = stacked(x)
    out = np.empty((len(F), x.shape[1]))
    norms(x, np.ascontiguousarray(F), out)
    return out


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
