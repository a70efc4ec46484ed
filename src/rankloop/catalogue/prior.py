"""Policies of paper `prior`: Azizi et al., Overcoming Prior Misspecification in Online Learning to Rank (2023).

Its own algorithms, and the baselines of its experiments.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from rankloop.belief import (
    Beta,
    BetaState,
    Counts,
    CountsState,
    DiagonalLaplace,
    DiagonalNewton,
    DiagonalRidge,
    DiagonalState,
    Fixed,
    Gaussian,
    GaussianState,
    LaplaceState,
    LogisticFrozen,
    LogisticMAP,
    LogisticState,
    NewtonState,
    OnlineNewton,
    OrderState,
    PairwiseOrder,
    RecursiveLaplace,
    Ridge,
    RidgeState,
    SelfWeightedRidge,
    SelfWeightedState,
    Tally,
)
from rankloop.catalogue.params import Fraction, NonNegative, Positive, PositivePerItem, Real
from rankloop.catalogue.registry import policy
from rankloop.design import PerItem, hashed_or_shared, shared_rows
from rankloop.errors import InvalidInput, Unsupported, Words
from rankloop.explore import Blocks, Greedy, Quantile, Schedule, SharedNoise, Thompson, Ucb
from rankloop.feedback import Cascade, SemiBandit
from rankloop.math.links import LOGISTIC
from rankloop.math.logistic import curvature
from rankloop.plan import plan_for
from rankloop.policy import Policy
from rankloop.types import BetaPrior, FloatArray, IntArray, Setting


def _beta_prior(setting: Setting, name: str, a: PositivePerItem | None, b: PositivePerItem | None) -> BetaPrior:
    """Return the Beta prior given as parameters, or else the world's prior."""
    if a is None and b is None:
        return setting.need_prior(name, "; give the policy 'a' and 'b'")
    if a is None or b is None:
        raise Unsupported(f"{name} needs both a and b of its Beta prior, or neither to take the world's.")
    for field, value in (("a", a), ("b", b)):
        if np.size(value) not in (1, setting.items):
            raise InvalidInput(field, Words(f"a list of {np.size(value)}"), f"a number or a list of {setting.items}")
    return BetaPrior(np.asarray(a, dtype=float), np.asarray(b, dtype=float))


@policy("ts-beta", paper="prior", needs=("prior", "lasting"))
def ts_beta(
    setting: Setting, *, a: PositivePerItem | None = None, b: PositivePerItem | None = None
) -> Policy[BetaState]:
    """TS-Beta: Thompson sampling from the Beta posterior of each item.

    Sample Beta(a+s, b+n-s) for every item, n observations and s clicks of it; show the K items of largest sample.

    Args:
        a: the paper's β_{1,i}, first parameter of item i's Beta prior: a number, or one for each item; null for the
            world's prior.
        b: the paper's β_{2,i}, second parameter, in the same form.

    Reference: Azizi et al. (2023), Section 5.1; Kveton et al., On the Value of Prior in Online Learning to Rank (2022).
    """
    prior = _beta_prior(setting, "ts-beta", a, b)
    return Policy(PerItem(), Beta(prior, setting.items), Thompson(), plan_for("cascade", setting), Cascade())


@policy("bayes-ucb", paper="prior", needs=("prior", "lasting"))
def bayes_ucb(
    setting: Setting, *, a: PositivePerItem | None = None, b: PositivePerItem | None = None
) -> Policy[BetaState]:
    """BayesUCB-Beta: rank by the 1 - 1/t quantile of the Beta posterior of each item.

    U = the (1 - 1/t)-quantile of Beta(a+s, b+n-s), n observations and s clicks of the item before round t; show the K
    items of largest U. At t = 1 all items tie.

    Args:
        a: the paper's β_{1,i}, first parameter of item i's Beta prior: a number, or one for each item; null for the
            world's prior.
        b: the paper's β_{2,i}, second parameter, in the same form.

    Reference: Azizi et al. (2023), Section 5.1; Kveton et al., On the Value of Prior in Online Learning to Rank (2022).
    """
    prior = _beta_prior(setting, "bayes-ucb", a, b)
    return Policy(
        PerItem(),
        Beta(prior, setting.items),
        Quantile(lambda t: 1.0 - 1.0 / t),
        plan_for("cascade", setting),
        Cascade(),
    )


@policy("ensemble", paper="prior", needs=("prior", "lasting"), learns=False)
def ensemble(
    setting: Setting, *, a: PositivePerItem | None = None, b: PositivePerItem | None = None
) -> Policy[BetaState]:
    """Ensemble: rank by the prior mean and never learn.

    Show the K items of largest a/(a+b).

    Args:
        a: the paper's β_{1,i}, first parameter of item i's Beta prior: a number, or one for each item; null for the
            world's prior.
        b: the paper's β_{2,i}, second parameter, in the same form.

    Reference: Azizi et al. (2023), Section 4; Kveton et al., On the Value of Prior in Online Learning to Rank (2022).
    """
    prior = _beta_prior(setting, "ensemble", a, b)
    return Policy(PerItem(), Fixed(prior, setting.items), Greedy(), plan_for("cascade", setting), Cascade())


@policy("gts", paper="prior", needs=("lasting",))
def gts(
    setting: Setting,
    *,
    mu0: Real = 0.0,
    sigma0: Positive = 1.0,
    sigma: Positive = 0.5,
    prior: Literal["none", "mean", "full"] = "none",
) -> Policy[GaussianState]:
    """GTS: Thompson sampling from a Gaussian posterior of each item's mean.

    var = 1/(1/σ0² + n/σ²), mean = var·(s/σ² + μ0/σ0²); sample N(mean, var) independently for every item and show the K
    items of largest sample. n is the paper's T_{i,t}, the number of observations, and s their sum ΣY; var and mean are
    its σ̂²_{i,t} and ν̂_{i,t}. Feedback may be any number.

    Args:
        mu0: the paper's μ_0, the prior mean of every item (Algorithm 1, line 1).
        sigma0: the paper's σ_0, the prior standard deviation.
        sigma: the paper's σ, the standard deviation of the observation noise (equation (2)).
        prior: 'mean' (GTS-Pmean) takes μ_0 from the world's Beta prior, 'full' (GTS-P) takes σ_0 as well; 'none' uses
            mu0 and sigma0.

    Deviates from the paper: it gives no value for σ; 0.5 is the sub-Gaussian bound of a Bernoulli variable.

    Reference: Azizi et al. (2023), Algorithm 1, equation (2); Section 5 for GTS-Pmean and GTS-P.
    """
    m: FloatArray | float = mu0
    s: FloatArray | float = sigma0
    if prior != "none":
        beta = setting.need_prior(f"gts with prior '{prior}'")
        total = beta.a + beta.b
        m = beta.a / total
        if prior == "full":
            s = np.sqrt(beta.a * beta.b / (total + 1.0)) / total
    return Policy(PerItem(), Gaussian(setting.items, m, s, sigma), Thompson(), plan_for("cascade", setting), Cascade())


def _ts_cascade_sd(tally: Tally, t: IntArray) -> FloatArray:
    w, n = tally.mean, tally.exposure
    ratio = np.log(t + 1.0)[:, None] / (n + 1.0)
    variance = np.maximum(w * (1.0 - w), 0.0)  # w exceeds 1 where clicks exceed the exposure
    return np.asarray(np.maximum(np.sqrt(variance * ratio), ratio))


@policy("ts-cascade", paper="prior", needs=("lasting",))
def ts_cascade(setting: Setting) -> Policy[CountsState]:
    """TS-Cascade: Gaussian samples that share one standard normal variable.

    w = s/n (0 if n = 0), sd = max(√(w(1-w) log(t+1)/(n+1)), log(t+1)/(n+1)); show the K items of largest w + Z·sd.
    n observations and s clicks of the item before round t; one Z ~ N(0, 1) for all items of a round. The policy has no
    parameters.

    Reference: Zhong et al., Thompson Sampling Algorithms for Cascading Bandits (2021), Algorithm 1.
    """
    return Policy(
        PerItem(), Counts(setting.items), SharedNoise(_ts_cascade_sd), plan_for("cascade", setting), Cascade()
    )


@policy("toprank", paper="prior", feedback="semi-bandit", needs=("lasting",), practical="gts")
def toprank(setting: Setting, *, delta: Fraction | None = None) -> Policy[OrderState]:
    """TopRank: keep items in ordered blocks, and split a block once the clicks of its items differ significantly.

    The list is the blocks in order, each shuffled, cut at K. For i, j in one block U = click_i - click_j (0 where not
    shown or not clicked), S += U, N += |U|; j moves below i once S ≥ √(2N log(c√N/δ)), c = 4√(2/π)/erf(√2) ≈ 3.34. Each
    block holds the items that no remaining item is known to beat; if such relations form a cycle, all remaining items
    form one block.

    Args:
        delta: the paper's δ, the probability that the confidence bounds fail; null for 1/rounds.

    Reference: Lattimore et al., TopRank: A Practical Algorithm for Online Stochastic Ranking (2018), Algorithm 1.
    """
    if delta is None:
        delta = 1.0 / setting.need_rounds("toprank", "delta")
    belief = PairwiseOrder(setting.items, delta, setting.used)
    return Policy(PerItem(), belief, Blocks(), plan_for("semi-bandit", setting, link=None), SemiBandit())


def _beta_t(setting: Setting, name: str, lam: float, instead: str) -> Schedule:
    """Return the paper's β_t(δ_t) (Section 3.2) as a function of the round, with S = 1 and σ² = 0.25."""
    d, T = hashed_or_shared(setting, name).unknowns, setting.need_rounds(name, instead)
    delta = 1.0 / (T * (np.log2(T) + 2.0))

    def beta(t: IntArray) -> FloatArray:
        log_delta_t = np.log(delta) - np.log(2.0) * np.maximum(1.0, np.ceil(np.log2(t)))
        log_det = 0.5 * d * np.log((lam + t) / lam)
        return np.asarray(0.25 * np.sqrt(2.0 * (log_det - log_delta_t)) + np.sqrt(lam))

    return beta


@policy("lin-ts-ltr", paper="prior", needs=("features",))
def lin_ts_ltr(
    setting: Setting,
    *,
    mode: Literal["practical", "paper"] = "practical",
    lam: Positive | None = None,
    scale: NonNegative | None = None,
) -> Policy[RidgeState] | Policy[DiagonalState]:
    """LinTS-LTR: linear Thompson sampling with a stated prior and noise.

    V = λI + Σxxᵀ, θ̃ ~ N(V⁻¹Σxy, s_t²V⁻¹); show the K items of largest xᵀθ̃. Feedback may be any number.
    mode 'paper': s_t = β_t(δ_t) = σ²√(2 log((λ+t)^{d/2} λ^{-d/2}/δ_t)) + √λ S for d features and T rounds, with S = 1,
    σ² = 0.25, δ_t = δ/2^max(1, ⌈log2 t⌉), δ = 1/(T(log2 T + 2)).
    mode 'practical': s_t = 0.5 and λ = 0.25, that is prior N(0, I) and noise of standard deviation ½.
    Hashed rows keep the diagonal of V⁻¹ only, by assumed-density filtering; d is then the positions of a row.

    Args:
        mode: 'paper' uses the paper's β_t(δ_t); 'practical' uses the constants that the authors run.
        lam: the paper's λ, the ridge (Algorithm 2); null for 0.25 in mode 'practical' and 1e-4 in mode 'paper'.
        scale: a constant that replaces s_t, the paper's β_t(δ_t); null for that of the mode.

    Deviates from the paper: the logarithms in δ and δ_t are to base 2; the default mode is 'practical'.

    Reference: Azizi et al. (2023), Section 3.2, Algorithm 2; Section 5 for S and λ.
    """
    x = hashed_or_shared(setting, "lin-ts-ltr")
    lam = lam or (0.25 if mode == "practical" else 1e-4)
    s: Schedule | float | None = scale
    if s is None:
        s = 0.5 if mode == "practical" else _beta_t(setting, "lin-ts-ltr", lam, "scale")
    plan = plan_for("cascade", setting)
    if setting.hashed is not None:
        return Policy(x, DiagonalRidge(x.unknowns, setting.hashed, ridge=lam), Thompson(s), plan, Cascade())
    return Policy(x, Ridge(x.width, ridge=lam), Thompson(s), plan, Cascade())


@policy("lin-ts-cascade", paper="prior", needs=("features",), practical="lin-ts-ltr")
def lin_ts_cascade(
    setting: Setting, *, lam: NonNegative = 1.0, R: NonNegative = 0.25
) -> Policy[RidgeState] | Policy[DiagonalState]:
    """LinTS-Cascade: linear Thompson sampling whose spread is inflated as the regret analysis requires.

    M = I + Σxxᵀ, θ ~ N(M⁻¹Σxy, s_t²M⁻¹), s_t = λ·3R√(d log t)·√K for d features; show the K items of largest xᵀθ.
    At t = 1 the spread is 0 and all items tie.
    Hashed rows keep the diagonal of M⁻¹ only, by assumed-density filtering; d is then the positions of a row.

    Args:
        lam: the paper's λ, the factor by which the spread is inflated.
        R: the paper's R, the sub-Gaussian constant of the observation noise.

    Reference: Zhong et al., Thompson Sampling Algorithms for Cascading Bandits (2021), Algorithm 3.
    """
    x = hashed_or_shared(setting, "lin-ts-cascade")
    d = x.unknowns
    factor = lam * 3.0 * R * np.sqrt(setting.slots * d)
    plan, spread = plan_for("cascade", setting), lambda t: factor * np.sqrt(np.log(t))
    if setting.hashed is not None:
        return Policy(x, DiagonalRidge(d, setting.hashed), Thompson(spread), plan, Cascade())
    return Policy(x, Ridge(d), Thompson(spread), plan, Cascade())


@policy("cascade-woful", paper="prior", needs=("features",), practical="lin-ts-ltr")
def cascade_woful(setting: Setting) -> Policy[SelfWeightedState]:
    """CascadeWOFUL: variance-aware linear UCB.

    A Hoeffding ridge regression gives U_H = xᵀθ_H + α‖x‖. A second ridge regression weighs each observation by 1/v,
    v = clip(U_H, 1/K, 1); show the K items of largest xᵀθ_B + β‖x‖. Norms are in the inverse of each regression's own
    matrix. With d features, K slots, m observations (at least 1), λ = S = 1 and δ = 1/rounds:
    α = √λS + ½√(d log(1+m/(dλ)) + 2 log(1/δ)),
    β = √λS + 8√(d log(1+Km/(dλ)) log(4m²/δ)) + 4√K log(4m²/δ).
    The policy has no parameters.

    Reference: Vial et al., Minimax Regret for Cascading Bandits (2022), CascadeWOFUL.
    """
    x = shared_rows(setting, "cascade-woful")
    d = x.width
    T = setting.need_rounds("cascade-woful", "a horizon")
    belief = SelfWeightedRidge(d, setting.slots, ridge=1.0, norm=1.0, delta=1.0 / T)
    explore = Ucb[SelfWeightedState](lambda state, t: belief.beta(state.observations))
    return Policy(x, belief, explore, plan_for("cascade", setting), Cascade())


@policy("log-ts-ltr", paper="prior", needs=("features",))
def log_ts_ltr(
    setting: Setting, *, mode: Literal["laplace", "paper"] = "laplace"
) -> Policy[LogisticState] | Policy[LaplaceState] | Policy[DiagonalState]:
    """LogTS-LTR: logistic Thompson sampling from a Gaussian approximation of the posterior.

    Sample θ̃ and show the K items of largest xᵀθ̃; μ = σ(xᵀθ̂) is the paper's link.
    mode 'laplace': θ̃ ~ N(θ_MAP, H⁻¹), H the Hessian at θ_MAP, ridge 1.
    mode 'paper': θ̃ ~ N(θ̂, (β_t(δ_t)/κ)²V⁻¹), V = λI + Σμ(1-μ)xxᵀ with μ at the θ̂ of the round of the observation,
    never refreshed; λ = 1e-4, κ = σ′(S), S = 1, β_t(δ_t) as in lin-ts-ltr.
    Where rows do not return (a context, features that change, or new items in every round), no rows are stored: both
    modes use the recursive Laplace approximation, V += μ(1-μ)xxᵀ, θ̂ += V⁻¹x(y - μ) for each observation, as H and V.
    Hashed rows keep the diagonal of V⁻¹ only, by assumed-density filtering; d is then the positions of a row.

    Args:
        mode: 'paper' is the paper's Algorithm 3; 'laplace' samples from the Laplace approximation itself.

    Deviates from the paper: θ̂ has a ridge (equation (3) has none), without which it need not exist; the default mode
    is 'laplace', without the factor β_t(δ_t)/κ; rows that do not return are not refitted.

    Reference: Azizi et al. (2023), Section 3.3, Algorithm 3, equation (3).
    """
    x = hashed_or_shared(setting, "log-ts-ltr")
    d = x.width
    plan = plan_for("cascade", setting, link=LOGISTIC)
    if mode == "laplace":
        if setting.hashed is not None:
            return Policy(x, DiagonalLaplace(x.unknowns, setting.hashed), Thompson(), plan, Cascade())
        if setting.rows_return:
            return Policy(x, LogisticMAP(d, setting.items), Thompson(), plan, Cascade())
        return Policy(x, RecursiveLaplace(d), Thompson(), plan, Cascade())
    lam, kappa = 1e-4, float(curvature(1.0))
    beta = _beta_t(setting, "log-ts-ltr", lam, "mode 'laplace'")
    explore = Thompson(lambda t: beta(t) / kappa)
    if setting.hashed is not None:
        return Policy(x, DiagonalLaplace(x.unknowns, setting.hashed, ridge=lam), explore, plan, Cascade())
    if setting.rows_return:
        return Policy(x, LogisticFrozen(d, setting.items, ridge=lam), explore, plan, Cascade())
    return Policy(x, RecursiveLaplace(d, ridge=lam), explore, plan, Cascade())


@policy("log-ts-newton", paper="prior", needs=("features",))
def log_ts_newton(setting: Setting, *, alpha: Positive | None = None) -> Policy[NewtonState] | Policy[DiagonalState]:
    """LogTS with Newton steps: logistic Thompson sampling at a cost of O(d²) for each observation.

    V = K·I at first, θ̂ = 0; sample θ̃ ~ N(θ̂, V⁻¹) and show the K items of largest xᵀθ̃. Then for each observed slot
    in order, o = +1 for a click and -1 otherwise: V += xxᵀ, θ̂ += α σ(-o θ̂ᵀx) o V⁻¹x. o is the paper's Ō.
    Hashed rows keep the diagonal of V⁻¹ only, by assumed-density filtering.

    Args:
        alpha: the paper's step size α (Algorithm 4); null for 1/κ, κ = σ′(1).

    Deviates from the paper: it gives no value for α.

    Reference: Azizi et al. (2023), Appendix D, Algorithm 4.
    """
    x = hashed_or_shared(setting, "log-ts-newton")
    rate = alpha if alpha is not None else float(1.0 / curvature(1.0))
    ridge, plan = float(setting.slots), plan_for("cascade", setting, link=LOGISTIC)
    if setting.hashed is not None:
        diagonal = DiagonalNewton(x.unknowns, setting.hashed, ridge=ridge, rate=rate)
        return Policy(x, diagonal, Thompson(), plan, Cascade())
    return Policy(x, OnlineNewton(x.width, ridge=ridge, rate=rate), Thompson(), plan, Cascade())
