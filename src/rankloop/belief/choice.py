"""Estimates of attraction and position bias under multinomial logit choice, with their sensitivity."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rankloop.belief.base import Belief
from rankloop.math import mnl
from rankloop.math.columns import take
from rankloop.special_functions import NORMAL_95
from rankloop.state import State
from rankloop.types import Decision, Evidence, FloatArray, IntArray, SlotEffects

Estimator = Callable[[FloatArray, FloatArray, FloatArray, FloatArray], tuple[FloatArray, FloatArray]]
"""(N, S, starting α, starting λ) -> (α, λ)."""

START_ATTRACTION = 0.1
"""Attraction at which a search starts."""

MAX_PERTURBED_BYTES = 2**24
"""Bytes of the perturbed counts that are fitted at once: each of K·J fits needs a copy of all K·J counts."""

MAX_LOG_ERROR = 3.0
"""Standard error of a logarithm above which nothing is known: its 95 % interval spans a factor of more than 300 each
way, as where an item was only ever shown in slots that no other item visited."""

RELATIVE_BITS = 26
"""Bits of a sensitivity β² that are kept; its rounding errors are smaller by four orders of magnitude."""

ESTIMATORS: dict[str, Estimator] = {"mle": mnl.fit_mle, "exclude": mnl.fit_exclude, "printed": mnl.fit_printed}


@dataclass
class ChoiceState(State):
    """Epoch counts by slot and item, and the estimates that follow from them."""

    N: FloatArray  # [B, K, J] clicks
    S: FloatArray  # [B, K, J] epochs
    alpha: FloatArray  # [B, J]
    lam: FloatArray  # [B, K]
    beta2: FloatArray  # [B, J] sensitivity β²


@dataclass(frozen=True)
class ChoiceEstimates(Belief[ChoiceState]):
    """α and λ by an estimator; β_j² = Σ_{k,s} (α_j - α_j with one more click in (k, s))² S_ks.

    The K·J perturbed fits of all learners whose epoch ended form large batches. The maximum of the likelihood does not
    depend on the starting point, so the search starts near the last one; the fixed points of the other estimators are
    not unique, so they always start from the same point.
    """

    items: int
    slots: int
    estimator: Estimator = mnl.fit_mle
    binary = False
    fractional = True

    def init(self, learners: int) -> ChoiceState:
        """Return a state without epochs and with equal biases."""
        counts = (learners, self.slots, self.items)
        return ChoiceState(
            N=np.zeros(counts),
            S=np.zeros(counts),
            alpha=np.full((learners, self.items), mnl.FLOOR),
            lam=np.ones((learners, self.slots)),
            beta2=np.zeros((learners, self.items)),
        )

    def update(self, state: ChoiceState, decision: Decision, evidence: Evidence) -> None:
        """Add the epochs that ended and the clicks of interrupted epochs, then estimate again."""
        b, k = np.nonzero((evidence.exposure > 0) | (evidence.y > 0))
        items = decision.columns[b, k]
        state.N[b, k, items] += evidence.y[b, k]
        state.S[b, k, items] += np.sign(evidence.exposure[b, k])
        ended = np.unique(b)
        N, S = state.N[ended], state.S[ended]
        # Newton's method may start anywhere inside the box; a clicked item must not start at the floor.
        near = np.maximum(state.alpha[ended], START_ATTRACTION), np.maximum(state.lam[ended], START_ATTRACTION)
        alpha, lam = self.estimator(N, S, *_start(self.estimator, *near))
        state.alpha[ended], state.lam[ended] = alpha, lam
        state.beta2[ended] = sensitivity(self.estimator, N, S, alpha, lam)

    def of_items(self, state: ChoiceState, models: IntArray) -> ChoiceState:
        """Return the estimates and the epochs of these items, without the clicks, which no score reads."""
        none = np.empty((*state.N.shape[:2], 0))
        return ChoiceState(none, state.S[:, :, models], state.alpha[:, models], state.lam, state.beta2[:, models])

    def item_estimates(self, state: ChoiceState) -> tuple[FloatArray, FloatArray] | None:
        """Return α̂ and its standard deviation, [B, J]: the choice weight in the first slot, where λ_1 = 1.

        Items that were never shown have no estimate; those at the floor, and all of another estimator than the maximum
        likelihood, have no standard deviation.
        """
        shown = (state.N + state.S).any(axis=1)
        errors, _ = self._log_errors(state)
        return np.where(shown, state.alpha, np.nan), state.alpha * errors

    def slot_effects(self, state: ChoiceState) -> SlotEffects | None:
        """Return λ̂ with intervals that are symmetric on the log scale; none where slots cannot be compared yet."""
        _, errors = self._log_errors(state)
        factor = np.exp(NORMAL_95 * errors)
        return SlotEffects(state.lam.copy(), state.lam / factor, state.lam * factor)

    def _log_errors(self, state: ChoiceState) -> tuple[FloatArray, FloatArray]:
        """Return the standard errors of log α [B, J] and log λ [B, K], NaN where they are unknown or too large."""
        if self.estimator is not mnl.fit_mle:
            return np.full(state.alpha.shape, np.nan), np.full(state.lam.shape, np.nan)
        found = mnl.log_errors(state.N, state.S, state.alpha, state.lam)
        alpha, lam = (np.where(errors <= MAX_LOG_ERROR, errors, np.nan) for errors in found)
        return alpha, lam

    def expected_outcomes(self, state: ChoiceState, decision: Decision) -> FloatArray | None:
        """Return the choice weights λ_k α_j of the listed items, [B, K]; 0 in empty slots."""
        items = decision.columns
        weight = take(state.alpha, np.maximum(items, 0)) * state.lam[:, : items.shape[1]]
        return np.where(decision.shown, weight, 0.0)


def sensitivity(estimator: Estimator, N: FloatArray, S: FloatArray, alpha: FloatArray, lam: FloatArray) -> FloatArray:
    """Return β² [B, J] from counts [B, K, J] and their estimates."""
    beta2 = np.zeros(alpha.shape)
    perturbed = np.nonzero(S >= 1)
    at_once = max(1, MAX_PERTURBED_BYTES // N[0].nbytes) if len(N) else 1
    for first in range(0, len(perturbed[0]), at_once):
        b, k, j = cells = tuple(index[first : first + at_once] for index in perturbed)
        more = N[b]
        more[np.arange(len(b)), k, j] += 1.0
        start_a, start_l = alpha[b].copy(), lam[b].copy()
        start_a[np.arange(len(b)), j] = np.maximum(start_a[np.arange(len(b)), j], START_ATTRACTION)
        start_l[np.arange(len(b)), k] = np.maximum(start_l[np.arange(len(b)), k], START_ATTRACTION)
        shifted, _ = estimator(more, S[b], *_start(estimator, start_a, start_l))
        np.add.at(beta2, b, (alpha[b] - shifted) ** 2 * S[cells][:, None])
    return _rounded(beta2)


def _rounded(values: FloatArray) -> FloatArray:
    """Return numbers rounded to RELATIVE_BITS bits: items with equal records tie, in whatever order their sums are."""
    fraction, exponent = np.frexp(values)
    return np.asarray(np.ldexp(np.ldexp(fraction, RELATIVE_BITS).round(), exponent - RELATIVE_BITS))


def _start(estimator: Estimator, alpha: FloatArray, lam: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return an estimator's starting point: the given one for the maximum likelihood, a fixed one for the others."""
    if estimator is mnl.fit_mle:
        return alpha, lam
    return np.full_like(alpha, START_ATTRACTION), np.ones_like(lam)
