"""Policies of paper `choice`: Grant and Leslie, Learning to Rank under Multinomial Logit Choice (2023).

Its own algorithms, and the baselines of its experiments.
"""

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
from rankloop.plan import choice_plan, plan_for
from rankloop.policy import Policy
from rankloop.types import FloatArray, IntArray, Setting
from rankloop.wrappers import EpochRepeat

Estimate = Literal["mle", "exclude", "printed"]


class _EpochCounts(Counts):
    """Counts of whole epochs, in which one slot may receive several clicks."""

    binary = False


def _epoch_counts(
    setting: Setting, name: str, log: Callable[[IntArray], FloatArray], factor: float
) -> EpochRepeat[CountsState]:
    bias = setting.need_bias(name)

    def bound(tally: Tally, t: IntArray) -> FloatArray:
        return epoch_ucb(tally, log(t)[:, None], factor)

    inner = Policy(PerItem(), _EpochCounts(setting.items), Bound(bound), plan_for("choice", setting), Choice())
    return EpochRepeat(inner, bias)


@policy("epoch-ucb", paper="choice", feedback="choice", needs=("bias", "lasting"))
def epoch_ucb_known(setting: Setting) -> EpochRepeat[CountsState]:
    """Epoch-UCB: repeat a list until a round without a click; position biases are known.

    U = ᾱ_j + √(4 min(1, 2ᾱ_j) log(Jl²/2)/Λ_j) + 4 log(Jl²/2)/Λ_j in epoch l, ᾱ_j = Σ_k N_kj/Λ_j, Λ_j = Σ_k λ_k S_kj; +∞
    for an item that was never shown. The item of k-th largest U goes into the slot of k-th largest bias λ. J items;
    N_kj clicks and S_kj epochs of item j in slot k, the paper's Ñ_kj. The policy has no parameters.

    Reference: Grant and Leslie (2023), Section 4, Algorithm 2; equation (4) for ᾱ_j.
    """
    J = setting.J
    return _epoch_counts(setting, "epoch-ucb", lambda t: np.log(J * t**2 / 2.0), 4.0)


@policy("epoch-ucb-w", paper="choice", feedback="choice", needs=("bias", "lasting"), practical="epoch-ucb")
def epoch_ucb_w(setting: Setting) -> EpochRepeat[CountsState]:
    """Epoch-UCB-W: Epoch-UCB with the wider bound that follows from earlier analyses.

    As epoch-ucb with 48 in place of 4 and log(√J·l/√2) in place of log(Jl²/2). The policy has no parameters.

    Deviates from the paper: print has √(Jl) where √J·l is meant.

    Reference: Grant and Leslie (2023), Section 6.
    """
    J = setting.J
    return _epoch_counts(setting, "epoch-ucb-w", lambda t: np.log(np.sqrt(J) * t / np.sqrt(2.0)), 48.0)


def _unknown_bias(
    setting: Setting, name: str, estimator: Estimate, radius: Callable[[FloatArray, IntArray], FloatArray]
) -> EpochRepeat[ChoiceState]:
    belief = ChoiceEstimates(setting.items, setting.slots, ESTIMATORS[estimator])
    plan = choice_plan(setting, by_pairs=False)
    # Revenue weighs attractions, which are at most 1; without prices only their order counts.
    explore = Sensitive(radius, before_all=1.0, cap=1.0) if plan.reads else Sensitive(radius)
    inner = Policy(SlotOnly(), belief, explore, plan, Choice())
    return EpochRepeat(inner, np.ones(setting.slots))


@policy("epoch-ucb-upb", paper="choice", feedback="choice", needs=("lasting",), practical="epoch-ucb-upb-star")
def epoch_ucb_upb(setting: Setting, *, estimator: Estimate = "mle") -> EpochRepeat[ChoiceState]:
    """Epoch-UCB-UPB: as Epoch-UCB, with both attractions and position biases estimated.

    U = α_j + √(36 β_j² log(Jl²)) in epoch l, β_j² = Σ_{k,s: S_ks ≥ 1} (α_j - α_j with one more click in (k, s))² S_ks.
    The item of k-th largest U goes into the slot of k-th largest estimated bias λ_k, λ_1 = 1. α, β and S are the
    paper's α^EM, β_1 and Ñ; S_ks counts the epochs of item s in slot k. The first list is random.

    Args:
        estimator: how α and λ are estimated: 'mle' maximises the likelihood; 'printed' iterates equations (5) and (6)
            as the paper's Algorithm 1 does; 'exclude' does the same without the items and slots that have no clicks.

    Deviates from the paper: equations (5) and (6) do not converge to the maximiser of the likelihood, so 'mle' is the
    default; items and slots without clicks stay at 1e-3, and estimates between 1e-3 and 1e3.

    Reference: Grant and Leslie (2023), Section 4, Algorithm 3, equations (14) to (16).
    """
    J = setting.J
    return _unknown_bias(
        setting, "epoch-ucb-upb", estimator, lambda b2, t: np.sqrt(36.0 * b2 * np.log(J * t**2.0)[:, None])
    )


@policy("epoch-ucb-upb-star", paper="choice", feedback="choice", needs=("lasting",))
def epoch_ucb_upb_star(setting: Setting, *, estimator: Estimate = "mle") -> EpochRepeat[ChoiceState]:
    """Epoch-UCB-UPB*: Epoch-UCB-UPB with a narrower bound.

    U = α_j + 0.5√(β_j² log(√J·l)); otherwise as epoch-ucb-upb.

    Args:
        estimator: how α and λ are estimated: 'mle', 'exclude' or 'printed', as in epoch-ucb-upb.

    Deviates from the paper: as epoch-ucb-upb; print has √(Jl) where √J·l is meant.

    Reference: Grant and Leslie (2023), Section 6, called Epoch-UCB* UPB there.
    """
    J = setting.J
    return _unknown_bias(
        setting, "epoch-ucb-upb-star", estimator, lambda b2, t: 0.5 * np.sqrt(b2 * np.log(np.sqrt(J) * t)[:, None])
    )


@policy("mnl-bandit", paper="choice", feedback="choice", needs=("lasting",), practical="epoch-ucb-upb-star")
def mnl_bandit(setting: Setting) -> EpochRepeat[CountsState]:
    """MNL-Bandit: an independent estimate for each pair of item and slot.

    γ_jk = N_kj/S_kj, U = γ_jk + √(4 min(1, 2γ_jk) log(JKl²/2)/S_kj) + 4 log(JKl²/2)/S_kj in epoch l; pairs that were
    never shown come first; the list is the matching of items and slots of largest total U. N_kj clicks and S_kj epochs
    of item j in slot k, the paper's Ñ_kj. The policy has no parameters.

    Reference: Grant and Leslie (2023), Appendix F, Algorithm 4; Agrawal et al., MNL-Bandit (2019).
    """
    J, K = setting.J, setting.slots

    def bound(tally: Tally, t: IntArray) -> FloatArray:
        return epoch_ucb(tally, np.log(J * K * t**2 / 2.0)[:, None], 4.0)

    plan = choice_plan(setting, by_pairs=True)
    inner = Policy(PerItemSlot(K), _EpochCounts(setting.items * K), Bound(bound), plan, Choice())
    return EpochRepeat(inner, np.ones(K))


@policy("pbm-ucb", paper="choice", feedback="position-based", needs=("bias", "lasting"))
def pbm_ucb_known(setting: Setting, *, eps: NonNegative = 0.0) -> Policy[CountsState]:
    """PBM-UCB: UCB for the position-based click model with known biases; it learns every round.

    U = clicks/Ñ + √(N/Ñ)·√((1+ε) log t/(2Ñ)), N rounds in which the item was shown, Ñ the sum of the biases of its
    slots; +∞ if never shown. The item of k-th largest U goes into the slot of k-th largest bias.

    Args:
        eps: ε in the formula above; a larger value widens the bound.

    Reference: Lagrée et al., Multiple-Play Bandits in the Position-Based Model (2016), PBM-UCB; Grant and Leslie
    (2023), Section 6.
    """
    bias = setting.need_bias("pbm-ucb")
    explore = Bound(lambda tally, t: pbm_ucb(tally, t, eps))
    return Policy(PerItem(), Counts(setting.items), explore, plan_for("position-based", setting), PositionBased(bias))
