"""Policies of paper `cascade`: Zong et al., Cascading Bandits for Large-Scale Recommendation Problems (2016).

It also holds the context-free algorithms that the paper builds on (Kveton et al., Cascading Bandits, 2015).
"""

from __future__ import annotations

import numpy as np

from rankloop.belief import Counts, CountsState, DiagonalRidge, DiagonalState, Nothing, Ridge, RidgeState
from rankloop.catalogue.params import NonNegative, Positive
from rankloop.catalogue.registry import policy
from rankloop.design import PerItem, PerSlot, hashed_or_shared
from rankloop.explore import Bound, Indifferent, Thompson, Ucb, kl_ucb, ucb1
from rankloop.feedback import Cascade
from rankloop.plan import Uniform, plan_for, ranked_plan
from rankloop.policy import Policy
from rankloop.state import NoState
from rankloop.types import Setting


@policy("random", paper="baseline", learns=False)
def random(setting: Setting) -> Policy[NoState]:
    """Random: show a uniformly random list and never learn.

    The baseline of every experiment: regret is best read as a share of this policy's regret.
    """
    return Policy(PerItem(), Nothing(), Indifferent(), Uniform(), Cascade())


@policy("cascade-ucb1", paper="cascade", needs=("lasting",))
def cascade_ucb1(setting: Setting) -> Policy[CountsState]:
    """CascadeUCB1: rank by each item's click rate plus a confidence radius.

    U = s/n + √(1.5 log(t-1)/n); show the K items of largest U.
    s/n is the paper's ŵ_{T_{t-1}(e)}(e), n its T_{t-1}(e), the number of observations of item e before round t, and the
    root its radius c_{t-1,n}. The policy has no parameters.

    Deviates from the paper: log 0 is taken as 0 and an unobserved item scores +∞; the paper leaves both open.

    Reference: Zong et al. (2016), Section 2.3, equation (3).
    """
    return Policy(PerItem(), Counts(setting.items), Bound(ucb1), plan_for("cascade", setting), Cascade())


@policy("cascade-kl-ucb", paper="cascade", needs=("lasting",))
def cascade_kl_ucb(setting: Setting) -> Policy[CountsState]:
    """CascadeKL-UCB: rank by the largest click rate that is compatible with an item's observations.

    U = max{q ≥ s/n : n·KL(s/n‖q) ≤ max(0, log t + 3 log log t)}; show the K items of largest U.
    n observations and s clicks of the item before round t; an unobserved item scores +∞. The policy has no parameters.

    Deviates from the paper: the right-hand side is 0 at t = 1 and never negative.

    Reference: Kveton et al., Cascading Bandits (2015), Section 3.
    """
    return Policy(PerItem(), Counts(setting.items), Bound(kl_ucb), plan_for("cascade", setting), Cascade())


@policy("cascade-lin-ts", paper="cascade", needs=("features",))
def cascade_lin_ts(setting: Setting, *, sigma: Positive = 1.0) -> Policy[RidgeState] | Policy[DiagonalState]:
    """CascadeLinTS: linear Thompson sampling with one parameter vector for all items.

    M = I + Σxxᵀ/σ², B = Σxy, θ ~ N(M⁻¹B/σ², M⁻¹); show the K items of largest xᵀθ.
    The sums run over all observed items: x are the item's features, y is 1 if it was clicked, else 0.
    Hashed rows keep the diagonal of the covariance only, by assumed-density filtering.

    Args:
        sigma: the paper's σ, which controls the learning rate; ideally the standard deviation of the observation noise.

    Reference: Zong et al. (2016), Algorithms 1 and 3.
    """
    x = hashed_or_shared(setting, "cascade-lin-ts")
    plan = plan_for("cascade", setting)
    if setting.hashed is not None:
        belief = DiagonalRidge(x.unknowns, setting.hashed, rate=sigma**-2)
        return Policy(x, belief, Thompson(), plan, Cascade())
    return Policy(x, Ridge(x.width, weight=sigma**-2), Thompson(), plan, Cascade())


@policy("cascade-lin-ucb", paper="cascade", needs=("features",), practical="cascade-lin-ts")
def cascade_lin_ucb(
    setting: Setting, *, sigma: Positive = 1.0, theta_norm: NonNegative = 1.0, c: NonNegative | None = None
) -> Policy[RidgeState] | Policy[DiagonalState]:
    """CascadeLinUCB: rank by a linear estimate plus a confidence radius, at most 1.

    M = I + Σxxᵀ/σ², θ̄ = M⁻¹Σxy/σ², U = min(1, xᵀθ̄ + c√(xᵀM⁻¹x)); show the K items of largest U.
    Unless c is given, c = √(d log(1+nK/(dσ²)) + 2 log(nK))/σ + ‖θ*‖ for d features, K slots and n rounds.
    Hashed rows keep the diagonal of the covariance only, by assumed-density filtering; d is then the number of
    positions of a row.

    Args:
        sigma: the paper's σ, which controls the learning rate.
        theta_norm: an upper bound on the paper's ‖θ*‖₂ in Theorem 1; not used where c is given.
        c: the paper's c, the radius in standard deviations (Algorithm 2); null for the smallest c of Theorem 1.

    Deviates from the paper: ‖θ*‖₂ stands outside the root of Theorem 1, as the proof requires; print has it inside.

    Reference: Zong et al. (2016), Algorithms 2 and 3, Theorem 1.
    """
    x = hashed_or_shared(setting, "cascade-lin-ucb")
    d, K = x.unknowns, setting.slots
    if c is None:
        nK = setting.need_rounds("cascade-lin-ucb", "c") * K
        c = float(np.sqrt(d * np.log1p(nK / (d * sigma**2)) + 2.0 * np.log(nK)) / sigma + theta_norm)
    radius = c
    plan = plan_for("cascade", setting)
    if setting.hashed is not None:
        belief = DiagonalRidge(d, setting.hashed, rate=sigma**-2)
        return Policy(x, belief, Ucb(lambda state, t: np.full(len(t), radius), cap=1.0), plan, Cascade())
    explore = Ucb[RidgeState](lambda state, t: np.full(len(t), radius), cap=1.0)
    return Policy(x, Ridge(d, weight=sigma**-2), explore, plan, Cascade())


@policy("ranked-lin-ts", paper="cascade", needs=("features",))
def ranked_lin_ts(setting: Setting, *, sigma: Positive = 1.0) -> Policy[RidgeState] | Policy[DiagonalState]:
    """RankedLinTS: an independent linear Thompson sampler for each slot.

    M_k = I + Σxxᵀ/σ², θ_k ~ N(M_k⁻¹Σxy/σ², M_k⁻¹); slot k takes the item of largest xᵀθ_k that is not yet in the list.
    The samplers of the slots down to the first click are updated, each with y = 1{click in slot k}.
    Hashed rows keep the diagonal of the covariance only, by assumed-density filtering.

    Args:
        sigma: the paper's σ, which controls the learning rate; 1 in its experiments.

    Reference: Zong et al. (2016), Section 4.2 and Algorithm 4.
    """
    x = hashed_or_shared(setting, "ranked-lin-ts")
    plan = ranked_plan("cascade", setting)
    if setting.hashed is not None:
        diagonal = DiagonalRidge(x.unknowns, setting.hashed, rate=sigma**-2, models=setting.slots)
        return Policy(PerSlot(of=x), diagonal, Thompson(), plan, Cascade())
    belief = Ridge(x.width, weight=sigma**-2, models=setting.slots)
    return Policy(PerSlot(of=x), belief, Thompson(), plan, Cascade())
