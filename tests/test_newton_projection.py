"""Projected online Newton steps against a numerical minimiser, and the policies for long sequences that use them."""

from __future__ import annotations

import math
from collections import Counter
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import LinearConstraint, minimize
from scipy.special import expit

from helpers import RARE, agree, assert_uniform, build, inverse, snapshot
from rankloop import catalogue
from rankloop.belief import NewtonState, OnlineNewton
from rankloop.errors import Unsupported
from rankloop.policy import Policy, PolicyState
from rankloop.types import EMPTY, Decision, Evidence, FloatArray, IntArray, Request, Rows, Setting
from rankloop.wrappers import RandomLists


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def shown(x: FloatArray) -> Decision:
    """A list whose slots have these features [B, K, d]."""
    B, K, _ = x.shape
    return Decision(np.tile(np.arange(K), (B, 1)), Rows(model=0, x=x), Request(B, K, K))


def everything(y: FloatArray) -> Evidence:
    """All slots observed."""
    return Evidence(y, np.ones(y.shape))


def warmed(belief: OnlineNewton, learners: int, seed: int, rounds: int = 5) -> NewtonState:
    """A state whose M is no longer a multiple of I."""
    state, draw = belief.init(learners), rng(seed)
    for _ in range(rounds):
        x = draw.standard_normal((learners, 2, belief.dim))
        belief.update(state, shown(x), everything((draw.random((learners, 2)) < 0.5).astype(float)))
    return state


def nearest(w: FloatArray, M: FloatArray, x: FloatArray, D: float) -> FloatArray:
    """The minimiser of (v - w)ᵀM(v - w) among the v with -D ≤ vᵀx ≤ D, found numerically."""
    inside = w * min(1.0, D / max(abs(float(w @ x)), D))

    def squared_distance(v: FloatArray) -> float:
        return float((v - w) @ M @ (v - w))

    def slope(v: FloatArray) -> FloatArray:
        return np.asarray(2 * M @ (v - w))

    found = minimize(
        squared_distance,
        inside,
        jac=slope,
        constraints=[LinearConstraint(x[None, :], -D, D)],
        method="SLSQP",
        tol=1e-14,
    )
    return np.asarray(found.x)


# ---------------------------------------------------------------------------- one step


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("D", [0.05, 0.5])
def test_the_projection_is_the_nearest_point_in_the_norm_of_m_before_x(seed: int, D: float) -> None:
    """A numerical minimiser is good to about 1e-6; a projection in another norm is off by far more."""
    d, ridge, rate = 3, 2.0, 4.0
    belief = OnlineNewton(d, ridge, rate, bound=D)
    state = warmed(belief, 1, seed)
    x, y = 3.0 * rng(seed + 100).standard_normal(d), float(seed % 2)
    w, M = state.theta[0, 0].copy(), np.asarray(np.linalg.inv(inverse(state.F[0, 0])), dtype=np.float64)
    if abs(w @ x) <= D:
        x *= 2 * D / abs(w @ x)
    projected = nearest(w, M, x, D)
    assert abs(projected @ x) == pytest.approx(D, rel=1e-6)
    assert np.abs(projected - w).max() > 1e-3
    sign = 2 * y - 1
    after = M + np.outer(x, x)
    stepped = projected + rate * expit(-sign * (projected @ x)) * sign * np.linalg.solve(after, x)
    belief.update(state, shown(x[None, None, :]), everything(np.array([[y]])))
    agree(state.theta[0, 0], stepped, 1e-5)
    agree(inverse(state.F[0, 0]), np.linalg.inv(after))


def test_the_nearest_point_is_the_same_before_and_after_x_but_not_in_the_plain_norm() -> None:
    """M⁻¹x and (M + xxᵀ)⁻¹x are parallel, so it does not matter which norm measures; the Euclidean one is another."""
    M, x, w, D = np.diag([1.0, 9.0]), np.array([1.0, 1.0]), np.array([3.0, 1.0]), 1.0
    before, after = nearest(w, M, x, D), nearest(w, M + np.outer(x, x), x, D)
    agree(before, after, 1e-5)
    # Excess 4 - 1 = 3, M⁻¹x = (1, 1/9), xᵀM⁻¹x = 10/9: w - 3·(9/10)·(1, 1/9) = (0.3, 0.7).
    agree(before, [3 - 2.7, 1 - 0.3], 1e-5)
    assert np.abs(nearest(w, np.eye(2), x, D) - before).max() > 1


@given(st.integers(1, 4), st.integers(1, 4), st.sampled_from([0.1, 1.0, math.inf]), st.integers(0, 10**6))
@settings(deadline=None, max_examples=60)
def test_lists_are_learned_slot_by_slot_like_a_plain_loop(d: int, K: int, D: float, seed: int) -> None:
    B, rounds, ridge, rate = 2, 8, 3.0, 4.0
    belief, draw = OnlineNewton(d, ridge, rate, bound=D), rng(seed)
    state = belief.init(B)
    w, M = np.zeros((B, d)), np.stack([ridge * np.eye(d)] * B)
    for _ in range(rounds):
        x, y = 2.0 * draw.standard_normal((B, K, d)), (draw.random((B, K)) < 0.4).astype(float)
        seen = (draw.random((B, K)) < 0.7).astype(float)
        belief.update(state, shown(x), Evidence(y * seen, seen))
        for b in range(B):
            for k in range(K):
                if not seen[b, k]:
                    continue
                row, sign = x[b, k], 2 * y[b, k] - 1
                z = float(w[b] @ row)
                if abs(z) > D:
                    toward = np.linalg.solve(M[b], row)
                    w[b] -= (z - math.copysign(D, z)) / (row @ toward) * toward
                M[b] += np.outer(row, row)
                w[b] += rate * expit(-sign * (w[b] @ row)) * sign * np.linalg.solve(M[b], row)
    agree(state.theta[:, 0], w, 1e-8)
    agree(inverse(state.F[:, 0]), np.linalg.inv(M), 1e-8)


@pytest.mark.parametrize("D", [0.1, math.inf])
def test_unobserved_slots_do_nothing_at_all(D: float) -> None:
    """Neither step nor projection: all arrays stay as they are, bit for bit."""
    belief = OnlineNewton(3, 2.0, 4.0, bound=D)
    state = warmed(belief, 4, seed=1)
    x = 5.0 * rng(2).standard_normal((4, 3, 3))
    assert (np.abs(np.matvec(x, state.theta[:, 0])) > 0.1).any()
    before = snapshot(state)
    belief.update(state, shown(x), Evidence(np.zeros((4, 3)), np.zeros((4, 3))))
    assert snapshot(state) == before


def test_without_a_bound_it_is_the_plain_newton_step() -> None:
    d, ridge, rate = 3, 2.0, 4.0
    plain, wide = OnlineNewton(d, ridge, rate), OnlineNewton(d, ridge, rate, bound=1e9)
    agree(warmed(plain, 3, seed=3, rounds=30).theta, warmed(wide, 3, seed=3, rounds=30).theta, 0.0)
    x, state = np.array([1.0, 2.0, 2.0]), plain.init(1)
    plain.update(state, shown(x[None, None, :]), everything(np.ones((1, 1))))
    # M = 2I + xxᵀ with ‖x‖² = 9, so M⁻¹x = x/11, and σ(0) = 1/2.
    agree(state.theta[0, 0], rate * 0.5 * x / 11)


def test_after_a_step_the_next_projection_bounds_the_item_that_is_seen() -> None:
    """An item seen again and again is projected first: θᵀx can leave [-D, D] by one step only."""
    D, rate = 0.5, 4.0
    belief, x = OnlineNewton(2, 1.0, rate, bound=D), np.array([[[1.0, 0.5]]])
    state = belief.init(1)
    for n in range(1, 30):
        belief.update(state, shown(x), everything(np.ones((1, 1))))
        # M = I + n·xxᵀ, so xᵀM⁻¹x = 1.25/(1 + 1.25n); a step is at most rate times that.
        assert float(state.theta[0, 0] @ x[0, 0]) <= D + rate * 1.25 / (1 + 1.25 * n)


# ---------------------------------------------------------------------------- ind and dep


def play(policy: Any, request: Request, rounds: int, seed: int) -> Any:
    """The state after random clicks on the policy's own lists."""
    state, draw = policy.init(request.learners), rng(seed)
    for _ in range(rounds):
        decision = policy.decide(state, request, draw)
        hit = (draw.random(decision.items.shape) < 0.3) & (decision.items != EMPTY)
        policy.learn(state, decision, (hit & (np.cumsum(hit, axis=1) == 1)).astype(float))
    return state


@pytest.mark.parametrize("alpha", [0.0, 0.1, 2.0])
def test_the_index_of_ind_is_mean_plus_root_of_alpha_times_the_squared_width(alpha: float) -> None:
    B, L, K, d = 2, 6, 3, 3
    x = rng(4).standard_normal((L, d))
    policy = build("ind", Setting(L, K, dim=d), alpha=alpha)
    state = play(policy, Request(B, L, K, features=x), 20, seed=5)
    u = policy.explore(state.belief, state.t, rng())(Rows(model=0, x=x))
    for b in range(B):
        w, M = state.belief.theta[b, 0], np.linalg.inv(inverse(state.belief.F[b, 0]))
        agree(u[b], [x[i] @ w + math.sqrt(alpha * (x[i] @ np.linalg.solve(M, x[i]))) for i in range(L)])


@pytest.mark.parametrize("id", ["ind", "dep", "eps-ind"])
def test_learning_starts_from_the_largest_budget_times_the_identity(id: str) -> None:
    policy: Any = catalogue.build(id, Setting(6, 4, dim=3, coverage=3))
    state = policy.init(2)
    assert not state.belief.theta.any()
    agree(inverse(state.belief.F[:, 0]), np.stack([np.eye(3) / 4] * 2))


@pytest.mark.parametrize("id, d", [("ind", 3), ("dep", 5)])
def test_theory_alpha_is_the_formula_of_algorithm_1(id: str, d: int) -> None:
    b, T, D = 4, 200, 2.0
    delta = 1 / T
    c, c_prime = 1 / (1 + math.exp(-D)), math.exp(-D) / (1 + math.exp(-D)) ** 2
    alpha = (
        2 * b * D**2
        + (c / c_prime) ** 2 * d * math.log(1 + (2 / b) * (T * c / (1 - c) + 4 * math.log(4 * (T + 1) / delta)))
        + 2 * (12 * (c / c_prime) ** 2 + 36 * (1 + D) / c_prime) * math.log(2 * b * (T + 4) / delta)
        + 20 * D**2 * math.log(2 * b * d * (T + 1) / delta)
    )
    policy = build(id, Setting(6, b, T, dim=3, coverage=5), alpha="theory", D=D)
    state = policy.init(1)
    x = np.eye(d)
    # Before the first round w = 0 and M = b·I, so that the index of a unit vector is √(α/b).
    agree(policy.explore(state.belief, state.t, rng())(Rows(model=0, x=x)), [[math.sqrt(alpha / b)] * d])


def test_theory_alpha_needs_the_number_of_rounds() -> None:
    with pytest.raises(Unsupported):
        build("ind", Setting(6, 3, dim=3), alpha="theory")


def plain_value(p: list[float], rewards: FloatArray, losses: FloatArray) -> float:
    value, failed = 0.0, 1.0
    for k, q in enumerate(p):
        value, failed = value + failed * q * float(rewards[k]), failed * (1 - q)
    return value + failed * float(losses[len(p)])


@pytest.mark.parametrize("seed", range(4))
def test_ind_shows_the_list_of_largest_optimistic_value(seed: int) -> None:
    """Against all lists of all lengths, each item succeeding with probability σ(u)."""
    B, L, K, d = 3, 5, 4, 3
    x = rng(seed).standard_normal((L, d))
    rewards = np.array([1.0, 0.5, 0.25, 0.125])
    losses = np.array([-0.2, -0.6, -0.8, -0.9, -0.95])
    policy = build("ind", Setting(L, K, dim=d, rewards=rewards, losses=losses))
    request = Request(B, L, K, features=x)
    state = play(policy, request, 15, seed=seed)
    u = policy.explore(state.belief, state.t, rng())(Rows(model=0, x=x))
    lists = policy.decide(state, request, rng(seed)).items
    for b in range(B):
        p = expit(u[b])
        every = [items for n in range(K + 1) for items in permutations(range(L), n)]
        best = max(plain_value([float(p[i]) for i in items], rewards, losses) for items in every)
        chosen = [float(p[i]) for i in lists[b] if i != EMPTY]
        assert plain_value(chosen, rewards, losses) == pytest.approx(best, rel=1e-9, abs=1e-12)


def test_dep_learns_from_what_an_item_added_when_it_was_shown() -> None:
    """The same item under another prefix is another row."""
    coverage, K, rate = np.array([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]]), 3, 4.0
    policy = build("dep", Setting(3, K, coverage=2), rate=rate)
    state, request = policy.init(1), Request(1, 3, K, coverage=coverage)
    policy.learn(state, policy.adopt(request, [[1, 0, 2]]), [[0, 1, 0]])
    first = (2 * coverage[1] - 1) / math.sqrt(2)
    second = (2 * coverage[0] * (1 - coverage[1]) - 1) / math.sqrt(2)
    M, w = K * np.eye(2), np.zeros(2)
    for x, sign in ((first, -1), (second, 1)):  # the third slot was not looked at
        M += np.outer(x, x)
        w += rate * expit(-sign * (w @ x)) * sign * np.linalg.solve(M, x)
    agree(state.belief.theta[0, 0], w)
    agree(inverse(state.belief.F[0, 0]), np.linalg.inv(M))


# ---------------------------------------------------------------------------- eps-ind


def eps_ind(setting: Setting, **params: Any) -> RandomLists[PolicyState[NewtonState]]:
    policy = catalogue.build("eps-ind", setting, **params)
    assert isinstance(policy, RandomLists)
    return policy


def length(lists: IntArray) -> IntArray:
    return np.asarray((lists != EMPTY).sum(axis=1))


def test_all_random_lists_have_a_uniform_length_and_are_uniform_given_their_length() -> None:
    """20,000 learners who always explore; two chi-square tests, each failing for one seed in 10,000."""
    B, L, K = 20_000, 4, 3
    policy = eps_ind(Setting(L, K, dim=2), eps=1.0)
    lists = policy.decide(policy.init(B), Request(B, L, K, features=np.ones((L, 2))), rng(6)).items
    assert all((row[n:] == EMPTY).all() for row, n in zip(lists, length(lists), strict=True))
    assert_uniform(np.bincount(length(lists), minlength=K + 1))
    pairs = Counter(map(tuple, lists[length(lists) == 2, :2].tolist()))
    assert_uniform([pairs[pair] for pair in permutations(range(L), 2)])


def test_random_lengths_reach_from_nothing_to_what_is_allowed() -> None:
    """Two of four items allowed: lengths 0, 1 and 2; chi-square, fails for one seed in 10,000."""
    B, L, K = 6_000, 4, 3
    policy = eps_ind(Setting(L, K, dim=2), eps=1.0)
    request = Request(B, L, K, features=np.ones((L, 2)), allowed=np.array([True, False, False, True]))
    lists = policy.decide(policy.init(B), request, rng(7)).items
    assert set(lists.ravel().tolist()) == {EMPTY, 0, 3}
    assert_uniform(np.bincount(length(lists), minlength=3))


def test_the_share_of_random_lists_is_eps() -> None:
    """30,000 learners; a binomial test, fails for one seed in 10,000.

    All learners have learned that item 0 is far the best and nothing is lost by showing more, so their own list is
    full and starts with item 0. A random list has 3 items with probability 1/4 and then item 0 first with 1/4.
    """
    B, L, K, eps = 30_000, 4, 3, 0.2
    x = np.eye(L)
    policy = eps_ind(Setting(L, K, dim=L), eps=eps)
    state = policy.init(B)
    state.belief.theta[:, 0] = [4.0, 1.0, 0.5, 0.0]
    lists = policy.decide(state, Request(B, L, K, features=x), rng(8)).items
    own = int((lists == [0, 1, 2]).all(axis=1).sum())
    # A random list is [0, 1, 2] with probability 1/4 · 1/(4·3·2).
    expected = 1 - eps + eps / 4 / 24
    assert stats.binomtest(own, B, expected).pvalue > RARE


def test_exploring_or_not_it_learns_the_same_from_the_same_list() -> None:
    """The state after a list and its clicks does not depend on why the list was shown."""
    L, K, d = 5, 3, 2
    setting, x = Setting(L, K, dim=d), rng(9).standard_normal((L, d))
    request = Request(200, L, K, features=x)
    states = []
    for eps in (0.0, 1.0):
        policy = eps_ind(setting, eps=eps)
        state = policy.init(200)
        decision = policy.decide(state, request, rng(10))
        clicks = np.zeros((200, K))
        clicks[:, 0] = decision.items[:, 0] != EMPTY
        policy.learn(state, decision, clicks)
        assert (state.t == 2).all()
        # Every learner that showed something has learned one row; the others none.
        moved = state.belief.theta[:, 0].any(axis=1)
        assert moved.tolist() == (decision.items[:, 0] != EMPTY).tolist()
        for b in np.flatnonzero(moved):
            row = x[decision.items[b, 0]]
            agree(state.belief.theta[b, 0], 4.0 * 0.5 * row / (K + row @ row))
        states.append(moved)
    assert states[0].all()
    assert not states[1].all()  # a random length can be 0


def test_without_exploring_eps_ind_is_ind_without_its_bonus() -> None:
    B, L, K, d = 3, 6, 3, 3
    x = rng(11).standard_normal((L, d))
    request = Request(B, L, K, features=x)
    setting = Setting(L, K, dim=d, rewards=np.array([1.0, 0.5, 0.25]), losses=np.array([0.0, -0.2, -0.4, -0.6]))
    greedy, ind = eps_ind(setting, eps=0.0), build("ind", setting, alpha=0.0)
    assert isinstance(greedy.policy, Policy)
    state = play(greedy, request, 25, seed=12)
    assert state.belief.theta.any()
    lists = [policy.decide(state, request, rng(13)).items.tolist() for policy in (greedy, ind)]
    assert lists[0] == lists[1]


def test_counts_of_items_refuse_other_items_with_nothing_changed() -> None:
    """gl-cdcm counts per item where items last: a request with another number of them is another problem."""
    policy = catalogue.build("gl-cdcm", Setting(4, 2, 10, 3))
    state, x = policy.init(1), np.ones((6, 3))
    before = snapshot(state)
    with pytest.raises(Unsupported, match="lasting=False"):
        policy.learn(state, policy.decide(state, Request(1, 6, 2, x), np.random.default_rng(0)), [[1, 0]])
    assert snapshot(state) == before
