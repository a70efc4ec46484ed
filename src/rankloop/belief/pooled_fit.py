"""What the pooled hybrid belief computes from its sums: the posterior, three variances, and position biases."""

from __future__ import annotations

import numpy as np

from rankloop.belief import hybrid_fit as fit
from rankloop.belief.hybrid_state import signature_weights
from rankloop.belief.pooled_state import PooledState
from rankloop.math import factor
from rankloop.math.hybrid.pooled_fit_kernels import pooled_biases, pooled_dispersion, pooled_rebuild


def refresh(state: PooledState) -> None:
    """Compute the posterior from the sums, in place, and first the sums from counts by slot and the present biases."""
    p = state.b.shape[1]
    A = np.zeros(state.F.shape)
    A[:, np.arange(p), np.arange(p)] = fit.PRIOR_SD**-2
    b = fit.PRIOR_SD**-2 * fit.prior_mean(state)
    pooled_rebuild(
        state.sums, state.cells, (state.N, state.C), (state.P, state.Q, state.X), state.varied, (state.G, state.g),
        state.bias, state.three_variances, signature_weights(p + 1), A, b,
    )  # fmt: skip
    state.F[...] = factor.from_precision(A)
    state.b[...] = b


def adapt(state: PooledState, *, learns_bias: bool, most_mean: float, first: tuple[float, float]) -> None:
    """Fit variances, biases and the prior mean of the order, then refresh the posterior; `first` are τ² and ω²."""
    fit_variances(state, first)
    if learns_bias:
        clicks = np.empty_like(state.bias)
        pooled_biases(
            state.coefficients(), state.sums, (state.N, state.C), (state.P, state.Q), state.by_slot,
            state.three_variances, (fit.LEAST_MEAN, most_mean), (fit.LEAST_BIAS, fit.MOST_BIAS),
            fit.BIAS_PSEUDO_CLICKS, fit.BIAS_ALTERNATIONS, state.bias, clicks,
        )  # fmt: skip
        fit.order_slots(state, clicks)
    fit.fit_order(state)
    refresh(state)


def fit_variances(state: PooledState, first: tuple[float, float]) -> None:
    """Set τ² and ω² to weighted means over items and over cells, and s² to the pooled residual variance, in place."""
    found, theta = np.zeros((len(state.b), 5)), state.coefficients()
    pooled_dispersion(
        theta, state.F, state.sums, state.cells, state.varied, state.three_variances, fit.LEAST_EXPOSURE, found
    )
    left = fit.residual_variance(state, theta, found[:, 4])
    state.tau2[...] = fit.item_variance(found[:, 0], found[:, 1], state.tau2, first[0])
    state.omega2[...] = fit.item_variance(found[:, 2], found[:, 3], state.omega2, first[1])
    state.s2[...] = left
