"""Paper `prior`: Azizi et al., Overcoming Prior Misspecification in Online Learning to Rank (2023).

Its algorithms, and the baselines that its experiments compare them with.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from rankloop.belief import (
    Beta,
    BetaState,
    Counts,
    CountsState,
    Fixed,
    Gaussian,
    GaussianState,
    LogisticFrozen,
    LogisticMAP,
    LogisticState,
    NewtonState,
    OnlineNewton,
    OrderState,
    PairwiseOrder,
    Ridge,
    RidgeState,
    SelfWeightedRidge,
    SelfWeightedState,
    Tally,
)
from rankloop.catalogue.params import Fraction, NonNegative, Positive, PositivePerItem, Real
from rankloop.catalogue.registry import policy
from rankloop.design import PerItem, Shared
from rankloop.errors import InvalidInput, Unsupported, Words
from rankloop.explore import Blocks, Greedy, Quantile, Schedule, SharedNoise, Thompson, Ucb
from rankloop.feedback import Cascade, SemiBandit
from rankloop.math.logistic import curvature
from rankloop.plan import TopK
from rankloop.policy import Policy
from rankloop.types import BetaPrior, FloatArray, IntArray, Setting


def _beta_prior(setting: Setting, name: str, a: PositivePerItem | None, b: PositivePerItem | None) -> BetaPrior:
    """The prior that a policy is given, or else the world's."""
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
    """TS-Beta: Thompson sampling with the Beta posterior of each item.

    Sample Beta(a+s, b+n-s) for every item; the K largest. a and b default to the world's prior.

    Reference: Azizi et al. (2023), Section 5.1; Kveton et al., On the Value of Prior (2022).
    """
    prior = _beta_prior(setting, "ts-beta", a, b)
    return Policy(PerItem(), Beta(prior, setting.items), Thompson(), TopK(), Cascade())


@policy("bayes-ucb", paper="prior", needs=("prior", "lasting"))
def bayes_ucb(
    setting: Setting, *, a: PositivePerItem | None = None, b: PositivePerItem | None = None
) -> Policy[BetaState]:
    """BayesUCB-Beta: the 1 - 1/t quantile of the Beta posterior of each item.

    At t = 1 all items tie. a and b default to the world's prior.

    Reference: Azizi et al. (2023), Section 5.1; Kveton et al., On the Value of Prior (2022).
    """
    prior = _beta_prior(setting, "bayes-ucb", a, b)
    return Policy(PerItem(), Beta(prior, setting.items), Quantile(lambda t: 1.0 - 1.0 / t), TopK(), Cascade())


@policy("ensemble", paper="prior", needs=("prior", "lasting"), learns=False)
def ensemble(
    setting: Setting, *, a: PositivePerItem | None = None, b: PositivePerItem | None = None
) -> Policy[BetaState]:
    """Ensemble: ranks by the prior mean a/(a+b) and never learns.

    a and b default to the world's prior.

    Reference: Azizi et al. (2023), Section 4; Kveton et al., On the Value of Prior (2022).
    """
    prior = _beta_prior(setting, "ensemble", a, b)
    return Policy(PerItem(), Fixed(prior, setting.items), Greedy(), TopK(), Cascade())


@policy("gts", paper="prior", needs=("lasting",))
def gts(
    setting: Setting,
    *,
    mu0: Real = 0.0,
    sigma0: Positive = 1.0,
    sigma: Positive = 0.5,
    prior: Literal["none", "mean", "full"] = "none",
) -> Policy[GaussianState]:
    """GTS: Thompson sampling with a Gaussian posterior of each item's mean.

    var = 1/(1/σ0² + n/σ²), mean = var·(s/σ² + μ0/σ0²), independent normal samples; the K largest.
    prior 'mean' (GTS-Pmean) takes μ0 from the world's Beta prior, 'full' (GTS-P) also σ0.
    Feedback may be any number.

    Reference: Azizi et al. (2023), Algorithm 1, equation (2).
    Deviates from the paper: the noise σ is not given there; 0.5 is the sub-Gaussian bound of a
    Bernoulli variable. σ0 is a standard deviation.
    """
    m: FloatArray | float = mu0
    s: FloatArray | float = sigma0
    if prior != "none":
        beta = setting.need_prior(f"gts with prior '{prior}'")
        total = beta.a + beta.b
        m = beta.a / total
        if prior == "full":
            s = np.sqrt(beta.a * beta.b / (total + 1.0)) / total
    return Policy(PerItem(), Gaussian(setting.items, m, s, sigma), Thompson(), TopK(), Cascade())


def _ts_cascade_sd(tally: Tally, t: IntArray) -> FloatArray:
    w, n = tally.mean, tally.exposure
    ratio = np.log(t + 1.0)[:, None] / (n + 1.0)
    variance = np.maximum(w * (1.0 - w), 0.0)  # w exceeds 1 where a click was luckier than its exposure
    return np.asarray(np.maximum(np.sqrt(variance * ratio), ratio))


@policy("ts-cascade", paper="prior", needs=("lasting",))
def ts_cascade(setting: Setting) -> Policy[CountsState]:
    """TS-Cascade: Gaussian samples that share one standard normal variable.

    w = s/n (0 if n = 0), sd = max(√(w(1-w) log(t+1)/(n+1)), log(t+1)/(n+1)), score w + Z·sd with
    one Z for all items of a round.

    Reference: Zhong et al., Thompson Sampling Algorithms for Cascading Bandits (2021), Algorithm 1.
    """
    return Policy(PerItem(), Counts(setting.items), SharedNoise(_ts_cascade_sd), TopK(), Cascade())


@policy("toprank", paper="prior", feedback="semi-bandit", needs=("lasting",))
def toprank(setting: Setting, *, delta: Fraction | None = None) -> Policy[OrderState]:
    """TopRank: blocks of items, split when a click difference is beyond doubt.

    The list is the blocks in order, each shuffled, cut at K. For i, j in one block U = click_i - click_j,
    S += U, N += |U|; j goes below i once S ≥ √(2N log(c√N/δ)), c = 4√(2/π)/erf(√2). Blocks are peeled
    by "beaten by nobody left"; in a cycle all that are left form one block. δ defaults to 1/rounds.

    Reference: Lattimore et al., TopRank: A Practical Algorithm for Online Stochastic Ranking (2018).
    """
    if delta is None:
        delta = 1.0 / setting.need_rounds("toprank", "delta")
    return Policy(PerItem(), PairwiseOrder(setting.items, delta, setting.used), Blocks(), TopK(), SemiBandit())


def _beta_t(setting: Setting, name: str, lam: float, instead: str) -> Schedule:
    """β_t of paper `prior`, Section 3.2, with S = 1 and σ² = 0.25."""
    d, T = setting.need_dim(name), setting.need_rounds(name, instead)
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
) -> Policy[RidgeState]:
    """LinTS-LTR: linear Thompson sampling with a stated prior and noise.

    V = λI + Σxxᵀ, θ̃ ~ N(V⁻¹Σxy, s_t²V⁻¹); the K largest xᵀθ̃. Feedback may be any number.
    mode 'practical': λ = 0.25, s = 0.5, that is prior N(0, I) and noise with standard deviation ½.
    mode 'paper': λ = 1e-4, s_t = β_t = σ²√(2 log((λ+t)^{d/2} λ^{-d/2}/δ_t)) + √λ S with S = 1, σ² = 0.25,
    δ_t = δ/2^max(1, ⌈log2 t⌉), δ = 1/(T(log2 T + 2)). `lam` and `scale` replace λ and s_t.

    Reference: Azizi et al. (2023), Algorithm 2.
    Deviates from the paper: logarithms of δ are to base 2; 'practical' is what the authors run.
    """
    d = setting.need_dim("lin-ts-ltr")
    lam = lam or (0.25 if mode == "practical" else 1e-4)
    s: Schedule | float | None = scale
    if s is None:
        s = 0.5 if mode == "practical" else _beta_t(setting, "lin-ts-ltr", lam, "scale")
    return Policy(Shared(d), Ridge(d, ridge=lam), Thompson(s), TopK(), Cascade())


@policy("lin-ts-cascade", paper="prior", needs=("features",))
def lin_ts_cascade(setting: Setting, *, lam: NonNegative = 1.0, R: NonNegative = 0.25) -> Policy[RidgeState]:
    """LinTS-Cascade: linear Thompson sampling with a theoretical inflation of the spread.

    M = I + Σxxᵀ, sample N(M⁻¹Σxy, s_t²M⁻¹) with s_t = λ·3R√(d log t)·√K, 0 at t = 1 where all tie.

    Reference: Zhong et al., Thompson Sampling Algorithms for Cascading Bandits (2021), Algorithm 3.
    """
    d = setting.need_dim("lin-ts-cascade")
    factor = lam * 3.0 * R * np.sqrt(setting.slots * d)
    return Policy(Shared(d), Ridge(d), Thompson(lambda t: factor * np.sqrt(np.log(t))), TopK(), Cascade())


@policy("cascade-woful", paper="prior", needs=("features",))
def cascade_woful(setting: Setting) -> Policy[SelfWeightedState]:
    """CascadeWOFUL: variance-aware linear UCB.

    A Hoeffding ridge gives U_H = xᵀθ_H + α‖x‖; an observation has weight 1/v, v = clip(U_H, 1/K, 1), in
    a second ridge; the K largest xᵀθ_B + β‖x‖. With m observations (at least 1), λ = S = 1, δ = 1/rounds:
    α = √λS + ½√(d log(1+m/(dλ)) + 2 log(1/δ)),
    β = √λS + 8√(d log(1+Km/(dλ)) log(4m²/δ)) + 4√K log(4m²/δ).

    Reference: Vial et al., Minimax Regret for Cascading Bandits (2022), CascadeWOFUL.
    """
    d = setting.need_dim("cascade-woful")
    T = setting.need_rounds("cascade-woful", "a horizon")
    belief = SelfWeightedRidge(d, setting.slots, ridge=1.0, norm=1.0, delta=1.0 / T)
    explore = Ucb[SelfWeightedState](lambda state, t: belief.beta(state.observations))
    return Policy(Shared(d), belief, explore, TopK(), Cascade())


@policy("log-ts-ltr", paper="prior", needs=("features", "lasting"))
def log_ts_ltr(setting: Setting, *, mode: Literal["laplace", "paper"] = "laplace") -> Policy[LogisticState]:
    """LogTS-LTR: logistic Thompson sampling from a Gaussian approximation of the posterior.

    mode 'laplace': ridge 1, θ̃ ~ N(θ_MAP, H⁻¹), H the Hessian at θ_MAP.
    mode 'paper': ridge λ = 1e-4, V = λI + Σμ(1-μ)xxᵀ with μ at the θ̂ of the round it was seen, never
    refreshed, θ̃ ~ N(θ̂, (β_t/κ)²V⁻¹), κ = σ′(S), S = 1, β_t as in lin-ts-ltr. The K largest xᵀθ̃.

    Reference: Azizi et al. (2023), Algorithm 3, equation (3).
    Deviates from the paper: the estimate has a ridge, without which it need not exist.
    """
    d = setting.need_dim("log-ts-ltr")
    if mode == "laplace":
        return Policy(Shared(d), LogisticMAP(d, setting.items), Thompson(), TopK(), Cascade())
    lam, kappa = 1e-4, float(curvature(1.0))
    beta = _beta_t(setting, "log-ts-ltr", lam, "mode 'laplace'")
    belief = LogisticFrozen(d, setting.items, ridge=lam)
    return Policy(Shared(d), belief, Thompson(lambda t: beta(t) / kappa), TopK(), Cascade())


@policy("log-ts-newton", paper="prior", needs=("features",))
def log_ts_newton(setting: Setting, *, alpha: Positive | None = None) -> Policy[NewtonState]:
    """LogTS with Newton steps: logistic Thompson sampling in O(d²) for an observation.

    V_0 = K·I; sample N(θ̂, V⁻¹); for each observed slot in order, o = ±1: V += xxᵀ, then
    θ̂ += α σ(-o θ̂ᵀx) o V⁻¹x. α defaults to 1/κ, κ = σ′(1).

    Reference: Azizi et al. (2023), Appendix D, Algorithm 4.
    """
    d = setting.need_dim("log-ts-newton")
    rate = alpha if alpha is not None else float(1.0 / curvature(1.0))
    belief = OnlineNewton(d, ridge=float(setting.slots), rate=rate)
    return Policy(Shared(d), belief, Thompson(), TopK(), Cascade())
