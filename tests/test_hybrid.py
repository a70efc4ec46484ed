"""The hybrid belief equals a dense regression with one coefficient for each item, and its parts keep their promises."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import kstest

from rankloop import build
from rankloop.belief.hybrid import Hybrid
from rankloop.belief.hybrid_fit import PRIOR_SD, prior_mean, refresh, significant_order
from rankloop.belief.hybrid_state import HybridState
from rankloop.checks import Law, laws
from rankloop.design.hybrid_rows import HybridRows
from rankloop.errors import Unsupported
from rankloop.math import factor
from rankloop.math.item_normals import TABLE, TAIL, item_normals, quantiles
from rankloop.objective import Revenue
from rankloop.plan.learned_bias import ByLearnedBias
from rankloop.shortlist import Search
from rankloop.types import Decision, Evidence, FloatArray, Request, Rows, Setting

L, K, D = 12, 3, 4
Q = HybridRows(D).row_features or 0


@dataclass
class DenseRegression:
    """A ridge regression with one coefficient for each item, from all observations."""

    tau2: float
    s2: float
    theta0: FloatArray
    X: list[FloatArray] = field(default_factory=list)
    y: list[float] = field(default_factory=list)
    weight: list[float] = field(default_factory=list)

    def add(self, item: int, x: FloatArray, y: float, lam: float) -> None:
        """Add an observation of exposure λ."""
        effect = np.zeros(L)
        effect[item] = 1.0
        self.X.append(lam * np.concatenate([x[1:], effect]))
        self.y.append(y - lam * x[0])
        self.weight.append(1.0)

    def posterior(self) -> tuple[FloatArray, FloatArray]:
        """Return mean and covariance of (θ, b)."""
        X, y, w = np.array(self.X), np.array(self.y), np.array(self.weight) / self.s2
        p = len(self.theta0)
        precision = np.diag(np.concatenate([np.full(p, PRIOR_SD**-2), np.full(L, 1.0 / self.tau2)]))
        shift = precision @ np.concatenate([self.theta0, np.zeros(L)])
        covariance: FloatArray = np.linalg.inv(precision + X.T @ (w[:, None] * X)).astype(np.float64)
        return covariance @ (shift + X.T @ (w * y)), covariance


def joint(state: HybridState) -> tuple[FloatArray, FloatArray]:
    """Mean and covariance of (θ, b) that a state of one learner stands for."""
    theta, cov = state.coefficients()[0], state.F[0] @ state.F[0].T
    c = state.n[0] + state.s2[0] / state.tau2[0]
    slope = -state.S[0][:, 1:] / c[:, None]  # E[b | θ] is linear in θ
    mean: FloatArray = np.concatenate([theta[1:], (state.Y[0] - state.S[0] @ theta) / c])
    corner = slope @ cov
    own = slope @ cov @ slope.T + np.diag(state.s2[0] / c)
    return mean, np.asarray(np.block([[cov, corner.T], [corner, own]])).astype(np.float64)


def request(rng: np.random.Generator, features: FloatArray) -> Request:
    """A request in which some items have scores, others ranks."""
    scores = np.where(np.arange(L) % 3 == 0, 0.1 + 0.01 * np.arange(L), np.nan)
    ranks = np.where(np.arange(L) % 3 == 1, np.arange(L), np.nan)
    return Request(1, L, K, features, scores=scores, ranks=ranks)


@pytest.mark.parametrize("rows", ["fixed", "changing", "mixed"])
@pytest.mark.parametrize("learns_bias", [False, True])
@pytest.mark.parametrize("rounds", [5, 10_000])
@pytest.mark.parametrize("amended", [False, True])
def test_posterior_equals_a_dense_regression(rows: str, learns_bias: bool, rounds: int, amended: bool) -> None:
    """Also where outcomes are learned as 0 first, and amended some lists later."""
    rng = np.random.default_rng(3)
    design, belief = HybridRows(D), Hybrid(L, K, Q, learns_bias=learns_bias, adapt=None)
    state = belief.init(1)
    bias = np.array([[1.0, 0.7, 0.4]])
    if learns_bias:
        state.bias[...] = bias
    dense = DenseRegression(belief.tau2, belief.s2, prior_mean(state)[0])
    fixed, later = rng.standard_normal((L, D)), list[tuple[Decision, Evidence]]()
    for _ in range(rounds):
        features = fixed.copy()
        changed = {"fixed": 0, "changing": L, "mixed": L // 2}[rows]
        features[:changed] = rng.standard_normal((changed, D))
        lists = rng.permutation(L)[None, :K]
        picked = design.pick(request(rng, features), lists)
        y = (rng.random((1, K)) < 0.3).astype(float)
        exposure = np.ones((1, K)) if learns_bias else bias * (rng.random((1, K)) < 0.8)
        decision, evidence = Decision(lists, picked, request(rng, features)), Evidence(y * (exposure > 0), exposure)
        if amended:
            belief.update(state, decision, Evidence(np.zeros((1, K)), exposure))
            later.append((decision, evidence))
        else:
            belief.update(state, decision, evidence)
        if len(later) == 4:
            belief.amend(state, later[0][0], np.zeros((1, K)), later.pop(0)[1])
        assert picked.x is not None
        for k in range(K):
            lam = (bias if learns_bias else exposure)[0, k]
            if exposure[0, k] > 0.0:
                dense.add(lists[0, k], picked.x[0, k], y[0, k], lam)
    for decision, evidence in later:
        belief.amend(state, decision, np.zeros((1, K)), evidence)
    for got in (state, _refreshed(state)):
        for ours, theirs in zip(joint(got), dense.posterior(), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)
    assert rounds == 5 or state.varied.any() == (rows != "fixed")


def _refreshed(state: HybridState) -> HybridState:
    again = state.copy()
    refresh(again)
    return again


# Rows


def test_a_row_is_offset_intercept_score_order_and_scaled_fields() -> None:
    features = np.arange(6.0).reshape(3, 2)
    asked = Request(1, 3, 3, features, scores=np.array([0.7, np.nan, np.nan]), ranks=np.array([1.0, 3.0, np.nan]))
    x = HybridRows(2).pick(asked, np.array([[0, 1, 2]])).x
    assert x is not None
    expected = [[0.0, 1.0, 0.7, 0.0, 0.0, 0.1], [0.0, 1.0, 0.0, 0.5, 0.2, 0.3], [0.05, 1.0, 0.0, 0.0, 0.4, 0.5]]
    np.testing.assert_allclose(x[0], expected, rtol=1e-15)


@pytest.mark.parametrize("context", [None, 3])
@pytest.mark.parametrize("dim", [None, 2])
@pytest.mark.parametrize("own", [False, True], ids=["nothing", "scores and ranks"])
def test_rows_of_all_items_are_those_of_lists(context: int | None, dim: int | None, own: bool) -> None:
    """The estimate of an item is the same from the rows of all items, kept apart, and from its row in a list."""
    if dim is None and context is not None:
        with pytest.raises(Unsupported, match="item features"):
            HybridRows(dim, context)
        return
    B, rng = 4, np.random.default_rng(1)
    design = HybridRows(dim, context)
    belief = Hybrid(L, K, design.row_features or 0)
    state = belief.init(B)
    scores = np.where(rng.random((B, L)) < 0.5, rng.random((B, L)), np.nan) if own else None
    asked = Request(
        B,
        L,
        K,
        None if dim is None else rng.random((B, L, dim)),
        None if context is None else rng.random((B, context)),
        scores=scores,
        ranks=np.where(np.arange(L) % 2, np.arange(L), np.nan) if own else None,
    )
    for _ in range(30):
        lists = rng.permuted(np.tile(np.arange(L), (B, 1)), axis=1)[:, :K]
        y = (rng.random((B, K)) < 0.4).astype(float)
        belief.update(state, Decision(lists, design.pick(asked, lists), asked), Evidence(y, np.ones((B, K))))
    whole = design.rows(asked, np.empty((B, 0), dtype=np.int64), 0)
    everything = np.tile(np.arange(L), (B, 1))
    picked = design.pick(asked, everything)
    for b in range(B):
        one, row = state.view(slice(b, b + 1)), picked.of_learner(b)
        np.testing.assert_allclose(state.mean(whole)[b], one.mean(row)[0], rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(state.width(whole)[b], one.width(row)[0], rtol=1e-12, atol=1e-14)


def test_candidates_are_scored_as_among_all_items() -> None:
    state, design, asked = taught(rounds=50)
    columns = np.array([7, 2, 9])
    assert asked.features is not None
    some = replace(asked, items=3, features=asked.features[columns], columns=columns)
    nothing = np.empty((1, 0), dtype=np.int64)
    whole = state.mean(design.rows(asked, nothing, 0))[:, columns]
    np.testing.assert_array_equal(state.mean(design.rows(some, nothing, 0)), whole)
    np.testing.assert_array_equal(design.pick(some, np.array([[2, 0]])).models(), [[9, 7]])


def taught(rounds: int, *, adapt: int | None = None, seed: int = 5) -> tuple[HybridState, HybridRows, Request]:
    """A state of one learner after some rounds with fixed features."""
    rng = np.random.default_rng(seed)
    design, belief = HybridRows(D), Hybrid(L, K, Q, adapt=adapt)
    state, asked = belief.init(1), Request(1, L, K, rng.standard_normal((L, D)))
    for _ in range(rounds):
        lists = rng.permutation(L)[None, :K]
        y = (rng.random((1, K)) < 0.3).astype(float)
        belief.update(state, Decision(lists, design.pick(asked, lists), asked), Evidence(y, np.ones((1, K))))
    return state, design, asked


# Forgetting, priors, adaptation


@pytest.mark.parametrize("changing", [False, True])
def test_forgetting_scales_what_was_added_to_the_prior(changing: bool) -> None:
    """A share of a half halves the sums, A - Λ and b - Λθ_0; with nothing observed, nothing changes."""
    rng = np.random.default_rng(8)
    design, belief = HybridRows(D), Hybrid(L, K, Q, adapt=None)
    state, prior = belief.init(1), belief.init(1)
    belief.forget(state, prior, 0.5)
    np.testing.assert_allclose(state.b, prior.b, rtol=1e-12)
    x = rng.standard_normal((L, D))
    for _ in range(60):
        asked = Request(1, L, K, rng.standard_normal((L, D)) if changing else x)
        lists = rng.permutation(L)[None, :K]
        y = (rng.random((1, K)) < 0.3).astype(float)
        belief.update(state, Decision(lists, design.pick(asked, lists), asked), Evidence(y, np.ones((1, K))))
    before = state.copy()
    belief.forget(state, prior, 0.5)
    for name in ("n", "Y", "S", "N", "C", "G", "g"):
        np.testing.assert_array_equal(getattr(state, name), 0.5 * getattr(before, name))
    added, left = (factor.precision(one.F) - factor.precision(prior.F) for one in (before, state))
    np.testing.assert_allclose(left, 0.5 * added, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(state.b - prior.b, 0.5 * (before.b - prior.b), rtol=1e-9, atol=1e-12)


def test_a_prior_is_worth_as_many_observations_and_can_be_removed() -> None:
    design, belief = HybridRows(D), Hybrid(L, K, Q, adapt=None)
    rng = np.random.default_rng(9)
    asked = Request(1, L, K, rng.standard_normal((L, D)))
    believed, observed, mixed = (belief.init(1) for _ in range(3))
    one = np.array([[3]])
    item = Decision(one, design.pick(asked, one), asked)
    for _ in range(4):
        belief.update(observed, item, Evidence(np.full((1, 1), 0.5), np.ones((1, 1))))
    belief.believe(believed, item, 0.5, 4.0)
    np.testing.assert_allclose(joint(believed)[0], joint(observed)[0], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(joint(believed)[1], joint(observed)[1], rtol=1e-12, atol=1e-14)
    plain, design, asked = taught(rounds=30)
    mixed = plain.copy()
    item = Decision(one, design.pick(asked, one), asked)
    belief.believe(mixed, item, 0.9, 50.0)
    belief.disbelieve(mixed, item, 0.9, 50.0)
    for ours, theirs in zip(joint(mixed), joint(plain), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


def test_biases_and_variances_are_found() -> None:
    """After 4,000 random lists of position-based visitors, λ̂, τ² and s² are near the truth.

    Tolerances are five standard errors or more, seed fixed.
    """
    B, L, K, rounds = 8, 60, 4, 4000
    bias = np.array([1.0, 0.5, 0.8, 0.25])
    rng = np.random.default_rng(10)
    nu = np.clip(0.3 + 0.1 * rng.standard_normal((B, L)), 0.02, 0.9)
    policy = build("hybrid", Setting(L, K))
    state = policy.init(B)
    asked = Request(B, L, K)
    for _ in range(rounds):
        lists = rng.permuted(np.tile(np.arange(L), (B, 1)), axis=1)[:, :K]
        clicks = rng.random((B, K)) < bias * np.take_along_axis(nu, lists, axis=1)
        policy.learn(state, policy.adopt(asked, lists), clicks)
    found: Any = state
    belief: HybridState = found.belief
    np.testing.assert_allclose(belief.bias, np.tile(bias, (B, 1)), atol=0.12)
    assert (np.abs(belief.bias - bias) <= 5.0 * belief.bias_error + 0.02).all()
    np.testing.assert_array_equal(belief.order, np.tile([0, 2, 1, 3], (B, 1)))
    np.testing.assert_allclose(belief.tau2, 0.01, rtol=0.8)
    p = nu[:, :, None] * bias
    np.testing.assert_allclose(belief.s2, (p * (1.0 - p)).mean(axis=(1, 2)), rtol=0.08)
    lists = policy.decide(state, asked, np.random.default_rng(1)).items
    shown = np.take_along_axis(nu, lists, axis=1).mean(axis=0)
    assert shown[0] > shown[1]
    assert shown[2] > shown[3]


def test_an_insignificant_lead_does_not_move_a_slot() -> None:
    bias = np.array([[1.0, 0.5, 0.6, 0.4], [1.0, 0.5, 0.8, 0.4]])
    np.testing.assert_array_equal(significant_order(bias, np.full((2, 4), 0.05)), [[0, 1, 2, 3], [0, 2, 1, 3]])


# The first list


def test_the_first_list_is_the_callers_order() -> None:
    """By scores, by ranks without scores, and whatever the generator."""
    rng = np.random.default_rng(11)
    scores = rng.permutation(L) / L
    ranks = rng.permutation(L).astype(float)
    policy = build("hybrid", Setting(L, K, dim=D))
    features = rng.standard_normal((L, D))
    for seed in range(5):
        own = np.random.default_rng(seed)
        by_score = policy.decide(policy.init(1), Request(1, L, K, features, scores=scores), own)
        np.testing.assert_array_equal(by_score.items[0], np.argsort(-scores)[:K])
        by_rank = policy.decide(policy.init(1), Request(1, L, K, features, ranks=ranks), own)
        np.testing.assert_array_equal(by_rank.items[0], np.argsort(ranks)[:K])


def test_trust_in_scores_follows_the_evidence() -> None:
    """Scores that are the truth keep a coefficient near 1; scores without information lose it."""
    rng = np.random.default_rng(12)
    nu = rng.uniform(0.05, 0.6, 40)
    for scores, low, high in ((nu, 0.85, 1.15), (rng.permutation(nu), -0.35, 0.35)):
        policy: Any = build("hybrid", Setting(40, 4))
        state, asked = policy.init(1), Request(1, 40, 4, scores=scores)
        for _ in range(3000):
            lists = rng.permutation(40)[None, :4]
            policy.learn(state, policy.adopt(asked, lists), rng.random((1, 4)) < nu[lists])
        trust = policy.belief.score_trust(state.belief)
        assert low < trust.mean[0] < high
        assert 0.0 < trust.deviation[0] < 0.15


def test_prices_decide_between_items() -> None:
    """An item at ten times the price and two thirds of the clicks comes first; a request's prices replace these."""
    policy = build("hybrid", Setting(2, 2, objective=Revenue(np.array([1.0, 10.0]))), explore=0.1)
    state, rng = policy.init(1), np.random.default_rng(13)
    for _ in range(300):
        decision = policy.decide(state, Request(1, 2, 2), rng)
        policy.learn(state, decision, rng.random((1, 2)) < np.array([0.3, 0.2])[decision.items])
    assert policy.decide(state, Request(1, 2, 2), rng).items[0, 0] == 1
    assert policy.decide(state, Request(1, 2, 2, prices=np.array([1.0, 1.0])), rng).items[0, 0] == 0


# Draws


def test_item_normals_are_normal_quantiles() -> None:
    """The table differs from the quantile function by less than 1e-6, and the numbers pass a Kolmogorov test."""
    z = item_normals(5, 200_000)
    assert kstest(z, "norm").pvalue > 1e-3  # seed fixed
    numbers = np.concatenate([np.arange(600), 2**32 - 1 - np.arange(600), np.arange(0, 2**32, 2**17 + 1)])
    found = np.empty(len(numbers))
    work = np.empty(len(numbers) + 1, dtype=np.uint32)
    quantiles(numbers.astype(np.uint32), TABLE, TAIL, work, found)
    np.testing.assert_allclose(found, ndtri((numbers + 0.5) / 2**32), atol=1e-6)


def test_draws_have_the_posterior_as_distribution() -> None:
    """Mean and covariance of 20,000 draws of all items, within five standard errors (seed fixed)."""
    state, design, asked = taught(rounds=40)
    rows, rng, n, e = design.rows(asked, np.empty((1, 0), dtype=np.int64), 0), np.random.default_rng(14), 20_000, 0.5
    many = state._map(lambda array: np.repeat(array, n, axis=0))
    drawn = many.draw(e, rng)(rows)
    picked = design.pick(asked, np.arange(L)[None]).x
    assert picked is not None
    mean, cov = joint(state)
    Z = np.hstack([picked[0, :, 1:], np.eye(L)])
    expected, spread = Z @ mean + picked[0, :, 0], e**2 * Z @ cov @ Z.T
    sd = np.sqrt(np.diag(spread))
    assert (np.abs(drawn.mean(axis=0) - expected) <= 5.0 * sd / np.sqrt(n)).all()
    assert (np.abs(np.cov(drawn.T) - spread) <= 5.0 * np.sqrt(2.0 / n) * np.outer(sd, sd)).all()
    np.testing.assert_allclose(np.sqrt(np.diag(spread)) / e, state.width(rows)[0], rtol=1e-9)


class Shortlists:
    """Random states of the belief and requests, and the scores of draws from them in both forms."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = np.random.default_rng(seed)
        self.many, self.k = int(rng.integers(12, 700)), 10
        policy: Any = build("hybrid", Setting(self.many, self.k, dim=D))
        self.policy, self.state = policy, policy.init(1)
        columns = np.sort(rng.permutation(self.many)[: max(12, self.many // 2)]) if rng.random() < 0.3 else None
        size = self.many if columns is None else len(columns)
        self.asked = Request(1, size, self.k, self.features(size), columns=columns, **self.own(size))
        for _ in range(int(rng.choice([0, 3, 30, 200]))):
            decision = self.policy.decide(self.state, self.asked, rng)
            self.policy.learn(self.state, decision, (rng.random((1, self.k)) < 0.2).astype(float))
        if rng.random() < 0.3:  # other rows than those that were observed
            self.asked = Request(1, size, self.k, self.features(size), columns=columns, **self.own(size))
        belief: HybridState = self.state.belief
        belief.tau2[:], belief.s2[:] = np.exp(rng.uniform(-9.0, 1.0)), np.exp(rng.uniform(-7.0, 1.0))

    def features(self, size: int) -> FloatArray:
        return np.asarray(self.rng.standard_normal((size, D)) * self.rng.choice([0.1, 1.0, 100.0]))

    def own(self, size: int) -> dict[str, Any]:
        kind = self.rng.integers(4)
        scores = self.rng.random(size) * 0.3
        if kind == 2:
            scores[self.rng.random(size) < 0.5] = np.nan
        return [{}, {"scores": scores}, {"scores": scores, "ranks": np.arange(float(size))}, {}][kind]

    def rows(self) -> Any:
        return self.policy.design.rows(self.asked, np.empty((1, 0), dtype=np.int64), 0)

    def search(self) -> Search:
        size, may = self.asked.items, None
        if self.rng.random() < 0.3:
            may = np.zeros(size, dtype=np.bool_)
            may[self.rng.permutation(size)[: int(self.rng.integers(self.k + 1, size + 1))]] = True
        return Search(self.rows, self.k + 1, may)


def test_the_largest_scores_are_those_of_a_full_draw() -> None:
    """Equal random numbers give the same largest scores with and without the others, in 3,000 draws."""
    for seed in range(300):
        case = Shortlists(seed)
        for draw in range(10):
            scale, search = float(case.rng.choice([0.5, 0.01, 3.0])), case.search()
            found = case.state.belief.draw_largest(scale, search, np.random.default_rng(draw))
            full = case.state.belief.draw(scale, np.random.default_rng(draw))(case.rows())[0]
            if search.allowed is not None:
                full[~search.allowed] = -np.inf
            order = np.argsort(-full)[: case.k + 1]
            assert found.ordered
            np.testing.assert_array_equal(found.items[0], order, err_msg=f"seed {seed}")
            np.testing.assert_allclose(found.scores[0], full[order], rtol=1e-9, atol=1e-12)


@dataclass(frozen=True, eq=False)
class FromAllScores(ByLearnedBias):
    """The planner without shortlists."""

    def needed(self, request: Request) -> int | None:
        return None


@pytest.mark.parametrize("many", [5, 11, 12, 300])
def test_lists_from_a_shortlist_are_those_from_all_scores(many: int) -> None:
    """Whatever is allowed, from the first round on, in which nothing is drawn and items tie."""
    k, rng = 10, np.random.default_rng(many)
    policy: Any = build("hybrid", Setting(many, k, dim=D))
    plain, features = replace(policy, plan=FromAllScores()), rng.standard_normal((many, D))
    state = policy.init(1)
    for seed in range(300):
        may = rng.random(many) < rng.random() if seed % 3 else None
        asked = Request(1, many, k, features, allowed=may)
        ours, theirs = (one.decide(state, asked, np.random.default_rng(seed)) for one in (policy, plain))
        np.testing.assert_array_equal(ours.items, theirs.items)
        np.testing.assert_allclose(ours.scores[ours.shown], theirs.scores[ours.shown], rtol=1e-9, atol=1e-12)
        rivals = [np.zeros_like(one.items) if one.rivals is None else one.rivals for one in (ours, theirs)]
        np.testing.assert_array_equal(*rivals)
        policy.learn(state, ours, np.where(ours.shown, rng.random((1, k)) < 0.2, 0.0))


def test_equal_scores_are_listed_at_random_from_a_shortlist() -> None:
    """Without exploration or features, items tie, and every one of them has the same chance."""
    many, k, rng = 40, 3, np.random.default_rng(5)
    policy: Any = build("hybrid", Setting(many, k))
    state, counts = policy.init(1), np.zeros(many)
    for _ in range(4000):
        decision = policy.decide(state, Request(1, many, k), rng)
        counts[decision.items[0]] += 1
        assert decision.rivals[0].tolist() == [39, 38, 37]
    assert np.abs(counts - 300.0).max() < 5.0 * np.sqrt(300.0)  # 5 standard deviations: 40 items at 6e-7 each


def test_a_changed_row_is_recognised() -> None:
    """The estimate uses the rows that were observed, whatever the item's row is now."""
    state, design, asked = taught(rounds=50)
    assert asked.features is not None
    changed = replace(asked, features=asked.features[::-1].copy())
    rows = design.rows(changed, np.empty((1, 0), dtype=np.int64), 0)
    x, theta = design.pick(changed, np.arange(L)[None]).x, state.coefficients()[0]
    assert x is not None
    c = state.n[0] + state.s2[0] / state.tau2[0]
    np.testing.assert_allclose(state.mean(rows)[0], x[0] @ theta + (state.Y[0] - state.S[0] @ theta) / c, rtol=1e-12)


# Laws where the biases are learned


def learned(setting: Setting) -> Any:
    """The policy without known biases."""
    fields = ("items", "slots", "rounds", "dim", "context", "present", "used", "objective")
    return build("hybrid", Setting(**{name: getattr(setting, name) for name in fields}))


@pytest.mark.parametrize(
    "law",
    [pytest.param(law, id=law.name) for law in laws(learned) if law.name != "every-setting-is-used-or-refused"],
)
def test_law_with_learned_biases(law: Law) -> None:
    law.check()


def test_catching_up_equals_updates_across_adaptations() -> None:
    """Bit for bit, whatever the layout of the arrays."""
    rng = np.random.default_rng(15)
    T, design = 450, HybridRows(D)
    belief = Hybrid(L, K, Q)
    wide = np.stack([rng.permutation(L) for _ in range(T)])
    lists, y = wide[:, :K], (rng.random((T, K)) < 0.3).astype(float)
    asked = Request(1, L, K, rng.standard_normal((L, D)))
    x = np.concatenate([design.pick(asked, lists[t : t + 1]).x for t in range(T)])
    single, together = belief.init(1), belief.init(1)
    for t in range(T):
        one = slice(t, t + 1)
        decision = Decision(lists[one], Rows(lists[one], x[one]), asked)
        belief.update(single, decision, Evidence(y[one], np.ones((1, K))))
    assert belief.catch_up(together, Decision(lists, Rows(lists, x), asked), Evidence(y, np.ones((T, K))))
    for (name, ours), (_, theirs) in zip(single.arrays(), together.arrays(), strict=True):
        np.testing.assert_array_equal(ours, theirs, err_msg=name)
