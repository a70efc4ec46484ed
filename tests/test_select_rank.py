"""A logistic model for each item and its slot, the lists made of them, and learning in batches."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from helpers import agree, assert_uniform, build, count_lists, inverse, snapshot
from rankloop import catalogue
from rankloop.belief import LogisticRows, OnlineLogistic, OnlineState
from rankloop.errors import InvalidInput, Unsupported
from rankloop.objective import Amount, AnyClick, Clicks, Objective, Revenue
from rankloop.types import EMPTY, Decision, Evidence, FloatArray, IntArray, Request, Rows, Setting
from rankloop.wrappers import EveryN, RandomLists

NOTHING = np.empty((1, 0), dtype=np.int64)
IDS = ["ucr", "g-mle", "feature-ucr"]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def select_rank(id: str, setting: Setting, **params: Any) -> Any:
    """A warm-up of random lists around a composition."""
    policy = catalogue.build(id, setting, **params)
    assert isinstance(policy, RandomLists)
    return policy


@dataclass(frozen=True)
class Visits:
    """Contexts, lists and clicks of some rounds, made without asking a policy."""

    context: FloatArray  # [T, B, dx]
    items: IntArray  # [T, B, K]
    clicks: FloatArray  # [T, B, K]
    L: int

    def request(self, t: int) -> Request:
        _, B, K = self.items.shape
        return Request(B, self.L, K, context=self.context[t])

    def rows(self, b: int, item: int) -> tuple[FloatArray, FloatArray]:
        """Z = (k, x) and clicks of an item of learner b, in order."""
        z, y = [], []
        for t in range(len(self.items)):
            for k, shown in enumerate(self.items[t, b]):
                if shown == item:
                    z.append([k + 1.0, *self.context[t, b]])
                    y.append(self.clicks[t, b, k])
        return np.array(z).reshape(len(z), 1 + self.context.shape[2]), np.array(y)


def make_visits(T: int, *, seed: int, B: int = 2, L: int = 4, K: int = 2, dx: int = 2, empty: float = 0.1) -> Visits:
    """Random lists with some empty slots; clicks have log-odds 1 - 0.5k + xᵀ(1, …, 1)."""
    draw = rng(seed)
    context = draw.standard_normal((T, B, dx))
    items = draw.permuted(np.tile(np.arange(L), (T, B, 1)), axis=2)[:, :, :K]
    items[draw.random(items.shape) < empty] = EMPTY
    chance = expit(1 - 0.5 * np.arange(1, K + 1) + context.sum(axis=2)[:, :, None])
    clicks = (draw.random(items.shape) < chance) & (items != EMPTY)
    return Visits(context, items, clicks.astype(float), L)


def feed(policy: Any, visits: Visits) -> Any:
    """The state after learning all rounds."""
    state = policy.init(visits.items.shape[1])
    for t in range(len(visits.items)):
        policy.learn(state, policy.adopt(visits.request(t), visits.items[t]), visits.clicks[t])
    return state


def ucr_setting(visits: Visits, **more: Any) -> Setting:
    T, _, K = visits.items.shape
    return Setting(visits.L, K, T, context=visits.context.shape[2], **more)


# ---------------------------------------------------------------------------- exact fits


@pytest.mark.parametrize("ridge", [1.0, 0.1, 10.0])
def test_mle_of_each_item_equals_scikit_learn(ridge: float) -> None:
    """On the same rows z = (k, x), without intercept, C = 1/ridge."""
    visits = make_visits(60, seed=1)
    state = feed(select_rank("ucr", ucr_setting(visits), fit="mle", ridge=ridge), visits).belief
    for b in range(2):
        for item in range(visits.L):
            Z, y = visits.rows(b, item)
            assert 0 < y.sum() < len(y)
            model = LogisticRegression(C=1 / ridge, fit_intercept=False, solver="newton-cholesky", tol=1e-12)
            agree(state.theta[b, item], model.fit(Z, y).coef_[0], 1e-6)


def test_mle_of_the_feature_model_equals_scikit_learn() -> None:
    """One model, z = (k, x, y_j, x⊗y_j) of all items."""
    visits, draw = make_visits(60, seed=2, empty=0.0), rng(3)
    features = draw.standard_normal((visits.L, 2))
    policy = select_rank("feature-ucr", ucr_setting(visits, dim=2), fit="mle")
    state = policy.init(2)
    Z: list[list[list[float]]] = [[], []]
    for t in range(60):
        request = replace(visits.request(t), features=features)
        policy.learn(state, policy.adopt(request, visits.items[t]), visits.clicks[t])
        for b in range(2):
            x = visits.context[t, b]
            for k, item in enumerate(visits.items[t, b]):
                y = features[item]
                Z[b].append([k + 1.0, *x, *y, *(p * q for p in x for q in y)])
    for b in range(2):
        model = LogisticRegression(C=1.0, fit_intercept=False, solver="newton-cholesky", tol=1e-12)
        agree(state.belief.theta[b, 0], model.fit(np.array(Z[b]), visits.clicks[:, b].ravel()).coef_[0], 1e-6)


@pytest.mark.parametrize("fit", ["mle", "online"])
@pytest.mark.parametrize("v_ridge", [1.0, 0.5])
def test_v_is_the_ridge_and_the_sum_of_all_rows(fit: str, v_ridge: float) -> None:
    visits = make_visits(40, seed=4)
    state = feed(select_rank("ucr", ucr_setting(visits), fit=fit, v_ridge=v_ridge), visits).belief
    for b in range(2):
        for item in range(visits.L):
            Z, _ = visits.rows(b, item)
            V = v_ridge * np.eye(3)
            for z in Z:
                V += np.outer(z, z)
            agree(inverse(state.F[b, item]), np.linalg.inv(V))


@pytest.mark.parametrize("fit", ["mle", "online"])
def test_only_shown_items_are_fitted_anew(fit: str) -> None:
    """The others stay as they are, bit for bit; an item never shown has θ = 0."""
    visits = make_visits(20, seed=5, L=6)
    never = replace(visits, items=np.where(visits.items == 5, EMPTY, visits.items))
    never = replace(never, clicks=np.where(never.items == EMPTY, 0.0, never.clicks))
    policy = select_rank("ucr", replace(ucr_setting(never), rounds=30), fit=fit)
    state = feed(policy, never)
    assert not state.belief.theta[:, 5].any()
    before = state.belief.copy()
    policy.learn(state, policy.adopt(visits.request(0), [[0, 3], [EMPTY, 1]]), [[1, 0], [0, 1]])
    changed = [[item for item in range(6) if not _same(state.belief, before, b, item)] for b in range(2)]
    assert changed == [[0, 3], [1]]


def _same(state: Any, before: Any, b: int, item: int) -> bool:
    return all(
        array[b, item].tobytes() == old[b, item].tobytes()
        for (_, array), (_, old) in zip(state.arrays(), before.arrays(), strict=True)
    )


def test_exact_fits_need_the_number_of_rounds() -> None:
    with pytest.raises(Unsupported):
        select_rank("ucr", Setting(4, 2, context=1), fit="mle")


# ---------------------------------------------------------------------------- online fits


@pytest.mark.parametrize("ridge", [1.0, 0.3])
def test_online_fit_equals_the_recursion_in_a_plain_loop(ridge: float) -> None:
    visits = make_visits(40, seed=7)
    state = feed(select_rank("ucr", ucr_setting(visits), ridge=ridge), visits).belief
    for b in range(2):
        for item in range(visits.L):
            H, theta = ridge * np.eye(3), np.zeros(3)
            for z, y in zip(*visits.rows(b, item), strict=True):
                p = expit(theta @ z)
                H += p * (1 - p) * np.outer(z, z)
                theta = theta + np.linalg.solve(H, z) * (y - p)
            agree(state.theta[b, item], theta)
            agree(inverse(state.H[b, item]), np.linalg.inv(H))


def test_online_fit_of_one_model_sees_the_slots_of_a_list_in_order() -> None:
    draw, d, K = rng(8), 3, 4
    belief = OnlineLogistic(d, 1)
    state, theta, H = belief.init(1), np.zeros(d), np.eye(d)
    x, y, seen = draw.standard_normal((1, K, d)), np.array([[1.0, 0.0, 0.0, 1.0]]), np.array([[1.0, 1.0, 0.0, 1.0]])
    belief.update(state, Decision(np.arange(K)[None], Rows(model=0, x=x), Request(1, K, K)), Evidence(y, seen))
    for k in (0, 1, 3):
        p = expit(theta @ x[0, k])
        H += p * (1 - p) * np.outer(x[0, k], x[0, k])
        theta = theta + np.linalg.solve(H, x[0, k]) * (y[0, k] - p)
    agree(state.theta[0, 0], theta)


def test_online_fit_approaches_the_exact_one() -> None:
    """The relative distance shrinks with the rows: below 10 per cent after 200 and below 1 per cent after 10,000."""
    draw, d, B = rng(9), 3, 4
    truth = np.array([1.0, -0.5, 0.8])
    online, exact = OnlineLogistic(d, 1), LogisticRows(d, 1, capacity=10_000)
    x = draw.standard_normal((B, 10_000, d))
    y = (draw.random((B, 10_000)) < expit(x @ truth)).astype(float)
    distance = {}
    for n in (200, 10_000):
        one, other = online.init(B), exact.init(B)
        rows = Decision(np.tile(np.arange(n), (B, 1)), Rows(model=0, x=x[:, :n]), Request(B, n, n))
        everything = Evidence(y[:, :n], np.ones((B, n)))
        online.update(one, rows, everything)
        exact.update(other, rows, everything)
        apart = np.linalg.vector_norm(one.theta - other.theta, axis=-1)
        distance[n] = float((apart / np.linalg.vector_norm(other.theta, axis=-1)).max())
    assert distance[10_000] < distance[200] < 0.1
    assert distance[10_000] < 0.01


@pytest.mark.parametrize("id", IDS)
def test_the_cost_of_an_online_state_does_not_depend_on_the_rounds(id: str) -> None:
    """No array grows with the horizon or with what was learned."""
    visits = make_visits(30, seed=10, empty=0.0)
    sizes = set()
    for rounds in (None, 10, 10**6):
        policy = select_rank(id, replace(ucr_setting(visits), rounds=rounds))
        fresh, old = policy.init(2), feed(policy, visits)
        assert isinstance(old.belief, OnlineState)
        for state in (fresh, old):
            sizes.add(tuple((name, array.shape) for name, array in state.arrays()))
    assert len(sizes) == 1


# ---------------------------------------------------------------------------- weights and lists


@pytest.mark.parametrize("id", ["ucr", "feature-ucr"])
def test_a_score_is_the_log_odds_plus_bonus_times_xi_times_the_width(id: str) -> None:
    visits = make_visits(30, seed=11, empty=0.0)
    L, dx = visits.L, 2
    policy = select_rank(id, ucr_setting(visits), xi=0.7, bonus=2.0)
    state = feed(policy, visits)
    score = policy.policy.explore(state.belief, state.t, rng())
    request = visits.request(29)
    for slot in range(2):
        u = score(policy.policy.design.rows(request, NOTHING, slot))
        assert u.shape == (2, L)
        for b in range(2):
            x = visits.context[29, b]
            for item in range(L):
                own = np.eye(L)[item]
                z = [slot + 1.0, *x]
                if id == "feature-ucr":
                    z += [*own, *np.outer(x, own).ravel()]
                    assert len(z) == 1 + dx + L + dx * L
                model = item if id == "ucr" else 0
                theta, covariance = state.belief.theta[b, model], inverse(state.belief.F[b, model])
                agree(u[b, item], np.array(z) @ theta + 2.0 * 0.7 * math.sqrt(np.array(z) @ covariance @ np.array(z)))


def test_without_bonus_ucr_is_g_mle() -> None:
    visits = make_visits(30, seed=12)
    lists = []
    for policy in (select_rank("ucr", ucr_setting(visits), xi=0.0), select_rank("g-mle", ucr_setting(visits))):
        state = feed(policy, visits)
        lists.append(policy.decide(state, visits.request(0), rng()).items.tolist())
    assert lists[0] == lists[1]


@pytest.mark.parametrize("objective", [AnyClick(), Clicks(), Revenue(np.array([1.0, 5.0, 2.0, 0.5]))])
def test_ucr_shows_the_list_that_the_objective_values_most(objective: Objective) -> None:
    """Against all 4·3 lists: the optimistic probabilities of its slots, valued as the objective says."""
    visits = make_visits(30, seed=13, B=5)
    policy = select_rank("ucr", ucr_setting(visits, objective=objective))
    state, request = feed(policy, visits), visits.request(0)
    score = policy.policy.explore(state.belief, state.t, rng())
    p = [expit(score(policy.policy.design.rows(request, NOTHING, slot))) for slot in range(2)]
    lists = policy.decide(state, request, rng()).items
    for b in range(5):
        every = np.array([[i, j] for i in range(4) for j in range(4) if i != j])
        worth = objective.value(np.stack([p[0][b, every[:, 0]], p[1][b, every[:, 1]]], axis=1), every)
        chosen = np.flatnonzero((every == lists[b]).all(axis=1))
        agree(worth[chosen[0]], worth.max(), 1e-12)


@pytest.mark.parametrize("xi", [0.0, 1.0])
def test_one_hot_features_order_the_items_of_one_slot_like_a_model_for_each_item(xi: float) -> None:
    """Without context every item has log-odds a + w_j there and θ_j here; shown equally often, both rise with clicks.

    ridge·(u - a) + n·σ(u) = s and ridge·θ + n·σ(θ) = s are both increasing in s for equal n, and widths are equal.
    """
    L, n, clicks = 5, 12, [3, 9, 6, 0, 11]
    orders = []
    for id in ("ucr", "feature-ucr"):
        setting = Setting(L, 1, L * n, context=0)
        policy = select_rank(id, setting, fit="mle", xi=xi)
        state, request = policy.init(1), Request(1, L, 1, context=np.empty((1, 0)))
        for r in range(n):
            for item in range(L):
                policy.learn(state, policy.adopt(request, [[item]]), [[float(r < clicks[item])]])
        u = policy.policy.explore(state.belief, state.t, rng())(policy.policy.design.rows(request, NOTHING, 0))
        orders.append(np.argsort(-u[0]).tolist())
        assert policy.decide(state, request, rng()).items.tolist() == [[4]]
    assert orders[0] == orders[1] == [4, 1, 2, 0, 3]


# ---------------------------------------------------------------------------- the first rounds


@pytest.mark.parametrize("fit", ["mle", "online"])
def test_lists_are_random_in_the_rounds_before_t0_only(fit: str) -> None:
    """12,000 learners and 4·3 = 12 lists in each of rounds 1 to 4: chi-square, each fails for one seed in 10,000."""
    B, L, K, T0 = 12_000, 4, 2, 5
    policy = select_rank("g-mle", Setting(L, K, 2, context=0), fit=fit, T0=T0)
    state, request, draw = policy.init(B), Request(B, L, K, context=np.empty((B, 0))), rng(14)
    # z = k: the log-odds are k·θ. Any-click adds softplus(kθ): slot 2 to the best item, slot 1 to the next.
    state.belief.theta[:, :, 0] = [0.1, 0.2, 0.3, 0.4]
    for t in range(1, 8):
        state.t[...] = t
        lists = policy.decide(state, request, draw).items
        if t < T0:
            assert_uniform(count_lists(lists, L))
        else:
            assert (lists == [2, 3]).all()


def test_learners_in_their_first_rounds_do_not_disturb_the_others() -> None:
    B, L, K = 1_000, 4, 2
    policy = select_rank("g-mle", Setting(L, K, context=0))
    state, request = policy.init(B), Request(B, L, K, context=np.empty((B, 0)))
    state.belief.theta[:, :, 0] = [0.1, 0.2, 0.3, 0.4]
    state.t[::2] = 5
    lists = policy.decide(state, request, rng(15)).items
    assert (lists[::2] == [2, 3]).all()
    assert len({tuple(row) for row in lists[1::2].tolist()}) == L * (L - 1)


def test_random_lists_are_learned_from() -> None:
    visits = make_visits(3, seed=16, empty=0.0)
    policy = select_rank("ucr", ucr_setting(visits))
    state = feed(policy, visits)
    assert (state.t == 4).all()
    for b in range(2):
        shown = set(visits.items[:, b].ravel().tolist())
        assert {item for item in range(visits.L) if state.belief.theta[b, item].any()} == shown


# ---------------------------------------------------------------------------- learning in batches


def assert_batches(inner: Any, every: int, dim: int, visits: Visits) -> None:
    """Nothing is learned before n rounds, then what learning them one by one gives."""
    _, B, K = visits.items.shape
    batched = EveryN(inner, every, K)
    state, plain = batched.init(B), inner.init(B)
    assert not state.x.size or state.x.shape == (B, every, K, dim)
    held = plain.copy()
    for t in range(len(visits.items)):
        items, clicks = visits.items[t], visits.clicks[t]
        decided = batched.decide(state, visits.request(t), rng(t)).items
        assert decided.tolist() == inner.decide(held, visits.request(t), rng(t)).items.tolist()
        batched.learn(state, batched.adopt(visits.request(t), items), clicks)
        inner.learn(plain, inner.adopt(visits.request(t), items), clicks)
        assert state.t.tolist() == [t + 2] * B
        if (t + 1) % every == 0:
            held = plain.copy()
        assert snapshot(state.inner) == snapshot(held)


@pytest.mark.parametrize("every", [1, 3, 7])
@pytest.mark.parametrize("fit", ["online", "mle"])
def test_every_n_with_contexts_that_change_from_round_to_round(fit: str, every: int) -> None:
    visits = make_visits(15, seed=17)
    assert_batches(select_rank("ucr", ucr_setting(visits), fit=fit).policy, every, 3, visits)


@pytest.mark.parametrize("id", ["gts", "cascade-ucb1"])
def test_every_n_without_features(id: str) -> None:
    visits = make_visits(14, seed=18)
    single = visits.clicks * (np.cumsum(visits.clicks, axis=2) == 1)
    assert_batches(build(id, Setting(visits.L, 2)), 4, 0, replace(visits, clicks=single))


def test_every_n_keeps_shorter_lists_than_it_has_slots_for() -> None:
    visits = make_visits(8, seed=19, K=2)
    inner = select_rank("ucr", replace(ucr_setting(visits), slots=4)).policy
    batched: EveryN[Any] = EveryN(inner, every=4, slots=4)
    assert snapshot(feed(batched, visits).inner) == snapshot(feed(inner, visits))


def test_every_n_decides_without_changing_its_state() -> None:
    visits = make_visits(5, seed=20)
    batched: EveryN[Any] = EveryN(select_rank("ucr", ucr_setting(visits)).policy, 3, 2)
    state = feed(batched, visits)
    before = snapshot(state)
    batched.decide(state, visits.request(0), rng())
    assert snapshot(state) == before


# ---------------------------------------------------------------------------- objectives


def test_gain_of_any_click_is_softplus_and_does_not_saturate() -> None:
    """-log(1 - σ(u)) = log(1 + eᵘ) is u + e⁻ᵘ up to e⁻²ᵘ; at u = 50, 1 - σ(u) is already nothing in a double."""
    u = np.array([[-2.0, 0.0, 3.0]])
    agree(AnyClick().gain(u), [[-math.log(1 - 1 / (1 + math.exp(-v))) for v in u[0]]], 1e-12)
    assert 1 - expit(50.0) == 0.0
    assert AnyClick().gain(np.array([[50.0]])).tolist() == [[50.0 + math.exp(-50)]]
    gains = AnyClick().gain(np.array([[40.0, 50.0, 700.0, 5000.0]]))[0]
    assert np.isfinite(gains).all()
    assert (np.diff(gains) > 0).all()
    assert AnyClick().gain(np.array([[np.inf]]))[0, 0] == math.inf


def test_gains_of_clicks_revenue_and_amount() -> None:
    u, prices = np.array([[-1.0, 0.0, 2.0]]), np.array([3.0, 4.0, 5.0])
    chance = [1 / (1 + math.exp(1)), 1 / 2, 1 / (1 + math.exp(-2))]
    agree(Clicks().gain(u), [chance], 1e-14)
    agree(Revenue(prices).gain(u), [[3 * chance[0], 4 * chance[1], 5 * chance[2]]], 1e-14)
    assert Amount().gain(u).tolist() == [[0.0, 0.0, 2.0]]


def test_values_and_rewards_of_a_list() -> None:
    """A list with an empty last slot, whose click probability is 0."""
    items, p = np.array([[2, 0, EMPTY]]), np.array([[0.5, 0.2, 0.0]])
    both = np.array([[1.0, 1.0, 0.0]])
    prices = np.array([3.0, 4.0, 5.0])
    agree(AnyClick().value(p, items), [1 - (1 - 0.5) * (1 - 0.2)], 1e-14)
    agree(Clicks().value(p, items), [0.5 + 0.2], 1e-14)
    agree(Revenue(prices).value(p, items), [5 * 0.5 + 3 * 0.2], 1e-14)
    agree(Amount().value(np.array([[12.0, 3.5, 0.0]]), items), [12 + 3.5], 1e-14)
    assert AnyClick().reward(both, items).tolist() == [1.0]
    assert AnyClick().reward(np.zeros((1, 3)), items).tolist() == [0.0]
    assert Clicks().reward(both, items).tolist() == [2.0]
    assert Revenue(prices).reward(both, items).tolist() == [5.0 + 3.0]
    assert Amount().reward(np.array([[12.0, 3.5, 0.0]]), items).tolist() == [15.5]


@given(st.lists(st.floats(-8.0, 8.0), min_size=1, max_size=6), st.integers(0, 10**6))
@settings(deadline=None)
def test_a_value_is_increasing_in_the_sum_of_gains(scores: list[float], seed: int) -> None:
    """H(Σ g) with H(s) = 1 - e⁻ˢ for any-click and H(s) = s for the others."""
    u = np.array([scores])
    p, items = expit(u), np.arange(len(scores))[None, :]
    prices = rng(seed).uniform(0.0, 5.0, len(scores))
    agree(AnyClick().value(p, items), 1 - np.exp(-AnyClick().gain(u).sum(axis=1)), 1e-9)
    agree(Clicks().value(p, items), Clicks().gain(u).sum(axis=1))
    agree(Revenue(prices).value(p, items), Revenue(prices).gain(u).sum(axis=1))
    agree(Amount().value(np.abs(u), items), Amount().gain(np.abs(u)).sum(axis=1))


def test_beyond_the_horizon_an_exact_fit_is_that_of_the_last_rows() -> None:
    """The estimate depends on the rows that are kept, however many came before them; V has seen all of them."""
    policy = select_rank("ucr", Setting(2, 2, 3, context=1), fit="mle")
    short, long = policy.init(1), policy.init(1)
    lists = [([[0, 1]], [[1, 0]]), ([[1, 0]], [[0, 1]]), ([[0, 1]], [[0, 0]])]
    for n, state in ((1, short), (3, long)):
        for t in range(3 * n):
            items, clicks = lists[t % 3]
            request = Request(1, 2, 2, context=np.full((1, 1), 0.5))
            policy.learn(state, policy.adopt(request, items), clicks)
    agree(short.belief.theta, long.belief.theta, 1e-6)
    assert (long.belief.n == 9).all()
    assert (np.abs(long.belief.F) < np.abs(short.belief.F)).any()


@pytest.mark.parametrize("id", ["ucr", "cascade-ucb1", "cascade-lin-ts", "gts"])
def test_any_policy_may_learn_in_batches(id: str) -> None:
    """With `every: 4`, nothing is learned in three rounds, and after the fourth what four rounds teach."""
    setting = Setting(4, 2, 20, 3, context=2)
    batched, plain = (catalogue.build(id, setting, **more) for more in ({"every": 4}, {}))
    x, context = rng().standard_normal((4, 3)), rng().standard_normal((1, 2))
    request = Request(1, 4, 2, features=x, context=context)
    held: Any = batched.init(1)
    state = plain.init(1)
    before = snapshot(held.inner)
    for r in range(4):
        assert snapshot(held.inner) == before
        batched.learn(held, batched.adopt(request, [[r % 4, (r + 1) % 4]]), [[float(r == 1), 0.0]])
        plain.learn(state, plain.adopt(request, [[r % 4, (r + 1) % 4]]), [[float(r == 1), 0.0]])
    assert snapshot(held.inner) == snapshot(state)


def test_policies_that_choose_when_they_learn_refuse_batches() -> None:
    with pytest.raises(Unsupported, match="epoch-ucb decides by itself when it learns"):
        catalogue.build("epoch-ucb", Setting(3, 2, 10, bias=np.array([1.0, 0.5])), every=3)
    with pytest.raises(InvalidInput, match="every is 0"):
        catalogue.build("gts", Setting(3, 2, 10), every=0)
