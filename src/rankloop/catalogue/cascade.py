"""Paper `cascade`: Zong et al., Cascading Bandits for Large-Scale Recommendation Problems (2016).

With the context-free algorithms that it builds on (Kveton et al., Cascading Bandits, 2015).
"""

from __future__ import annotations

import numpy as np

from rankloop.belief import Counts, CountsState, Nothing, Ridge, RidgeState
from rankloop.catalogue.params import NonNegative, Positive
from rankloop.catalogue.registry import policy
from rankloop.design import PerItem, PerSlot, Shared
from rankloop.explore import Bound, Indifferent, Thompson, Ucb, kl_ucb, ucb1
from rankloop.feedback import Cascade
from rankloop.plan import GreedyBySlot, TopK, Uniform
from rankloop.policy import Policy
from rankloop.state import NoState
from rankloop.types import Setting


@policy("random", paper="baseline", learns=False)
def random(setting: Setting) -> Policy[NoState]:
    """A uniformly random list, whatever happened.

    The yardstick: a policy's regret is best read as a share of this one's.
    """
    return Policy(PerItem(), Nothing(), Indifferent(), Uniform(), Cascade())


@policy("cascade-ucb1", paper="cascade", needs=("lasting",))
def cascade_ucb1(setting: Setting) -> Policy[CountsState]:
    """CascadeUCB1: each item's click rate plus a confidence radius.

    U = s/n + √(1.5 log(t-1)/n), log 0 := 0, +∞ for an unobserved item; the K largest.

    Reference: Zong et al. (2016), Section 2.3, equation (3).
    """
    return Policy(PerItem(), Counts(setting.items), Bound(ucb1), TopK(), Cascade())


@policy("cascade-kl-ucb", paper="cascade", needs=("lasting",))
def cascade_kl_ucb(setting: Setting) -> Policy[CountsState]:
    """CascadeKL-UCB: the largest click rate that the observations do not rule out.

    U = max{q ≥ s/n : n·KL(s/n‖q) ≤ max(0, log t + 3 log log t)}, +∞ for an unobserved item.

    Reference: Kveton et al., Cascading Bandits (2015), Section 3.
    Deviates from the paper: the budget is 0 at t = 1 and never negative.
    """
    return Policy(PerItem(), Counts(setting.items), Bound(kl_ucb), TopK(), Cascade())


@policy("cascade-lin-ts", paper="cascade", needs=("features",))
def cascade_lin_ts(setting: Setting, *, sigma: Positive = 1.0) -> Policy[RidgeState]:
    """CascadeLinTS: linear Thompson sampling with one parameter vector for all items.

    M = I + Σxxᵀ/σ², B = Σxy, θ ~ N(M⁻¹B/σ², M⁻¹); the K largest xᵀθ.

    Reference: Zong et al. (2016), Algorithms 1 and 3.
    """
    d = setting.need_dim("cascade-lin-ts")
    return Policy(Shared(d), Ridge(d, weight=sigma**-2), Thompson(), TopK(), Cascade())


@policy("cascade-lin-ucb", paper="cascade", needs=("features",))
def cascade_lin_ucb(
    setting: Setting, *, sigma: Positive = 1.0, theta_norm: NonNegative = 1.0, c: NonNegative | None = None
) -> Policy[RidgeState]:
    """CascadeLinUCB: a linear estimate plus a confidence radius, at most 1.

    U = min(1, xᵀθ̄ + c‖x‖) in the norm of M⁻¹, M = I + Σxxᵀ/σ², θ̄ = M⁻¹Σxy/σ²,
    c = √(d log(1+nK/(dσ²)) + 2 log(nK))/σ + ‖θ‖ with n the number of rounds, unless c is given.

    Reference: Zong et al. (2016), Algorithms 2 and 3, Theorem 1.
    Deviates from the paper: the norm of θ stands outside the root, as its proof needs.
    """
    d, K = setting.need_dim("cascade-lin-ucb"), setting.slots
    if c is None:
        nK = setting.need_rounds("cascade-lin-ucb", "c") * K
        c = float(np.sqrt(d * np.log1p(nK / (d * sigma**2)) + 2.0 * np.log(nK)) / sigma + theta_norm)
    radius = c
    explore = Ucb[RidgeState](lambda state, t: np.full(len(t), radius), cap=1.0)
    return Policy(Shared(d), Ridge(d, weight=sigma**-2), explore, TopK(), Cascade())


@policy("ranked-lin-ts", paper="cascade", needs=("features",))
def ranked_lin_ts(setting: Setting, *, sigma: Positive = 1.0) -> Policy[RidgeState]:
    """RankedLinTS: an independent linear Thompson sampler for each slot.

    Slot k takes its own best item that is not yet placed; slots down to the first click are updated,
    each with the reward 1{click here}.

    Reference: Zong et al. (2016), Section 4.2.
    """
    d = setting.need_dim("ranked-lin-ts")
    belief = Ridge(d, weight=sigma**-2, models=setting.slots)
    return Policy(PerSlot(d), belief, Thompson(), GreedyBySlot(), Cascade())
