"""Exploration rules against their formulas, one number at a time."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from helpers import RARE, Log, agree, assert_uniform, build, count_lists, feed, make_log
from rankloop.belief import Tally
from rankloop.belief.beta import BetaState
from rankloop.belief.order import OrderState
from rankloop.explore import Blocks, EpsilonList, Greedy, Quantile, Ucb, kl_ucb, ucb1
from rankloop.policy import Policy, PolicyState
from rankloop.types import BetaPrior, FloatArray, IntArray, Request, Rows, Setting

ALL = Rows(model=slice(None))


def tally(clicks: list[float], n: list[float]) -> Tally:
    """Counts of one learner."""
    s, e = np.array([clicks], dtype=float), np.array([n], dtype=float)
    return Tally(s, e, e)


def at(*rounds: int) -> IntArray:
    """Rounds t [B]."""
    return np.array(rounds, dtype=np.int64)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def scores_of(policy: Policy[Any], state: PolicyState[Any], request: Request, t: int, seed: int = 0) -> FloatArray:
    """Scores of all items for the first slot, had every learner reached round t."""
    rows = policy.design.rows(request, np.empty((request.learners, 0), dtype=np.int64), 0)
    score = policy.explore(state.belief, np.full(request.learners, t), rng(seed))
    return score(rows)


# ---------------------------------------------------------------------------- bounds of counts


@pytest.mark.parametrize("t", [1, 2, 3, 10, 100_000])
def test_ucb1(t: int) -> None:
    s, n = [0.0, 1, 3, 7], [1.0, 1, 4, 20]
    log_t = math.log(t - 1) if t > 1 else 0.0
    expected = [s[i] / n[i] + math.sqrt(1.5 * log_t / n[i]) for i in range(4)]
    agree(ucb1(tally(s, n), at(t))[0], expected, 1e-14)


def test_ucb1_has_no_radius_in_the_first_two_rounds() -> None:
    """Log 0 := 0 and log 1 = 0."""
    for t in (1, 2):
        assert ucb1(tally([1.0, 2.0], [4.0, 2.0]), at(t)).tolist() == [[1 / 4, 1.0]]


@pytest.mark.parametrize("bound", [ucb1, kl_ucb])
@pytest.mark.parametrize("t", [1, 2, 50])
def test_an_unobserved_item_has_no_upper_bound(bound: Any, t: int) -> None:
    upper = bound(tally([0.0, 0.0, 1.0], [0.0, 3.0, 0.0]), at(t))[0]
    assert upper[0] == math.inf
    assert math.isfinite(upper[1])
    assert upper[2] == math.inf


def test_each_learner_has_its_own_round() -> None:
    s, n = np.full((3, 1), 2.0), np.full((3, 1), 5.0)
    for bound in (ucb1, kl_ucb):
        together = bound(Tally(s, n, n), at(3, 40, 500))[:, 0]
        alone = [bound(tally([2.0], [5.0]), at(t))[0, 0] for t in (3, 40, 500)]
        assert together.tolist() == alone


def kl_budget(t: int) -> float:
    """max(0, log t + 3 log log t), 0 at t = 1."""
    return max(0.0, math.log(t) + 3 * math.log(math.log(t))) if t > 1 else 0.0


def divergence(p: float, q: float) -> float:
    """KL(p‖q) of Bernoulli variables, 0 log 0 = 0."""
    total = 0.0
    for a, b in ((p, q), (1 - p, 1 - q)):
        if a > 0:
            total += a * math.log(a / b) if b > 0 else math.inf
    return total


@pytest.mark.parametrize("t", [1, 2, 3, 10, 1000, 10**6])
@pytest.mark.parametrize("s, n", [(0, 1), (1, 2), (1, 7), (3, 30), (29, 30), (200, 1000), (5, 5)])
def test_kl_ucb_equals_the_best_point_of_a_fine_grid(s: int, n: int, t: int) -> None:
    points = 200_001
    p, budget = s / n, kl_budget(t)
    q = np.linspace(p, 1.0, points)
    with np.errstate(divide="ignore", invalid="ignore"):
        miss = (1 - p) * np.log((1 - p) / (1 - q)) if p < 1 else np.zeros(points)
        hit = p * np.log(p / q) if p > 0 else np.zeros(points)
    best = q[n * (hit + miss) <= budget + 1e-12].max(initial=p)
    spacing = (1 - p) / (points - 1)
    assert best - 1e-9 <= kl_ucb(tally([s], [n]), at(t))[0, 0] <= best + spacing + 1e-9


@given(st.integers(1, 500), st.floats(0.0, 1.0), st.integers(1, 10**7))
@settings(deadline=None, max_examples=300)
def test_kl_ucb_is_where_the_divergence_reaches_the_budget(n: int, share: float, t: int) -> None:
    s = round(share * n)
    p, budget, slack, rounding = s / n, kl_budget(t), 1e-11, 1e-14
    upper = float(kl_ucb(tally([s], [n]), at(t))[0, 0])
    assert p <= upper <= 1.0
    if upper - slack > p:
        assert n * (divergence(p, upper - slack) - rounding) <= budget
    if upper + slack < 1.0:
        assert n * (divergence(p, upper + slack) + rounding) >= budget


def test_kl_ucb_spends_exactly_the_budget() -> None:
    for s, n, t in [(1, 10, 5), (3, 10, 20), (50, 200, 1000), (7, 9, 30)]:
        upper = float(kl_ucb(tally([s], [n]), at(t))[0, 0])
        agree(n * divergence(s / n, upper), kl_budget(t), 1e-9)


def test_kl_ucb_in_closed_form_at_the_ends() -> None:
    """Without a click KL(0‖q) = -log(1-q), so U = 1 - exp(-budget/n); with nothing but clicks U = 1."""
    for n in (1, 5, 1000):
        for t in (3, 10, 10**6):
            agree(kl_ucb(tally([0], [n]), at(t))[0, 0], -math.expm1(-kl_budget(t) / n), 1e-10)
        for t in (1, 2, 3, 10**6):
            assert kl_ucb(tally([n], [n]), at(t))[0, 0] == 1.0


@pytest.mark.parametrize("t", [1, 2])
def test_kl_ucb_is_the_mean_while_the_budget_is_0(t: int) -> None:
    """Log 2 + 3 log log 2 < 0, and the budget at t = 1 is 0 by definition."""
    agree(kl_ucb(tally([0, 1, 3, 9], [4, 4, 4, 10]), at(t))[0], [0 / 4, 1 / 4, 3 / 4, 9 / 10], 1e-12)


@given(st.integers(1, 200), st.floats(0.0, 1.0), st.integers(1, 10**5), st.integers(0, 10**5))
@settings(deadline=None)
def test_kl_ucb_grows_with_the_round_and_shrinks_with_observations(n: int, share: float, t: int, more: int) -> None:
    s = round(share * n)
    upper = kl_ucb(tally([s], [n]), at(t))[0, 0]
    assert upper <= kl_ucb(tally([s], [n]), at(t + more))[0, 0] + 1e-12
    assert kl_ucb(tally([2 * s], [2 * n]), at(t))[0, 0] <= upper + 1e-12


def test_the_catalogue_uses_these_bounds() -> None:
    log = make_log(30, seed=1)
    for id, bound in (("cascade-ucb1", ucb1), ("cascade-kl-ucb", kl_ucb)):
        policy = build(id, log.setting())
        state = feed(policy, log)
        for b in range(2):
            s, n = log.counts(b)
            agree(scores_of(policy, state, log.request, 31)[b], bound(tally(list(s), list(n)), at(31))[0], 1e-14)


# ---------------------------------------------------------------------------- quantiles


@pytest.mark.parametrize("t", [1, 2, 5, 1000])
def test_bayes_ucb_is_the_quantile_of_the_beta_posterior(t: int) -> None:
    log = make_log(30, seed=2)
    prior = BetaPrior(np.array([1.0, 2, 3, 1, 5, 2]), np.array([10.0, 1, 3, 4, 5, 9]))
    policy = build("bayes-ucb", log.setting(prior=prior))
    scores = scores_of(policy, feed(policy, log), log.request, t)
    for b in range(2):
        s, n = log.counts(b)
        agree(scores[b], stats.beta.ppf(1 - 1 / t, prior.a + s, prior.b + n - s), 1e-9)


def test_bayes_ucb_ties_all_items_in_the_first_round() -> None:
    prior = BetaPrior(np.array([1.0, 5.0]), np.array([9.0, 1.0]))
    policy = build("bayes-ucb", Setting(2, 1, prior=prior))
    assert scores_of(policy, policy.init(1), Request(1, 2, 1), 1).tolist() == [[0.0, 0.0]]


def test_quantile_takes_the_level_of_each_learners_round() -> None:
    state = BetaState(np.array([[2.0, 3.0]] * 2), np.array([[5.0, 1.0]] * 2))
    scores = Quantile(lambda t: 1.0 / t)(state, at(2, 4), rng())(ALL)
    expected = [[stats.beta.ppf(q, 2, 5), stats.beta.ppf(q, 3, 1)] for q in (1 / 2, 1 / 4)]
    agree(scores, expected, 1e-9)


# ---------------------------------------------------------------------------- TS-Cascade


def ts_cascade_parts(log: Log, t: int) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of each learner and item."""
    w, sd = np.zeros((2, 6)), np.zeros((2, 6))
    for b in range(2):
        s, n = log.counts(b)
        for i in range(6):
            w[b, i] = s[i] / n[i] if n[i] else 0.0
            ratio = math.log(t + 1) / (n[i] + 1)
            sd[b, i] = max(math.sqrt(w[b, i] * (1 - w[b, i]) * ratio), ratio)
    return w, sd


@pytest.mark.parametrize("rounds, t", [(0, 1), (4, 5), (300, 301), (4, 10**6)])
def test_ts_cascade_moves_all_items_by_one_shared_number(rounds: int, t: int) -> None:
    log = make_log(rounds, seed=3)
    policy = build("ts-cascade", log.setting())
    state = feed(policy, log)
    w, sd = ts_cascade_parts(log, t)
    scores = scores_of(policy, state, log.request, t)
    Z = (scores[:, 0] - w[:, 0]) / sd[:, 0]
    agree(scores, w + Z[:, None] * sd, 1e-12)
    assert Z[0] != Z[1]


def test_ts_cascade_scores_differ_by_a_fixed_multiple() -> None:
    """Whatever is drawn, (U_i - w_i)/sd_i is the same for all items, so score differences are affine in one Z."""
    log = make_log(10, seed=4)
    policy = build("ts-cascade", log.setting())
    state = feed(policy, log)
    w, sd = ts_cascade_parts(log, 11)
    for seed in range(10):
        noise = scores_of(policy, state, log.request, 11, seed) - w
        agree(noise * sd[:, :1], noise[:, :1] * sd, 1e-12)


def test_ts_cascade_draws_standard_normal_numbers() -> None:
    """Kolmogorov-Smirnov with 20,000 learners; it fails for one seed in 10,000."""
    policy = build("ts-cascade", Setting(2, 1))
    scores = scores_of(policy, policy.init(20_000), Request(20_000, 2, 1), 1)
    assert stats.kstest(scores[:, 0] / math.log(2), "norm").pvalue > RARE  # w = 0, sd = log(t+1)/(0+1)


# ---------------------------------------------------------------------------- linear radii and scales


def assert_ucb(policy: Policy[Any], log: Log, t: int, radius: float, cap: float) -> None:
    state = feed(policy, log)
    rows = Rows(model=0, x=log.x)
    upper = state.belief.mean(rows) + radius * state.belief.width(rows)
    agree(scores_of(policy, state, log.request, t), np.minimum(upper, cap), 1e-12)


@pytest.mark.parametrize("sigma, norm", [(1.0, 1.0), (0.5, 1.0), (2.0, 0.0)])
def test_cascade_lin_ucb_radius(sigma: float, norm: float) -> None:
    log = replace(make_log(2000, seed=5, learners=1), request=Request(1, 6, 3, make_log(1, seed=5).x / 3))
    n, K, d = 2000, 3, 3
    c = math.sqrt(d * math.log(1 + n * K / (d * sigma**2)) + 2 * math.log(n * K)) / sigma + norm
    policy = build("cascade-lin-ucb", log.setting(), sigma=sigma, theta_norm=norm)
    assert_ucb(policy, log, 7, c, cap=1.0)
    assert (scores_of(policy, feed(policy, log), log.request, 7) < 1.0).any()  # not every bound is cut


def test_cascade_lin_ucb_with_a_given_radius_needs_no_horizon() -> None:
    log = make_log(20, seed=6)
    policy = build("cascade-lin-ucb", replace(log.setting(), rounds=None), c=0.3)
    assert_ucb(policy, log, 21, 0.3, cap=1.0)


def test_cascade_lin_ucb_is_at_most_1() -> None:
    log = make_log(0, seed=7)
    policy = build("cascade-lin-ucb", replace(log.setting(), rounds=100), c=1e6)
    assert scores_of(policy, policy.init(2), log.request, 1).max() == 1.0


def test_a_radius_may_differ_between_learners() -> None:
    log = make_log(20, seed=8)
    policy = build("cascade-lin-ts", log.setting())
    state, rows = feed(policy, log).belief, Rows(model=0, x=log.x)
    score = Ucb[Any](lambda state, t: np.array([0.0, 2.0]) * t)(state, at(5, 7), rng())
    agree(score(rows)[0], state.mean(rows)[0], 1e-12)
    agree(score(rows)[1], state.mean(rows)[1] + 2.0 * 7 * state.width(rows)[1], 1e-12)


@pytest.mark.parametrize("rounds", [0, 1, 60])
def test_cascade_woful_radius_depends_on_the_observations(rounds: int) -> None:
    log = make_log(rounds, seed=9, learners=1)
    T, K, d = 500, 3, 3
    m = max(1, len(log.seen(0)))
    log_delta = math.log(4 * m**2 * T)
    beta = 1 + 8 * math.sqrt(d * math.log(1 + K * m / d) * log_delta) + 4 * math.sqrt(K) * log_delta
    policy = build("cascade-woful", replace(log.setting(), rounds=T))
    assert_ucb(policy, log, rounds + 1, beta, cap=math.inf)


def beta_t(t: int, T: int, d: int, lam: float) -> float:
    """σ²√(2 log((λ+t)^(d/2) λ^(-d/2) / δ_t)) + √λ·S with S = 1, σ² = 0.25, δ = 1/(T(log2 T + 2))."""
    delta = 1 / (T * (math.log2(T) + 2))
    delta_t = delta / 2 ** max(1, math.ceil(math.log2(t)))
    return 0.25 * math.sqrt(2 * math.log((lam + t) ** (d / 2) * lam ** (-d / 2) / delta_t)) + math.sqrt(lam) * 1


def spread(id: str, log: Log, t: int, **params: Any) -> FloatArray:
    """How far a draw is from the mean, item by item, with a fixed seed."""
    policy = build(id, log.setting(), **params)
    state = feed(policy, log)
    return np.asarray(scores_of(policy, state, log.request, t) - state.belief.mean(Rows(model=0, x=log.x)))


ROUNDS_TO_TRY = [1, 2, 3, 4, 5, 8, 9, 100, 1024, 1025]


@pytest.mark.parametrize("t", ROUNDS_TO_TRY)
def test_lin_ts_ltr_of_the_paper_stretches_its_draw_by_beta_t(t: int) -> None:
    log = make_log(40, seed=10)
    expected = beta_t(t, T=40, d=3, lam=1e-4) * spread("lin-ts-ltr", log, t, mode="paper", scale=1.0)
    agree(spread("lin-ts-ltr", log, t, mode="paper"), expected, 1e-10)
    wide = beta_t(t, T=40, d=3, lam=0.5) * spread("lin-ts-ltr", log, t, lam=0.5, scale=1.0)
    agree(spread("lin-ts-ltr", log, t, mode="paper", lam=0.5), wide, 1e-10)


def test_lin_ts_ltr_in_practice_has_scale_one_half() -> None:
    log = make_log(40, seed=11)
    for t in (1, 1000):
        agree(spread("lin-ts-ltr", log, t), 0.5 * spread("lin-ts-ltr", log, t, scale=1.0), 1e-12)


@pytest.mark.parametrize("t", ROUNDS_TO_TRY)
def test_log_ts_ltr_of_the_paper_stretches_its_draw_by_beta_t_over_kappa(t: int) -> None:
    log = make_log(40, seed=12)
    policy = build("log-ts-ltr", log.setting(), mode="paper")
    state = feed(policy, log)
    rows = Rows(model=0, x=log.x)
    plain = state.belief.draw(1.0, rng())(rows) - state.belief.mean(rows)
    kappa = math.exp(-1) / (1 + math.exp(-1)) ** 2  # σ′(1)
    agree(spread("log-ts-ltr", log, t, mode="paper"), beta_t(t, T=40, d=3, lam=1e-4) / kappa * plain, 1e-10)


@pytest.mark.parametrize("t", [1, 2, 50])
def test_lin_ts_cascade_scale(t: int) -> None:
    """λ·3R√(d log t)·√K, so 0 at t = 1."""
    log = make_log(40, seed=13)
    policy = build("lin-ts-cascade", log.setting(), lam=0.7, R=0.2)
    state, rows = feed(policy, log), Rows(model=0, x=log.x)
    plain = state.belief.draw(1.0, rng())(rows) - state.belief.mean(rows)
    scale = 0.7 * 3 * 0.2 * math.sqrt(3 * math.log(t)) * math.sqrt(3)  # d = K = 3
    assert np.abs(spread("lin-ts-cascade", log, t, lam=0.7, R=0.2) - scale * plain).max() <= 1e-12


# ---------------------------------------------------------------------------- random lists

MANY = 24_000


def epsilon_lists(epsilon: float, seed: int) -> tuple[Policy[Any], IntArray]:
    """Lists of many learners whose greedy list is (2, 0)."""
    prior = BetaPrior(np.array([3.0, 1, 4, 2]), np.array([2.0, 4, 1, 3]))  # means 3/5, 1/5, 4/5, 2/5
    inner = build("ensemble", Setting(4, 2, prior=prior))
    policy = replace(inner, explore=EpsilonList(inner.explore, epsilon))
    return inner, policy.decide(policy.init(MANY), Request(MANY, 4, 2), rng(seed)).items


def test_epsilon_0_is_the_inner_rule() -> None:
    inner, lists = epsilon_lists(0.0, seed=1)
    assert (lists == inner.decide(inner.init(MANY), Request(MANY, 4, 2), rng(2)).items).all()
    assert lists[0].tolist() == [2, 0]


def test_epsilon_1_is_uniform() -> None:
    """Chi-square over all 12 lists; it fails for one seed in 10,000."""
    assert_uniform(count_lists(epsilon_lists(1.0, seed=3)[1], 4))


@pytest.mark.parametrize("epsilon", [0.1, 0.5])
def test_epsilon_is_how_often_a_list_is_random(epsilon: float) -> None:
    """An exploring learner shows one of 12 lists, the best among them; chi-square fails for one seed in 10,000."""
    counts = count_lists(epsilon_lists(epsilon, seed=4)[1], 4)
    best = count_lists(np.array([[2, 0]]), 4).index(1)
    expected = [MANY * epsilon / 12] * 12
    expected[best] += MANY * (1 - epsilon)
    assert stats.chisquare(counts, expected).pvalue > RARE


def test_epsilon_explores_with_whole_lists_slot_by_slot_too() -> None:
    """A rule that is asked again for every slot answers with the same random scores."""
    policy = build("ranked-lin-ts", Setting(4, 2, dim=2))
    policy = replace(policy, explore=EpsilonList(Greedy(), 1.0))
    lists = policy.decide(policy.init(MANY), Request(MANY, 4, 2, rng(5).random((4, 2))), rng(6)).items
    assert_uniform(count_lists(lists, 4))


def test_blocks_come_in_order_and_each_is_shuffled_fairly() -> None:
    """Levels (1, 0, 1, 0): items 1 and 3 first, four lists equally likely; it fails for one seed in 10,000."""
    empty = np.zeros((MANY, 4, 4), dtype=np.int32)
    state = OrderState(empty, empty, empty.astype(bool), np.tile([1, 0, 1, 0], (MANY, 1)))
    scores = Blocks()(state, np.ones(MANY, dtype=np.int64), rng(7))(ALL)
    order = np.argsort(-scores, axis=1)
    assert (np.sort(order[:, :2], axis=1) == [1, 3]).all()
    assert_uniform(np.unique(order, axis=0, return_counts=True)[1])
    assert len(np.unique(order, axis=0)) == 4
