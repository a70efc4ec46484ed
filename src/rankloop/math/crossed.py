"""Features crossed with a context: z = (x, y, x⊗y) for a context x and the features y of an item.

A linear model of z is, for a given x, a linear model of y: zᵀθ = xᵀθ_x + yᵀ(θ_y + Θᵀx), where θ = (θ_x, θ_y, Θ). So all
items are scored from y, in the time of dy features, and the dx·dy products of every item are never formed.
"""

from __future__ import annotations

import math

import numpy as np

from rankloop.errors import InvalidInput, Words
from rankloop.math.kernels import compiled
from rankloop.types import FloatArray, IntArray, Products


def width_of(dx: int, dy: int, products: Products | None) -> int:
    """Return the number of features of z."""
    return dx + dy + (dx * dy if products is None else len(products))


def crossed(context: FloatArray, y: FloatArray, products: Products | None = None) -> FloatArray:
    """Return z = (x, y, x⊗y), [B, n, dx + dy + dx·dy], for contexts x [B, dx] and features y [B, n, dy].

    With a selection of products, z has these alone after x and y.
    """
    B, n, _ = y.shape
    x = np.broadcast_to(context[:, None, :], (B, n, context.shape[1]))
    if products is not None:
        products.check(x.shape[2], y.shape[2])
        of_context, of_item = products.pairs.T
        return np.concatenate([x, y, x[..., of_context] * y[..., of_item]], axis=2)
    return np.concatenate([x, y, (x[..., :, None] * y[..., None, :]).reshape(B, n, x.shape[2] * y.shape[2])], axis=2)


def parameters_of_items(
    context: FloatArray, theta: FloatArray, dy: int, products: Products | None = None
) -> FloatArray:
    """Return the parameters of (1, y) that give every item the value of z, [B, 1 + dy, ...].

    Args:
        context: x, [B, dx].
        theta: parameters of z, [B, d, ...]: of one model, or the d rows of a factor F [B, d, d].
        dy: number of features y of an item.
        products: those of x and y that z has; None for all.
    """
    B, dx = context.shape
    if theta.shape[1] != width_of(dx, dy, products):
        raise InvalidInput(
            "request.features",
            Words(f"{dy} numbers a row and a context of {dx}"),
            f"as many as the policy was built for, with {theta.shape[1]} products in all",
        )
    m = math.prod(theta.shape[2:])
    flat = theta.reshape(B, theta.shape[1], m)
    x = context[:, None, :]
    constant = x @ flat[:, :dx]
    if products is not None:
        products.check(dx, dy)
        slope = np.ascontiguousarray(flat[:, dx : dx + dy]).copy()
        add_products(np.ascontiguousarray(context), products.pairs, np.ascontiguousarray(flat[:, dx + dy :]), slope)
        return np.concatenate([constant, slope], axis=1).reshape(B, 1 + dy, *theta.shape[2:])
    slope = flat[:, dx : dx + dy] + (x @ flat[:, dx + dy :].reshape(B, dx, dy * m)).reshape(B, dy, m)
    return np.concatenate([constant, slope], axis=1).reshape(B, 1 + dy, *theta.shape[2:])


def _add_products(context: FloatArray, pairs: IntArray, theta: FloatArray, slope: FloatArray) -> None:
    """Add x[i]·θ_n to slope [B, dy, m] at j for each pair (i, j) of columns [n, 2], for x [B, dx] and θ [B, n, m]."""
    for b in range(theta.shape[0]):
        for n in range(len(pairs)):
            x, j = context[b, pairs[n, 0]], pairs[n, 1]
            if x != 0.0:
                for k in range(theta.shape[2]):
                    slope[b, j, k] += x * theta[b, n, k]


add_products = compiled(_add_products)


def with_one(y: FloatArray) -> FloatArray:
    """Return (1, y) of features [..., L, dy]."""
    return np.concatenate([np.ones((*y.shape[:-1], 1)), y], axis=-1)
