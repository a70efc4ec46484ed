"""Features crossed with a context: z = (x, y, x⊗y) for a context x and the features y of an item.

A linear model of z is, for a given x, a linear model of y: zᵀθ = xᵀθ_x + yᵀ(θ_y + Θᵀx), where θ = (θ_x, θ_y, Θ). So all
items are scored from y, in the time of dy features, and the dx·dy products of every item are never formed.
"""

from __future__ import annotations

import math

import numpy as np

from rankloop.errors import InvalidInput, Words
from rankloop.types import FloatArray


def crossed(context: FloatArray, y: FloatArray) -> FloatArray:
    """Return z = (x, y, x⊗y), [B, n, dx + dy + dx·dy], for contexts x [B, dx] and features y [B, n, dy]."""
    B, n, _ = y.shape
    x = np.broadcast_to(context[:, None, :], (B, n, context.shape[1]))
    return np.concatenate([x, y, (x[..., :, None] * y[..., None, :]).reshape(B, n, x.shape[2] * y.shape[2])], axis=2)


def parameters_of_items(context: FloatArray, theta: FloatArray, dy: int) -> FloatArray:
    """Return the parameters of (1, y) that give every item the value of z, [B, 1 + dy, ...].

    Args:
        context: x, [B, dx].
        theta: parameters of z, [B, d, ...]: of one model, or the d rows of a factor F [B, d, d].
        dy: number of features y of an item.
    """
    B, dx = context.shape
    if theta.shape[1] != dx + dy + dx * dy:
        raise InvalidInput(
            "request.features",
            Words(f"{dy} numbers a row and a context of {dx}"),
            f"as many as the policy was built for, with {theta.shape[1]} products in all",
        )
    m = math.prod(theta.shape[2:])
    flat = theta.reshape(B, theta.shape[1], m)
    x = context[:, None, :]
    constant = x @ flat[:, :dx]
    slope = flat[:, dx : dx + dy] + (x @ flat[:, dx + dy :].reshape(B, dx, dy * m)).reshape(B, dy, m)
    return np.concatenate([constant, slope], axis=1).reshape(B, 1 + dy, *theta.shape[2:])


def with_one(y: FloatArray) -> FloatArray:
    """Return (1, y) of features [..., L, dy]."""
    return np.concatenate([np.ones((*y.shape[:-1], 1)), y], axis=-1)
