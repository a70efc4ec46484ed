"""What the hybrid belief computes from its sums: the posterior, variances by empirical Bayes, and position biases."""

from __future__ import annotations

import numpy as np

from rankloop.belief.hybrid_state import HybridState
from rankloop.math import factor
from rankloop.math.hybrid.fit_kernels import dispersion, rebuild, slot_biases
from rankloop.math.hybrid.kernels import HEAD
from rankloop.types import FloatArray, IntArray

PRIOR_SD = 0.3
"""Prior standard deviation of every coefficient: Λ = I/0.3²."""
SCORE_MEAN = 1.0
"""Prior mean of the coefficient of the caller's score."""
LEAST_EXPOSURE = 3.0
"""Items with more exposure than this tell how far items deviate from their features."""
LEAST_TAU2, LEAST_S2 = 1e-4, 1e-3
PRIOR_ITEMS = 5.0
"""Weight of the first τ² in its fit, as a number of items that were observed without noise."""
BIAS_ALTERNATIONS = 3
BIAS_PSEUDO_CLICKS = 5.0
LEAST_BIAS, MOST_BIAS = 1e-3, 1.2
SIGNIFICANT_LEAD = 2.0
"""Standard errors by which the bias of a slot must exceed that of an earlier one to be taken as larger."""
LEAST_MEAN = 1e-3
"""Least estimate of an item of which the bias of its slot is a multiple."""


def prior_mean(state: HybridState) -> FloatArray:
    """Return θ_0, [B, p]: 1 for the score, the fitted value for the order, 0 elsewhere."""
    mean = np.zeros_like(state.b)
    mean[:, HEAD - 3], mean[:, HEAD - 2] = SCORE_MEAN, state.order_mean
    return mean


def refresh(state: HybridState) -> None:
    """Compute the posterior from the sums, in place, and first the sums from counts by slot and the present biases."""
    p = state.b.shape[1]
    A = np.zeros(state.F.shape)
    A[:, np.arange(p), np.arange(p)] = PRIOR_SD**-2
    b = PRIOR_SD**-2 * prior_mean(state)
    rebuild(
        state.sums, (state.N, state.C), (state.P, state.Q), state.varied, (state.G, state.g), state.bias,
        state.variances, A, b,
    )  # fmt: skip
    state.F[...] = factor.from_precision(A)
    state.b[...] = b


def adapt(state: HybridState, *, learns_bias: bool, most_mean: float, first_tau2: float) -> None:
    """Fit variances, biases and the prior mean of the order to the posterior so far, then refresh it; in place."""
    fit_variances(state, first_tau2)
    if learns_bias:
        fit_bias(state, most_mean)
    fit_order(state)
    refresh(state)


def fit_bias(state: HybridState, most_mean: float) -> None:
    """Set λ_k = (outcomes in slot k + 5)/(Σ μ̂ of what stood there + 5), divided by λ_1, at most 1.2; in place.

    The effects of the items follow the biases in three alternations, the coefficients θ when they are done.
    """
    clicks = np.empty_like(state.bias)
    slot_biases(
        state.coefficients(), state.sums, (state.N, state.C), (state.P, state.Q), state.by_slot, state.variances,
        (LEAST_MEAN, most_mean), (LEAST_BIAS, MOST_BIAS), BIAS_PSEUDO_CLICKS, BIAS_ALTERNATIONS, state.bias, clicks,
    )  # fmt: skip
    order_slots(state, clicks)


def order_slots(state: HybridState, clicks: FloatArray) -> None:
    """Set the errors of new biases and the order of the slots, in place; clicks [B, K] are outcomes by slot."""
    # Outcomes of a slot have the variance s² for each observation; λ_k is a ratio of two independent sums of them.
    error = np.sqrt(state.s2[:, None] * state.by_slot[:, 4]) / np.maximum(clicks, LEAST_BIAS)
    relative = np.hypot(error, error[:, :1])
    relative[:, 0] = 0.0
    state.bias_error[...] = state.bias * relative
    state.order[...] = significant_order(state.bias, state.bias_error)
    state.moved[...] = (state.order != np.arange(state.order.shape[1])).any(axis=1)


def significant_order(bias: FloatArray, error: FloatArray) -> IntArray:
    """Return the slots [B, K] from the most to the least valuable.

    A slot stands above an earlier one only where its bias exceeds the other's by more than two standard errors:
    otherwise noise would move good items down the list.
    """
    order = np.broadcast_to(np.arange(bias.shape[1]), bias.shape).copy()
    for place in range(1, bias.shape[1]):  # insertion: the slot at this place moves up while its lead is significant
        for at in range(place, 0, -1):
            upper, lower = order[:, at - 1 : at], order[:, at : at + 1]
            lead = np.take_along_axis(bias, lower, axis=1) - np.take_along_axis(bias, upper, axis=1)
            errors = np.take_along_axis(error, lower, axis=1), np.take_along_axis(error, upper, axis=1)
            swap = (lower == place) & (lead > SIGNIFICANT_LEAD * np.hypot(*errors))
            if not swap.any():
                break
            order[:, at - 1 : at + 1] = np.where(swap, order[:, at - 1 : at + 1][:, ::-1], order[:, at - 1 : at + 1])
    return order


def fit_order(state: HybridState) -> None:
    """Set the prior mean of the order's coefficient to outcomes over Σλ·order, where any order was seen, in place."""
    exposed = (state.bias * state.by_slot[:, 3]).sum(axis=1)
    outcomes = np.maximum(state.by_slot[:, 2].sum(axis=1), 0.0)
    state.order_mean[...] = np.where(exposed > 0.0, outcomes / np.where(exposed > 0.0, exposed, 1.0), state.order_mean)


def fit_variances(state: HybridState, first_tau2: float) -> None:
    """Set τ² to the weighted mean of (Y/n - x̄ᵀθ)² - s²/n, and s² to the pooled residual variance, in place."""
    found = np.zeros((len(state.b), 3))
    theta = state.coefficients()
    dispersion(theta, state.F, state.sums, (state.P, state.Q), state.varied, state.variances, LEAST_EXPOSURE, found)
    left = residual_variance(state, theta, found[:, 2])
    state.tau2[...] = item_variance(found[:, 0], found[:, 1], state.tau2, first_tau2)
    state.s2[...] = left


def residual_variance(state: HybridState, theta: FloatArray, squares: FloatArray) -> FloatArray:
    """Return the pooled residual variance [B], from residual squares without Σy² and the terms in G, g."""
    seen = state.totals[:, 1]
    shared = np.vecdot(theta, np.matvec(state.G, theta)) - 2.0 * np.vecdot(theta, state.g)
    left = (state.totals[:, 0] + shared + squares) / np.maximum(seen, 1.0)
    return np.where(seen > 0.0, np.maximum(left, LEAST_S2), state.s2)


def item_variance(squares: FloatArray, weights: FloatArray, before: FloatArray, first: float) -> FloatArray:
    """Return a variance of effects [B]: weighted squares over weights, with the first value as PRIOR_ITEMS effects."""
    own = PRIOR_ITEMS * before**-2.0
    return np.asarray(np.maximum((squares + own * first) / (weights + own), LEAST_TAU2))
