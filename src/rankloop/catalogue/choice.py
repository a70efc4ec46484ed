"""Paper `choice`: Grant and Leslie, Learning to Rank under Multinomial Logit Choice (2023), and its baselines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from rankloop.belief import ESTIMATORS, ChoiceEstimates, ChoiceState, Counts, CountsState, Tally
from rankloop.catalogue.params import NonNegative
from rankloop.catalogue.registry import policy
from rankloop.design import PerItem, PerItemSlot, SlotOnly
from rankloop.explore import Bound, Sensitive, epoch_ucb, pbm_ucb
from rankloop.feedback import Choice, PositionBased
from rankloop.objective import Amount
from rankloop.plan import Assignment, BySlotBias
from rankloop.policy import Policy
from rankloop.types import FloatArray, IntArray, Setting
from rankloop.wrappers import EpochRepeat

Estimate = Literal["mle", "exclude", "printed"]


class _Counts(Counts):
    """Counts of whole epochs: several clicks on a slot are possible."""

    binary = False


def _epoch_counts(
    setting: Setting, name: str, log: Callable[[IntArray], FloatArray], factor: float
) -> EpochRepeat[CountsState]:
    bias = setting.need_bias(name)

    def bound(tally: Tally, t: IntArray) -> FloatArray:
        return epoch_ucb(tally, log(t)[:, None], factor)

    inner = Policy(PerItem(), _Counts(setting.items), Bound(bound), BySlotBias(bias), Choice())
    return EpochRepeat(inner, bias)


@policy("epoch-ucb", paper="choice", feedback="choice", needs=("bias", "lasting"))
def epoch_ucb_known(setting: Setting) -> EpochRepeat[CountsState]:
    """Epoch-UCB: a list is kept until a no-click; attraction from clicks over exposure, biases known.

    Λ_j = Σ_k λ_k S_kj, ᾱ = Σ_k N_kj/Λ_j, U = ᾱ + √(4 min(1, 2ᾱ) log(Jl²/2)/Λ) + 4 log(Jl²/2)/Λ in epoch l,
    +∞ for items never shown; the k-th largest U into the slot with the k-th largest bias.

    Reference: Grant and Leslie (2023), Algorithm 2.
    """
    J = setting.J
    return _epoch_counts(setting, "epoch-ucb", lambda t: np.log(J * t**2 / 2.0), 4.0)


@policy("epoch-ucb-w", paper="choice", feedback="choice", needs=("bias", "lasting"))
def epoch_ucb_w(setting: Setting) -> EpochRepeat[CountsState]:
    """Epoch-UCB-W: Epoch-UCB with the wider bound of earlier analyses.

    As epoch-ucb with 48 for 4 and log(√J·l/√2) for the logarithm.

    Reference: Grant and Leslie (2023), Section 6.
    Deviates from the paper: print has √(Jl); it is √J·l.
    """
    J = setting.J
    return _epoch_counts(setting, "epoch-ucb-w", lambda t: np.log(np.sqrt(J) * t / np.sqrt(2.0)), 48.0)


def _unknown_bias(
    setting: Setting, name: str, estimator: Estimate, radius: Callable[[FloatArray, IntArray], FloatArray]
) -> EpochRepeat[ChoiceState]:
    belief = ChoiceEstimates(setting.items, setting.slots, ESTIMATORS[estimator])
    inner = Policy(SlotOnly(), belief, Sensitive(radius), Assignment(Amount()), Choice())
    return EpochRepeat(inner, np.ones(setting.slots))


@policy("epoch-ucb-upb", paper="choice", feedback="choice", needs=("lasting",))
def epoch_ucb_upb(setting: Setting, *, estimator: Estimate = "mle") -> EpochRepeat[ChoiceState]:
    """Epoch-UCB-UPB: attraction and position biases are both estimated, doubt is the estimate's sensitivity.

    α, λ (λ_1 = 1) by `estimator`: 'mle', the maximiser of the likelihood; 'exclude' and 'printed', equations (5)
    and (6) iterated without items and slots that have no clicks, or as printed. U = α + √(36 β² log(Jl²)),
    β_j² = Σ_{k,s: S_ks ≥ 1} (α_j - α_j with one more click in (k, s))² S_ks; placement by the estimated λ.

    Reference: Grant and Leslie (2023), Algorithm 3, equations (5) and (6).
    Deviates from the paper: (5) and (6) do not converge to the maximiser of the likelihood, so that is the default;
    items or slots without clicks stay at 1e-3, estimates between 1e-3 and 1e3.
    """
    J = setting.J
    return _unknown_bias(
        setting, "epoch-ucb-upb", estimator, lambda b2, t: np.sqrt(36.0 * b2 * np.log(J * t**2.0)[:, None])
    )


@policy("epoch-ucb-upb-star", paper="choice", feedback="choice", needs=("lasting",))
def epoch_ucb_upb_star(setting: Setting, *, estimator: Estimate = "mle") -> EpochRepeat[ChoiceState]:
    """Epoch-UCB-UPB*: Epoch-UCB-UPB with a narrower bound.

    As epoch-ucb-upb with U = α + 0.5√(β² log(√J·l)).

    Reference: Grant and Leslie (2023), Section 6.
    Deviates from the paper: as epoch-ucb-upb; print has √(Jl) for √J·l.
    """
    J = setting.J
    return _unknown_bias(
        setting, "epoch-ucb-upb-star", estimator, lambda b2, t: 0.5 * np.sqrt(b2 * np.log(np.sqrt(J) * t)[:, None])
    )


@policy("mnl-bandit", paper="choice", feedback="choice", needs=("lasting",))
def mnl_bandit(setting: Setting) -> EpochRepeat[CountsState]:
    """MNL-Bandit: an independent estimate for each pair of item and slot.

    γ_jk = N/S, U = γ + √(4 min(1, 2γ) log(JKl²/2)/S) + 4 log(JKl²/2)/S; pairs never tried come first; matching.

    Reference: Grant and Leslie (2023), Appendix F, Algorithm 4; Agrawal et al., MNL-Bandit (2019).
    """
    J, K = setting.J, setting.slots

    def bound(tally: Tally, t: IntArray) -> FloatArray:
        return epoch_ucb(tally, np.log(J * K * t**2 / 2.0)[:, None], 4.0)

    inner = Policy(PerItemSlot(K), _Counts(setting.items * K), Bound(bound), Assignment(Amount()), Choice())
    return EpochRepeat(inner, np.ones(K))


@policy("pbm-ucb", paper="choice", feedback="position-based", needs=("bias", "lasting"))
def pbm_ucb_known(setting: Setting, *, eps: NonNegative = 0.0) -> Policy[CountsState]:
    """PBM-UCB: the position-based model with known biases, every round.

    U = clicks/Ñ + √(N/Ñ)·√((1+ε) log t/(2Ñ)), Ñ = Σ bias of the slots shown, N rounds shown; +∞ if never shown.

    Reference: Lagrée et al., Multiple-Play Bandits in the Position-Based Model (2016); Grant and Leslie (2023).
    """
    bias = setting.need_bias("pbm-ucb")
    explore = Bound(lambda tally, t: pbm_ucb(tally, t, eps))
    return Policy(PerItem(), Counts(setting.items), explore, BySlotBias(bias), PositionBased(bias))
