"""Rows that differ between requests: features crossed with a context, and features that a request brings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit

from helpers import agree, inverse
from rankloop import catalogue
from rankloop.belief import LogisticMAP, LogisticRows, OnlineLogistic, RecursiveLaplace, Ridge
from rankloop.design import Crossed, Shared
from rankloop.errors import InvalidInput, Unsupported
from rankloop.explore import Greedy, Thompson
from rankloop.feedback import SemiBandit
from rankloop.math.crossed import crossed
from rankloop.math.linear import features_of
from rankloop.plan import TopK
from rankloop.policy import Policy
from rankloop.types import FloatArray, Products, Request, Rows, Setting

SHARED = (
    "cascade-lin-ts",
    "cascade-lin-ucb",
    "ranked-lin-ts",
    "lin-ts-ltr",
    "lin-ts-cascade",
    "cascade-woful",
    "log-ts-ltr",
    "log-ts-newton",
    "ind",
    "eps-ind",
    "c-ucb1",
    "gl-cdcm",
    "feature-ucr",
)
"""Policies with one linear or logistic model for all items."""
NOTHING = np.empty((2, 0), dtype=np.int64)


# ---------------------------------------------------------------------------- features crossed with the context


def test_crossed_rows_are_context_features_and_products() -> None:
    request = Request(2, 2, 1, np.array([[2.0, 3.0], [5.0, 7.0]]), np.array([[11.0], [13.0]]))
    design = Crossed(2, 1)
    assert design.row_features == 1 + 2 + 1 * 2
    rows = features_of(design.rows(request, NOTHING, 0))
    assert rows[0].tolist() == [[11, 2, 3, 22, 33], [11, 5, 7, 55, 77]]
    assert rows[1].tolist() == [[13, 2, 3, 26, 39], [13, 5, 7, 65, 91]]
    picked = design.pick(request, np.array([[1], [0]]))
    assert features_of(picked).tolist() == [[[11, 5, 7, 55, 77]], [[13, 2, 3, 26, 39]]]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), dx=st.integers(0, 3), dy=st.integers(1, 4), per_learner=st.booleans())
def test_crossed_scores_are_those_of_the_products(seed: int, dx: int, dy: int, per_learner: bool) -> None:
    """Means, widths and draws from the factors equal those from the rows z = (x, y, x⊗y)."""
    rng = np.random.default_rng(seed)
    B, L, d = 2, 5, dx + dy + dx * dy
    y = rng.standard_normal((B, L, dy) if per_learner else (L, dy))
    x = rng.standard_normal((B, dx))
    belief = Ridge(d)
    state = belief.init(B)
    state.F[...] += 0.1 * rng.standard_normal(state.F.shape)
    state.b[...] = rng.standard_normal(state.b.shape)
    lazy = Crossed(dy, dx).rows(Request(B, L, 1, y, x), NOTHING, 0)
    dense = Rows(0, crossed(x, np.broadcast_to(y, (B, L, dy))))
    agree(state.mean(lazy), state.mean(dense), 1e-10)
    agree(state.width(lazy), state.width(dense), 1e-10)
    one, other = (state.draw(1.5, np.random.default_rng(seed))(rows) for rows in (lazy, dense))
    agree(one, other, 1e-10)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), dx=st.integers(1, 3), dy=st.integers(1, 4), per_learner=st.booleans())
def test_scores_of_selected_products_are_those_of_their_rows(seed: int, dx: int, dy: int, per_learner: bool) -> None:
    rng = np.random.default_rng(seed)
    B, L = 2, 5
    every = np.stack(np.unravel_index(rng.permutation(dx * dy), (dx, dy)), axis=1).astype(np.int64)
    selected = Products(every[: rng.integers(0, dx * dy + 1)])
    y = rng.standard_normal((B, L, dy) if per_learner else (L, dy))
    x = rng.standard_normal((B, dx))
    design = Crossed(dy, dx, selected)
    state = Ridge(design.width).init(B)
    state.F[...] += 0.1 * rng.standard_normal(state.F.shape)
    state.b[...] = rng.standard_normal(state.b.shape)
    request = Request(B, L, 2, y, x)
    lazy, lists = design.rows(request, NOTHING, 0), np.tile(np.arange(L), (B, 1))
    z = design.pick(request, lists).x
    assert z is not None
    everywhere = np.broadcast_to(y, (B, L, dy))
    wanted = [x[:, None, i] * everywhere[..., j] for i, j in selected.pairs]
    assert (z == np.concatenate([crossed(x, everywhere)[..., : dx + dy], *(w[..., None] for w in wanted)], 2)).all()
    dense = Rows(0, z)
    agree(state.mean(lazy), state.mean(dense), 1e-10)
    agree(state.width(lazy), state.width(dense), 1e-10)
    one, other = (state.draw(1.5, np.random.default_rng(seed))(rows) for rows in (lazy, dense))
    agree(one, other, 1e-10)


def test_products_of_columns_that_do_not_exist_are_refused() -> None:
    for pairs in ([[3, 0]], [[0, 2]], [[-1, 0]]):
        design = Crossed(2, 3, Products(np.array(pairs)))
        with pytest.raises(InvalidInput, match=r"products\.pairs is columns up to"):
            design.pick(Request(1, 4, 2, np.eye(4, 2), np.ones((1, 3))), np.array([[0, 1]]))
    with pytest.raises(
        InvalidInput, match=r"products\.pairs is an array of float64 of shape \(1, 2\); accepted: an array of int64"
    ):
        Products(np.zeros((1, 2)))  # type: ignore[arg-type]


@pytest.mark.parametrize("id", [*SHARED, "hybrid"])
def test_every_shared_model_takes_selected_products(id: str) -> None:
    """All pairs in their order are the same as no selection, and two pairs make rows of 3 + 2 + 2 features."""
    rng = np.random.default_rng(3)
    every = Products(np.array([[i, j] for i in range(3) for j in range(2)]))
    few = Products(np.array([[2, 0], [1, 1]]))
    y, context = rng.standard_normal((4, 2)), rng.standard_normal((1, 3))
    lists = []
    for products in (None, every, few):
        policy: Any = catalogue.build(id, Setting(4, 2, 100, 2, context=3, products=products))
        composed, state = getattr(policy, "inner", policy), policy.init(1)
        count = 2 if products is few else 6
        assert composed.belief.row_features == 3 + 2 + count + (id == "feature-ucr") + 4 * (id == "hybrid")
        draw, shown = np.random.default_rng(5), []
        for _ in range(12):
            decision = policy.decide(state, Request(1, 4, 2, y, context), draw)
            clicks = np.zeros(decision.items.shape)
            clicks[0, 0] = float(draw.random() < 0.5)
            policy.learn(state, decision, clicks)
            shown.append(decision.items.tolist())
        lists.append(shown)
    assert lists[0] == lists[1]


@pytest.mark.parametrize("id", SHARED)
def test_every_shared_model_crosses_features_with_the_context(id: str) -> None:
    """With a context of 3 numbers and 2 features, rows have 3 + 2 + 6 features, and the slot where it is one."""
    policy: Any = catalogue.build(id, Setting(4, 2, 100, 2, context=3))
    composed = getattr(policy, "inner", policy)
    assert composed.belief.row_features == 3 + 2 + 6 + (id == "feature-ucr")
    assert {"features", "context"} <= policy.reads


@pytest.mark.parametrize("id", [id for id in SHARED if id != "feature-ucr"])
def test_a_context_without_item_features_is_refused(id: str) -> None:
    with pytest.raises(Unsupported, match=f"{id} needs item features"):
        catalogue.build(id, Setting(4, 2, 100, context=3))


@pytest.mark.parametrize("id", SHARED)
@pytest.mark.parametrize("context", [None, np.zeros((1, 2))])
def test_a_context_of_another_length_is_refused(id: str, context: FloatArray | None) -> None:
    policy = catalogue.build(id, Setting(4, 2, 100, 2, context=3))
    with pytest.raises(InvalidInput, match=r"request\.context .* accepted: 3 numbers for each learner"):
        policy.adopt(Request(1, 4, 2, np.eye(4, 2), context), [[0, 1]])


# ---------------------------------------------------------------------------- logistic policies


def lessons(rng: np.random.Generator, rounds: int, L: int, d: int, K: int, *, fixed: bool) -> list[Any]:
    """Return features [L, d], lists [1, K] and clicks [1, K] of a logistic model, features the same or new."""
    theta, found, x = rng.standard_normal(d), [], rng.standard_normal((L, d))
    for _ in range(rounds):
        x = x if fixed else rng.standard_normal((L, d))
        lists = rng.permutation(L)[None, :K]
        found.append((x, lists, (rng.random((1, K)) < expit(x[lists] @ theta)).astype(float)))
    return found


def exact(data: list[Any], ridge: float) -> FloatArray:
    """Return the maximiser of the penalised likelihood of all rows, by a general optimiser."""
    x = np.concatenate([rows[lists[0]] for rows, lists, _ in data])
    y = np.concatenate([clicks[0] for _, _, clicks in data])

    def loss(theta: FloatArray) -> float:
        z = x @ theta
        return float((np.logaddexp(0.0, z) - y * z).sum() + 0.5 * ridge * theta @ theta)

    def slope(theta: FloatArray) -> FloatArray:
        return np.asarray(x.T @ (expit(x @ theta) - y) + ridge * theta)

    found: FloatArray = minimize(loss, np.zeros(x.shape[1]), jac=slope, method="BFGS", options={"gtol": 1e-10}).x
    return found


def taught(belief: Any, data: list[Any]) -> Any:
    """Return the state of one learner after these lessons."""
    policy = Policy(Shared(belief.dim), belief, Greedy(), TopK(), SemiBandit())
    state = policy.init(1)
    for x, lists, clicks in data:
        policy.learn(state, policy.adopt(Request(1, len(x), lists.shape[1], x), lists), clicks)
    return state.belief


def test_the_recursive_form_is_that_of_the_formula() -> None:
    """V += σ′xxᵀ, θ += V⁻¹x(y - σ) row by row, and the same estimate as `OnlineLogistic`, whose V sums xxᵀ."""
    data = lessons(np.random.default_rng(1), 30, 5, 3, 2, fixed=False)
    V, theta = 0.5 * np.eye(3), np.zeros(3)
    for x, lists, clicks in data:
        for item, y in zip(lists[0], clicks[0], strict=True):
            p = expit(x[item] @ theta)
            V += p * (1 - p) * np.outer(x[item], x[item])
            theta += np.linalg.solve(V, x[item]) * (y - p)
    state = taught(RecursiveLaplace(3, ridge=0.5), data)
    agree(state.theta[0, 0], theta, 1e-9)
    agree(inverse(state.F[0, 0]), np.linalg.inv(V), 1e-9)
    agree(taught(OnlineLogistic(3, 1, ridge=0.5), data).theta[0, 0], theta, 1e-9)


def test_counts_are_exact_while_rows_stay() -> None:
    data = lessons(np.random.default_rng(2), 60, 6, 3, 2, fixed=True)
    state = taught(LogisticMAP(3, 6), data)
    agree(state.theta[0, 0], exact(data, 1.0), 1e-6)
    assert not state.P.any()
    assert not state.q.any()


def test_a_fit_reads_only_observed_items_where_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    data = [(x, lists % 4, clicks) for x, lists, clicks in lessons(np.random.default_rng(8), 40, 9, 3, 1, fixed=True)]
    whole = taught(LogisticMAP(3, 9), data)
    monkeypatch.setattr("rankloop.belief.logistic.FEW_ITEMS", 0)
    part = taught(LogisticMAP(3, 9), data)
    agree(part.theta, whole.theta, 1e-9)
    agree(part.F, whole.F, 1e-9)


def test_a_former_row_becomes_a_gaussian_term_at_the_estimate() -> None:
    """After each lesson θ̂ maximises the likelihood of the present rows plus the term, computed here from its rows."""
    L, d, K = 4, 2, 2
    data = lessons(np.random.default_rng(3), 12, L, d, K, fixed=False)
    P, q, held = np.zeros((d, d)), np.zeros(d), dict[int, tuple[FloatArray, float]]()
    for n in range(len(data)):
        before = taught(LogisticMAP(d, L), data[:n]).theta[0, 0]
        x, lists, clicks = data[n]
        for item, y in zip(lists[0].tolist(), clicks[0], strict=True):
            if item in held:
                row, old = held[item]
                z = row @ before
                p = expit(z)
                P += p * (1 - p) * np.outer(row, row)
                q += (p * (1 - p) * z + old - p) * row
            held[item] = x[item], y
        state = taught(LogisticMAP(d, L), data[: n + 1])
        agree(state.P[0], P, 1e-9)
        agree(state.q[0], q, 1e-9)
        theta = state.theta[0, 0]
        slope = q - P @ theta - theta + sum((y - expit(row @ theta)) * row for row, y in held.values())
        assert np.abs(slope).max() < 1e-7
        H = np.eye(d) + P
        for row, _ in held.values():
            H += expit(row @ theta) * expit(-row @ theta) * np.outer(row, row)
        agree(inverse(state.F[0, 0]), np.linalg.inv(H), 1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_rows_that_change_without_notice_are_learned(seed: int) -> None:
    """A policy that was built for fixed rows is about as close to the exact fit of all rows as the recursive form."""
    data = lessons(np.random.default_rng(seed), 200, 5, 3, 2, fixed=False)
    best = exact(data, 1.0)
    counts, recursive = (taught(belief, data).theta[0, 0] for belief in (LogisticMAP(3, 5), RecursiveLaplace(3)))
    assert np.linalg.norm(counts - best) <= 1.5 * np.linalg.norm(recursive - best)
    assert np.linalg.norm(counts - best) < 0.1 * np.linalg.norm(best)


def test_a_prior_can_be_removed_after_another_row_was_shown() -> None:
    """Exactly while the item has its row, and up to the Gaussian approximation after it had another one."""
    x, policy = np.eye(3), Policy(Shared(3), LogisticMAP(3, 3), Greedy(), TopK(), SemiBandit())
    request, state, plain = Request(1, 3, 1, x), policy.init(1), policy.init(1)
    policy.believe(state, request, 1, 0.8, 20.0)
    policy.disbelieve(state, request, 1, 0.8, 20.0)
    agree(state.belief.theta, plain.belief.theta, 1e-8)
    policy.believe(state, request, 1, 0.8, 20.0)
    other = Request(1, 3, 1, x[[0, 2, 1]])
    for one in (state, plain):
        policy.learn(one, policy.adopt(other, [[1]]), [[1.0]])
    assert abs(state.belief.theta[0, 0, 1]) > 1.0
    policy.disbelieve(state, request, 1, 0.8, 20.0)
    agree(state.belief.theta, plain.belief.theta, 0.05)
    assert np.linalg.eigvalsh(state.belief.P).min() >= -1e-12


@pytest.mark.parametrize("mode", ["laplace", "paper"])
@pytest.mark.parametrize("given", [{"context": 2}, {"changing": True}, {"lasting": False}])
def test_log_ts_ltr_keeps_no_rows_where_they_do_not_return(mode: str, given: dict[str, Any]) -> None:
    policy: Any = catalogue.build("log-ts-ltr", Setting(4, 2, 100, 3, **given), mode=mode)
    assert policy.belief == RecursiveLaplace(policy.design.width, ridge=1.0 if mode == "laplace" else 1e-4)
    assert isinstance(policy.explore, Thompson)


def test_gl_cdcm_keeps_rows_only_where_all_of_them_fit() -> None:
    def belief(**given: Any) -> Any:
        policy: Any = catalogue.build("gl-cdcm", Setting(4, 2, dim=3, **given), lam=0.5)
        return policy.belief

    online = OnlineLogistic(3, 1, ridge=0.5, v_ridge=0.5)
    assert belief(changing=True, rounds=100) == online
    assert belief(lasting=False) == online
    assert belief(lasting=False, rounds=10**6) == online
    assert belief(lasting=False, rounds=100) == LogisticRows(3, 1, 200, ridge=0.5, v_ridge=0.5)
    with pytest.raises(Unsupported, match="stores at most 1,048,576 rows"):
        LogisticRows(3, 1, 2**20 + 1)


# ---------------------------------------------------------------------------- red and blue visitors

ROUNDS, LAST, LEARNERS = 3000, 1000, 8
CLICKS = np.array([[0.6, 0.1], [0.1, 0.6]])
"""Probability of a click by visitor and item."""
WORST_CASE = {"cascade-lin-ucb": 0.6, "lin-ts-cascade": 0.6}
"""Policies whose radius covers the worst case, and is still wide after 3,000 rounds."""
LEAST = {
    **dict.fromkeys(SHARED, 0.95),
    **WORST_CASE,
    "eps-ind": 0.88,
    # β = 1 + 8√(d log(1+m/d) log(4m²/δ)) + 4 log(4m²/δ) exceeds 150 from the 100th observation on: after all 3,000
    # the bound of an item is still 5 or more above its estimate, and a difference of 0.5 hardly shows.
    "cascade-woful": 0.51,
}


def share_of_right_items(id: str, setting: Setting, request_of: Any, seed: int) -> float:
    """Return how often visitor v, who likes item v, was shown it, in the last rounds."""
    policy, rng = catalogue.build(id, setting), np.random.default_rng(seed)
    state, right = policy.init(LEARNERS), 0
    for t in range(ROUNDS):
        visitor = rng.integers(0, 2, LEARNERS)
        decision = policy.decide(state, request_of(visitor), rng)
        item = decision.items[:, 0]
        clicked = (rng.random(LEARNERS) < CLICKS[visitor, np.maximum(item, 0)]) & (item >= 0)
        policy.learn(state, decision, clicked[:, None].astype(float))
        right += int((item == visitor).sum()) if t >= ROUNDS - LAST else 0
    return right / (LAST * LEARNERS)


@pytest.mark.parametrize("id", SHARED)
def test_red_and_blue_visitors_differ_by_their_context(id: str) -> None:
    """8,000 lists: the least share is at least 5 standard errors below what the policies reach."""
    setting = Setting(2, 1, ROUNDS, 2, context=1)
    kinds = np.array([[1.0], [-1.0]])
    share = share_of_right_items(id, setting, lambda v: Request(LEARNERS, 2, 1, np.eye(2), kinds[v]), seed=5)
    assert share >= LEAST[id]


@pytest.mark.parametrize("id", SHARED)
def test_red_and_blue_visitors_differ_by_the_features_of_the_request(id: str) -> None:
    """x_i(visitor): the first feature says whether the item is what this visitor likes."""
    context = 0 if id == "feature-ucr" else None
    setting = Setting(2, 1, ROUNDS, 2, context=context, changing=True)
    rows = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]])
    empty = None if context is None else np.empty((LEARNERS, 0))
    share = share_of_right_items(id, setting, lambda v: Request(LEARNERS, 2, 1, rows[v], empty), seed=6)
    assert share >= LEAST[id]


@pytest.mark.parametrize("id", ["log-ts-ltr", "gl-cdcm"])
def test_policies_that_count_learn_features_of_the_request_without_notice(id: str) -> None:
    """As above, where the setting does not say that rows change."""
    rows = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]])
    setting = Setting(2, 1, ROUNDS, 2)
    share = share_of_right_items(id, setting, lambda v: Request(LEARNERS, 2, 1, rows[v]), seed=7)
    assert share >= 0.95
