"""Hashed sparse rows: what they are, and beliefs about them that keep the diagonal of a covariance."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from _pytest.mark import ParameterSet
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import agree
from rankloop import catalogue
from rankloop.belief import Diagonal, DiagonalLaplace, DiagonalNewton, DiagonalRidge, DiagonalState
from rankloop.checks import Law, Make, laws
from rankloop.design import Hashed, PerSlot, Shared
from rankloop.design.shared import TAKE_HASHED
from rankloop.errors import InvalidInput, Unsupported
from rankloop.features import RankerFeatures, freeze
from rankloop.math import diagonal_kernels
from rankloop.math.hashing import _mixed
from rankloop.math.item_normals import item_normals
from rankloop.math.logistic import sigmoid
from rankloop.schema import FeatureSettings
from rankloop.types import Decision, Evidence, FloatArray, IntArray, Products, Request, Rows, Setting

N, P, M = 16, 5, 2
BELIEFS = (
    DiagonalRidge(P, N, ridge=0.5, rate=2.0, models=M),
    DiagonalLaplace(P, N, ridge=0.5, models=M),
    DiagonalNewton(P, N, ridge=0.5, rate=3.0, models=M),
)


def sparse(rng: np.random.Generator, *shape: int, positions: int = P, coefficients: int = N) -> FloatArray:
    """Return random sparse rows [*shape, 2·positions], with unused positions and collisions."""
    values = rng.standard_normal((*shape, positions)) * (rng.random((*shape, positions)) < 0.8)
    at = rng.integers(0, coefficients, (*shape, positions)).astype(float)
    return np.concatenate([values, at], axis=-1)


def dense(x: FloatArray, coefficients: int = N) -> FloatArray:
    """Return the same rows with a column for each coefficient, [..., N]."""
    positions = x.shape[-1] // 2
    one_hot = np.eye(coefficients)[x[..., positions:].astype(int)]
    return np.asarray((x[..., :positions, None] * one_hot).sum(axis=-2))


def reference(belief: Diagonal, x: FloatArray, model: IntArray, y: FloatArray, e: FloatArray) -> DiagonalState:
    """Return the state after lists [T, K] of one learner, by dense formulas for the precision and the mean."""
    state = belief.init(1)
    for t in range(len(y)):
        for k in np.flatnonzero(e[t]):
            theta, v = state.theta[0, model[t, k]], state.variance[0, model[t, k]]
            row = dense(x[t, k]) * e[t, k]
            z = row @ theta
            w, r = {
                "DiagonalRidge": (belief.rate, belief.rate * (y[t, k] - z)),
                "DiagonalLaplace": (sigmoid(z) * sigmoid(-z), y[t, k] - sigmoid(z)),
                "DiagonalNewton": (1.0, belief.rate * (2 * y[t, k] - 1) * sigmoid(-(2 * y[t, k] - 1) * z)),
            }[type(belief).__name__]
            posterior = np.linalg.inv(np.diag(1.0 / v) + w * np.outer(row, row))
            theta += posterior @ row * r
            v[:] = np.diag(posterior)
    return state


def lessons(rng: np.random.Generator, belief: Diagonal, T: int, K: int) -> tuple[Decision, Evidence]:
    x, model = sparse(rng, T, K), rng.integers(0, M, (T, K))
    e = (rng.random((T, K)) < 0.7).astype(float)
    if belief.fractional:
        e *= rng.random((T, K))
    y = (rng.random((T, K)) < 0.5) * (e > 0)
    request = Request(T, 9, K)
    return Decision(np.tile(np.arange(K), (T, 1)), Rows(model, x), request), Evidence(y.astype(float), e)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), belief=st.sampled_from(BELIEFS), T=st.integers(1, 6), K=st.integers(1, 4))
def test_an_observation_is_learned_exactly_and_its_covariances_are_dropped(
    seed: int, belief: Diagonal, T: int, K: int
) -> None:
    """The state equals that of dense matrices, of which the diagonal is kept; the batch equals single updates."""
    decisions, evidence = lessons(np.random.default_rng(seed), belief, T, K)
    rows = decisions.rows
    assert rows.x is not None
    state, batch = belief.init(1), belief.init(1)
    assert belief.catch_up(batch, decisions, evidence)
    for t in range(T):
        one = slice(t, t + 1)
        single = Decision(decisions.items[one], Rows(rows.models()[one], rows.x[one]), Request(1, 9, K))
        belief.update(state, single, Evidence(evidence.y[one], evidence.exposure[one]))
    wanted = reference(belief, rows.x, rows.models(), evidence.y, evidence.exposure)
    for name, array in state.arrays():
        assert (array == dict(batch.arrays())[name]).all()
        agree(array, dict(wanted.arrays())[name], 1e-12)


def taught(belief: Diagonal, rng: np.random.Generator, learners: int = 2) -> Any:
    decision, evidence = lessons(rng, belief, learners, 4)
    state = belief.init(learners)
    for _ in range(5):
        belief.update(state, decision, evidence)
    return state


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), belief=st.sampled_from(BELIEFS), per_learner=st.booleans())
def test_answers_are_those_of_dense_rows(seed: int, belief: Diagonal, per_learner: bool) -> None:
    rng = np.random.default_rng(seed)
    state, L = taught(belief, rng), 6
    x = sparse(rng, 2, L) if per_learner else sparse(rng, L)
    whole = np.broadcast_to(dense(x), (2, L, N))
    for model in (0, 1, rng.integers(0, M, L)):
        theta, v = (a[:, np.broadcast_to(model, (L,))] for a in (state.theta, state.variance))
        agree(state.mean(Rows(model, x)), (whole * theta).sum(axis=2), 1e-12)
        agree(state.width(Rows(model, x)), np.sqrt((whole**2 * v).sum(axis=2)), 1e-12)
    draw = state.draw(np.array([0.0, 1.5]), np.random.default_rng(seed))
    unit = np.concatenate([np.ones((N, 1)), np.arange(float(N))[:, None]], axis=1)
    sampled = draw(Rows(1, unit))  # θ̃ itself
    agree(sampled[0], state.theta[0, 1], 1e-12)
    agree(draw(Rows(1, x)), np.vecdot(whole, sampled[:, None]), 1e-9)


def test_draws_have_the_mean_and_the_variance() -> None:
    """Over 2^14 coefficients; a sum of squares of standard normals is within 5 of its standard deviations of it."""
    belief, n = DiagonalRidge(1, 2**14, ridge=4.0), 2**14
    unit = np.concatenate([np.ones((n, 1)), np.arange(float(n))[:, None]], axis=1)
    state = belief.init(2)
    one, other = state.draw(3.0, np.random.default_rng(1))(Rows(0, unit)) / (3.0 / 2.0)
    for z in (one, other, (one + other) / np.sqrt(2.0), (one[1:] + one[:-1]) / np.sqrt(2.0)):
        assert abs(z.sum()) < 5.0 * np.sqrt(len(z))
        assert abs((z**2).sum() - len(z)) < 5.0 * np.sqrt(2.0 * 2 * len(z))  # neighbours' sums are correlated by 1/2


def test_the_normal_of_a_coefficient_is_that_of_an_item() -> None:
    n = 4096
    state = DiagonalRidge(1, n).init(1)
    unit = np.concatenate([np.ones((n, 1)), np.arange(float(n))[:, None]], axis=1)
    key = int(np.random.default_rng(5).integers(0, 2**64, dtype=np.uint64))
    agree(state.draw(1.0, np.random.default_rng(5))(Rows(0, unit))[0], item_normals(key, n), 1e-12)


def test_compiled_kernels_equal_their_plain_forms() -> None:
    rng = np.random.default_rng(3)
    items, context = sparse(rng, 2, 4, positions=3), sparse(rng, 2, positions=2)
    pairs = np.array([[0, 1], [1, 2], [1, 0]])
    plain, fast = np.zeros((2, 2, 4, 16))
    diagonal_kernels._sparse_rows(items, context, pairs, N - 1, plain)
    diagonal_kernels.sparse_rows(items, context, pairs, N - 1, fast)
    assert (plain == fast).all()
    for belief in BELIEFS:
        decision, evidence = lessons(rng, belief, 2, 4)
        states = [belief.init(2) for _ in range(2)]
        for state, run in zip(states, (diagonal_kernels._learn_diagonal, diagonal_kernels.learn_diagonal), strict=True):
            slots = np.full(32, -1)
            x, model = decision.rows.x, decision.rows.models()
            given_y = (evidence.y, evidence.exposure)
            run(state.theta, state.variance, belief.kind, belief.rate, model, x, *given_y, slots, False)  # type: ignore[arg-type]
            assert (slots == -1).all()
        agree(states[0].theta, states[1].theta, 1e-13)
        agree(states[0].variance, states[1].variance, 1e-13)


@given(st.integers(0, 2**22 - 1), st.integers(0, 2**22 - 1))
def test_mixed_coefficients_are_in_range(i: int, j: int) -> None:
    assert 0 <= _mixed(i, j, 255) <= 255


def test_mixed_coefficients_collide_as_random_ones_do() -> None:
    """Of 2^15 pairs in 2^18 cells, n²/2m = 2048 collide; five standard deviations are about 5·√2048 = 226."""
    m = 2**18
    for i, j in ((range(256), range(128)), (range(0, 256 * 1024, 1024), range(7, 128 * 512, 512))):
        found = {_mixed(a, b, m - 1) for a in i for b in j}
        n = len(i) * len(j)
        wanted = n - m * (1.0 - np.exp(-n / m))
        assert abs(n - len(found) - wanted) < 226
    assert _mixed(3, 5, m - 1) != _mixed(5, 3, m - 1)


@pytest.mark.parametrize("products", [None, Products(np.array([[1, 0], [0, 2]]))])
def test_rows_are_context_item_and_products(products: Products | None) -> None:
    rng = np.random.default_rng(4)
    items, context = sparse(rng, 4, positions=3), sparse(rng, 2, positions=2)
    design = Hashed(6, N, 4, products)
    pairs = [(c, p) for c in range(2) for p in range(3)] if products is None else products.pairs.tolist()
    assert design.row_features == 2 * (2 + 3 + len(pairs)) == design.width
    request = Request(2, 4, 2, items, context)
    rows = design.rows(request, np.empty((2, 0), dtype=np.int64), 0).x
    assert rows is not None
    for b in range(2):
        for i in range(4):
            values = [*context[b, :2], *items[i, :3], *(context[b, c] * items[i, p] for c, p in pairs)]
            at = [*context[b, 2:], *items[i, 3:]]
            mixed = [_mixed(int(items[i, 3 + p]), int(context[b, 2 + c]), N - 1) for c, p in pairs]
            assert rows[b, i, : len(values)].tolist() == values
            used = np.array(values) != 0.0
            assert (rows[b, i, len(values) :][used] == np.array([*at, *mixed])[used]).all()
    lists = np.array([[2, 0], [3, 1]])
    picked = design.pick(request, lists).x
    assert picked is not None
    assert (picked == np.stack([rows[b, lists[b]] for b in range(2)])).all()


def test_rows_of_other_lengths_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"setting\.dim is 3; accepted: an even number"):
        Hashed(3, N)
    with pytest.raises(InvalidInput, match=r"setting\.hashed is 12; accepted: a power of two"):
        Hashed(4, 12)
    with pytest.raises(InvalidInput, match=r"request\.features is 6 numbers a row; accepted: 4 numbers"):
        Hashed(4, N).rows(Request(1, 2, 1, np.zeros((2, 6))), np.empty((1, 0), dtype=np.int64), 0)
    belief = BELIEFS[0]
    decision = Decision(
        np.zeros((1, 1), dtype=np.int64), Rows(np.full((1, 1), M), np.zeros((1, 1, 2 * P))), Request(1, 9, 1)
    )
    with pytest.raises(ValueError, match="do not fit"):
        belief.update(belief.init(1), decision, Evidence(np.ones((1, 1)), np.ones((1, 1))))


@pytest.mark.parametrize("entry", catalogue.entries(), ids=lambda entry: entry.id)
def test_every_policy_takes_hashed_rows_or_refuses_them(entry: Any) -> None:
    """A policy that reads features or a context either takes hashed rows, or names those that do."""
    prior = None
    setting = Setting(4, 2, 100, dim=4, context=4, hashed=N, prior=prior, coverage=2, bias=np.ones(2))
    params = {"a": 1.0, "b": 1.0} if "prior" in entry.needs else {}
    if entry.id in TAKE_HASHED:
        policy: Any = catalogue.build(entry.id, setting)
        assert getattr(policy, "inner", policy).belief.row_features == 2 * (2 + 2 + 4)
        return
    try:
        policy = catalogue.build(entry.id, setting, **params)
    except Unsupported as error:
        assert "hashed into 16 coefficients; choose one of cascade-lin-ts" in str(error)  # noqa: PT017
    else:
        assert not policy.reads & {"features", "context"}


# ---------------------------------------------------------------------------- laws


@dataclass(frozen=True)
class Packed(Hashed):
    """Takes dense features and contexts, as the laws bring them, and makes sparse ones of them."""

    def _crossed(self, request: Request, items: FloatArray) -> FloatArray:
        context = None if request.context is None else _packed(request.context, 64)
        fields = {name: getattr(request, name) for name in Request.__slots__}
        return super()._crossed(Request.trusted(**{**fields, "context": context}), _packed(items, 0))


def _packed(x: FloatArray, first: int) -> FloatArray:
    at = np.broadcast_to(first + np.arange(float(x.shape[-1])), x.shape)
    return np.ascontiguousarray(np.concatenate([x, at], axis=-1))


def hashed(id: str) -> Make:
    def make(setting: Setting) -> Any:
        own = setting.read_as(setting.feedback or "")  # a copy that still records what is read
        object.__setattr__(own, "feedback", setting.feedback)
        for name in ("dim", "context"):
            value = getattr(setting, name)
            object.__setattr__(own, name, None if value is None else 2 * value)
        object.__setattr__(own, "hashed", 256)
        policy: Any = catalogue.build(id, own)
        design = policy.design
        shared: Any = design.shared if isinstance(design, PerSlot) else design
        packed = Packed(shared.dim, shared.coefficients, shared.context, shared.products)
        return replace(policy, design=PerSlot(of=packed) if isinstance(design, PerSlot) else packed)

    return make


def all_laws() -> list[ParameterSet]:
    return [pytest.param(law, id=f"{id}:{law.name}") for id in TAKE_HASHED for law in laws(hashed(id), learns=True)]


@pytest.mark.parametrize("law", all_laws())
def test_policies_keep_every_law_with_hashed_rows(law: Law) -> None:
    law.check()


# ---------------------------------------------------------------------------- with named fields


def test_a_policy_learns_from_named_fields() -> None:
    """Visitors on phones click tea, others mugs: after 400 lists at least 80 % of the lists show it first.

    At random it is one in two. A seed; the share was 93 % to 97 % with ten other seeds.
    """
    settings = FeatureSettings.of(
        {"items": {"category": "category"}, "context": {"device": "category"}, "hashed": 2**12}
    )
    features = RankerFeatures(settings)
    items = [{"category": "tea"}, {"category": "mugs"}]
    table, rng = features.items.encode(items), np.random.default_rng(7)
    setting = Setting(
        2, 1, dim=features.dim, context=features.context_width, products=features.products, hashed=features.hashed
    )
    assert features.context is not None
    policy: Any = catalogue.build("lin-ts-ltr", setting)
    state, right = policy.init(1), 0
    for t in range(600):
        phone = rng.random() < 0.5
        context = features.context.encode([{"device": "phone" if phone else "desk"}])
        decision = policy.decide(state, Request(1, 2, 1, table, context), rng)
        best = decision.items[0, 0] == (0 if phone else 1)
        click = rng.random() < (0.8 if best else 0.2)
        policy.learn(state, decision, np.array([[float(click)]]))
        right += int(best) if t >= 400 else 0
    assert right >= 160


def _share_of_best(hashed: int | None, seed: int, rounds: int = 1500, L: int = 200, k: int = 5) -> float:
    """Return the expected clicks in a shop of 8 categories, as a share of the best list's."""
    rng = np.random.default_rng(seed)
    taste, category, price = rng.normal(size=8), rng.integers(0, 8, L), rng.normal(2.5, 0.8, L)
    p = sigmoid(taste[category] - 0.6 * price)
    items = [{"price": float(np.exp(price[i])), "category": f"c{category[i]}"} for i in range(L)]
    fields = {"price": {"kind": "number", "transform": "log"}, "category": {"kind": "category", "categories": 8}}
    features = RankerFeatures(freeze(FeatureSettings.of({"items": fields, "hashed": hashed}), items, []))
    features.items.learn(items)
    table, setting = features.items.encode(items), Setting(L, k, dim=features.dim, hashed=features.hashed)
    policy: Any = catalogue.build("lin-ts-ltr", setting, feedback="semi-bandit")
    state, found = policy.init(1), 0.0
    for _ in range(rounds):
        decision = policy.decide(state, Request(1, L, k, table), rng)
        found += p[decision.items].sum()
        policy.learn(state, decision, (rng.random((1, k)) < p[decision.items]).astype(float))
    return float(found / (rounds * np.sort(p)[-k:].sum()))


def test_hashed_categories_earn_what_dense_ones_do() -> None:
    """At least 95 % of the clicks, over three shops; a single pair of runs differs by about one percent."""
    dense_share, hashed_share = (sum(_share_of_best(hashed, seed) for seed in range(3)) for hashed in (None, 2**18))
    assert hashed_share >= 0.95 * dense_share


def test_a_wide_dense_design_is_not_hashed_by_itself() -> None:
    assert isinstance(catalogue.build("lin-ts-ltr", Setting(4, 2, dim=600)).design, Shared)  # type: ignore[attr-defined]
