"""Policies of paper `long-sequences`.

Santara et al., On Learning to Rank Long Sequences with Contextual Bandits (2022), and the baselines of its experiments.
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np

from rankloop.belief import (
    LogisticGram,
    LogisticRows,
    LogisticState,
    NewtonState,
    OnlineLogistic,
    OnlineNewton,
    OnlineState,
    Ridge,
    RidgeState,
    RowsState,
)
from rankloop.belief.logistic_rows import MAX_ROWS
from rankloop.catalogue.params import NonNegative, NumberOr, Positive, Probability, Range
from rankloop.catalogue.registry import policy
from rankloop.design import Coverage, shared_rows
from rankloop.explore import Greedy, Ucb, UcbOutsideLink
from rankloop.feedback import Cascade
from rankloop.math.links import LOGISTIC
from rankloop.plan import coverage_plan, net_reward_plan, plan_for
from rankloop.policy import Policy, PolicyState
from rankloop.types import Setting
from rankloop.wrappers import RandomLists, with_probability

Alpha = Annotated[float | Literal["theory"], NumberOr(Range(low=0.0), "theory")]


def theory_alpha(b: int, d: int, T: int, delta: float, D: float) -> float:
    """Return α(b, d, T, δ) of Algorithm 1 for the logistic function on [-D, D]."""
    c = 1.0 / (1.0 + np.exp(-D))  # c_σ, so that c/(1-c) = e^D
    dc = np.exp(-D) * c * c  # c_σ′ = c(1-c), without the cancellation
    ratio = (c / dc) ** 2
    widening = np.log1p(2.0 / b * (T * np.exp(D) + 4.0 * np.log(4.0 * (T + 1) / delta)))
    return float(
        2.0 * b * D**2
        + ratio * d * widening
        + 2.0 * (12.0 * ratio + 36.0 * (1.0 + D) / dc) * np.log(2.0 * b * (T + 4) / delta)
        + 20.0 * D**2 * np.log(2.0 * b * d * (T + 1) / delta)
    )


def _root_alpha(setting: Setting, name: str, alpha: Alpha, d: int, D: float) -> float:
    if alpha == "theory":
        T = setting.need_rounds(name, "a number for alpha")
        alpha = theory_alpha(setting.slots, d, T, 1.0 / T, D)
    return float(np.sqrt(alpha))


def _newton(setting: Setting, d: int, rate: float, D: float) -> OnlineNewton:
    return OnlineNewton(d, ridge=float(max(setting.slots, 1)), rate=rate, bound=D)


@policy("ind", paper="long-sequences", needs=("features",))
def ind(setting: Setting, *, alpha: Alpha = 0.1, rate: Positive = 4.0, D: Positive = 5.0) -> Policy[NewtonState]:
    """Ind: a logistic model by projected online Newton steps, and the list length of largest expected value.

    u = xᵀw + √(α xᵀM⁻¹x); sort items by σ(u), then choose the length 0 … b_t of largest expected reward, ties to the
    longest. From M = b·I, w = 0, for each observed item in order, s = +1 for a success and -1 otherwise: project w on
    {|wᵀx| ≤ D} in the norm of M, then M += xxᵀ, w += rate·σ(-s wᵀx) s M⁻¹x. b is the largest budget b_t.

    Args:
        alpha: the paper's α(b, d, T, δ), the exploration parameter; 'theory' computes it with δ = 1/T.
        rate: the learning rate, which replaces the paper's 1/c_σ′ (Section 5; it searches 1 … 100).
        D: the paper's D, the bound on |wᵀx|.

    Deviates from the paper: `rate` replaces 1/c_σ′, as in its experiments; the closed form of the projection tests
    |wᵀx|, where the proof of Lemma 5 prints |w|.

    Reference: Santara et al. (2022), Section 3, Algorithm 1.
    """
    x = shared_rows(setting, "ind")
    d = x.width
    root = _root_alpha(setting, "ind", alpha, d, D)
    explore = Ucb[NewtonState](lambda state, t: np.full(len(t), root))
    return Policy(x, _newton(setting, d, rate, D), explore, net_reward_plan("cascade", setting), Cascade())


@policy("dep", paper="long-sequences", needs=("coverage",))
def dep(setting: Setting, *, alpha: Alpha = 0.1, rate: Positive = 4.0, D: Positive = 5.0) -> Policy[NewtonState]:
    """Dep: as Ind, where an item's success also depends on the topics that the items above it cover.

    Slot by slot take the item of largest c̄ᵀw + √(α c̄ᵀM⁻¹c̄) given the items above it, then choose the length as in
    ind. c̄ = (2c′ - 1)/√d′, c′ the coverage that the item adds in each of d′ topics. Updates are those of ind with c̄
    in place of x, as computed when the list was shown.

    Args:
        alpha: the paper's α(b, d′, T, δ), the exploration parameter; 'theory' computes it with δ = 1/T.
        rate: the learning rate, which replaces the paper's 1/c_σ′ (Section 5; it searches 1 … 100).
        D: the paper's D, the bound on |wᵀc̄|.

    Deviates from the paper: as ind.

    Reference: Santara et al. (2022), Section 4 and Appendix B, Algorithm 2.
    """
    d = setting.need_coverage("dep")
    root = _root_alpha(setting, "dep", alpha, d, D)
    explore = Ucb[NewtonState](lambda state, t: np.full(len(t), root))
    return Policy(Coverage(d), _newton(setting, d, rate, D), explore, coverage_plan("cascade", setting), Cascade())


@policy("eps-ind", paper="long-sequences", needs=("features",))
def eps_ind(
    setting: Setting, *, eps: Probability = 0.1, rate: Positive = 4.0, D: Positive = 5.0
) -> RandomLists[PolicyState[NewtonState]]:
    """ε-greedy Ind: with probability eps a uniformly random list of uniformly random length, else Ind without bonus.

    u = xᵀw; updates as in ind, also after random lists. A random list has length 0 … b_t.

    Args:
        eps: the paper's ε, the probability of a random list (it searches 0.01 … 0.5).
        rate: the learning rate, which replaces the paper's 1/c_σ′ (it searches 1 … 100).
        D: the paper's D, the bound on |wᵀx|.

    Deviates from the paper: as ind; the paper does not say how random lists are drawn.

    Reference: Santara et al. (2022), Section 5, called Eps there.
    """
    x = shared_rows(setting, "eps-ind")
    d = x.width
    greedy = Policy(x, _newton(setting, d, rate, D), Greedy(), net_reward_plan("cascade", setting), Cascade())
    return RandomLists(greedy, with_probability(eps), any_length=True)


@policy("c-ucb1", paper="long-sequences", needs=("features",))
def c_ucb1(setting: Setting, *, c: NonNegative = 1.0) -> Policy[RidgeState]:
    """C-UCB1: linear cascade UCB, capped at 1, with lists of full length.

    M = I + Σxxᵀ, θ = M⁻¹Σxy, U = min(1, xᵀθ + c√(xᵀM⁻¹x)); show the b_t items of largest U.

    Args:
        c: the exploration radius, the constant c of CascadeLinUCB (Zong et al. 2016, Algorithm 2).

    Deviates from the paper: the estimate is linear in the features, since counts for each arm cannot learn where no arm
    returns.

    Reference: Santara et al. (2022), Section 5; Zong et al. (2016), Algorithms 2 and 3.
    """
    x = shared_rows(setting, "c-ucb1")
    d = x.width
    explore = Ucb[RidgeState](lambda state, t: np.full(len(t), c), cap=1.0)
    return Policy(x, Ridge(d), explore, plan_for("cascade", setting), Cascade())


@policy("gl-cdcm", paper="long-sequences", needs=("features",))
def gl_cdcm(
    setting: Setting, *, alpha: NonNegative = 0.1, lam: Positive = 1.0
) -> Policy[LogisticState] | Policy[RowsState] | Policy[OnlineState]:
    """GL-CDCM: ridge logistic regression on all observations, with the bonus outside the link and lists of full length.

    V = λI + Σxxᵀ, U = σ(xᵀθ) + α√(xᵀV⁻¹x), θ the ridge logistic estimate; show the b_t items of largest U.
    The fit is exact while items keep their features, and where every round brings new items and all its rows fit into
    memory (1,048,576 of them). Otherwise no rows are stored, and θ is the recursive Laplace approximation: for each
    observation H += σ′(θᵀx)xxᵀ, θ += H⁻¹x(y - σ(θᵀx)), from H = λI.

    Args:
        alpha: α, the exploration radius.
        lam: the paper's λ, the L2 regularisation weight (Santara et al. 2022, Section 5), also in V.

    Reference: Liu et al., Contextual Dependent Click Bandit Algorithm (2018); Santara et al. (2022), Section 5.
    """
    x = shared_rows(setting, "gl-cdcm")
    d = x.width
    plan = plan_for("cascade", setting, link=LOGISTIC)
    explore = UcbOutsideLink(alpha, log_odds=bool(plan.reads))
    if setting.rows_return:
        return Policy(x, LogisticGram(d, setting.items, ridge=lam), explore, plan, Cascade())
    rows = 0 if setting.lasting else (setting.rounds or 0) * max(setting.slots, 1)
    if not 0 < rows <= MAX_ROWS:
        return Policy(x, OnlineLogistic(d, models=1, ridge=lam, v_ridge=lam), explore, plan, Cascade())
    stored = LogisticRows(d, models=1, capacity=rows, ridge=lam, v_ridge=lam)
    return Policy(x, stored, explore, plan, Cascade())
