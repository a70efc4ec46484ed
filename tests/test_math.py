"""The numerical pieces against plain linear algebra and plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import expit

from helpers import RARE, agree, assert_uniform, inverse
from rankloop.belief.counts import add_at
from rankloop.math import counter_rng, factor, logistic
from rankloop.math.bernoulli import kl
from rankloop.math.columns import take
from rankloop.math.kernels import largest
from rankloop.math.linear import dot, norm
from rankloop.types import EMPTY, FloatArray

B, M, K, D = 3, 4, 5, 6


def rows(seed: int = 0) -> FloatArray:
    return np.random.default_rng(seed).standard_normal((B, K, D))


# ---------------------------------------------------------------------------- factors


@pytest.mark.parametrize("precision", [1e-4, 1.0, 30.0])
def test_initial_factor_is_of_the_prior_precision(precision: float) -> None:
    F = factor.initial(B, M, D, precision)
    for V_inverse in inverse(F).reshape(-1, D, D):
        agree(V_inverse @ (precision * np.eye(D)), np.eye(D), 1e-14)


@pytest.mark.parametrize("precision", [1e-4, 1.0, 30.0])
def test_factor_after_rows_inverts_the_precision_that_holds_them(precision: float) -> None:
    x, F = rows(), factor.initial(B, 1, D, precision)
    factor.add_rows(F, 0, x)
    for b in range(B):
        V = precision * np.eye(D) + sum(np.outer(row, row) for row in x[b])
        agree(inverse(F[b, 0]) @ V, np.eye(D), 1e-9)


def test_gain_is_the_new_inverse_precision_times_the_row() -> None:
    x, F = rows(), factor.initial(B, 1, D, 0.5)
    gain = factor.add_rows(F, 0, x)
    for b in range(B):
        V = 0.5 * np.eye(D)
        for k in range(K):
            V += np.outer(x[b, k], x[b, k])
            agree(gain[b, k], np.linalg.inv(V) @ x[b, k])


def test_rows_go_to_the_model_of_their_slot() -> None:
    x = rows()
    per_slot = np.array([3, 0, 3, 1, 2])
    per_learner = np.random.default_rng(1).integers(0, M, (B, K))
    for model in (per_slot, per_learner):
        F = factor.initial(B, M, D, 2.0)
        factor.add_rows(F, model, x)
        for b in range(B):
            V = np.stack([2.0 * np.eye(D)] * M)
            for k, m in enumerate(np.broadcast_to(model, (B, K))[b]):
                V[m] += np.outer(x[b, k], x[b, k])
            agree(inverse(F[b]), np.linalg.inv(V))


def test_zero_rows_change_no_bit_even_in_the_model_of_an_empty_slot() -> None:
    F = factor.initial(B, M, D, 1.0)
    factor.add_rows(F, 1, rows())
    before = F.copy()
    gain = factor.add_rows(F, np.full((B, K), EMPTY), np.zeros((B, K, D)))
    assert F.tobytes() == before.tobytes()
    assert not gain.any()


def test_add_rows_takes_rows_that_are_not_contiguous_and_leaves_them_alone() -> None:
    wide = np.random.default_rng(2).standard_normal((B, K, 2 * D))
    view, kept = wide[:, :, ::2], wide.copy()
    F, G = factor.initial(B, 1, D, 1.0), factor.initial(B, 1, D, 1.0)
    factor.add_rows(F, 0, view)
    factor.add_rows(G, 0, view.copy())
    assert F.tobytes() == G.tobytes()
    assert wide.tobytes() == kept.tobytes()


def test_solve_width_and_from_precision_agree_with_numpy() -> None:
    rng = np.random.default_rng(3)
    root = rng.standard_normal((B, D, 2 * D))
    V = root @ root.swapaxes(1, 2) + np.eye(D)
    F = factor.from_precision(V)
    agree(inverse(F), np.linalg.inv(V))
    b, shared, own = rng.standard_normal((B, D)), rng.standard_normal((7, D)), rng.standard_normal((B, 7, D))
    agree(factor.solve(F, b), np.linalg.solve(V, b[:, :, None])[:, :, 0])
    for x in (shared, own):
        quadratic = [[row @ np.linalg.inv(V[i]) @ row for row in np.broadcast_to(x, own.shape)[i]] for i in range(B)]
        agree(factor.width(F, x) ** 2, quadratic)


def test_dot_is_the_inner_product_for_shared_and_own_features_and_parameters() -> None:
    rng = np.random.default_rng(4)
    shared, own = rng.standard_normal((7, D)), rng.standard_normal((B, 7, D))
    one, each = rng.standard_normal((B, D)), rng.standard_normal((B, 7, D))
    for x in (shared, own):
        for theta in (one, each):
            X, T = np.broadcast_to(x, own.shape), np.broadcast_to(theta if theta.ndim == 3 else one[:, None], own.shape)
            agree(dot(x, theta), [[X[b, i] @ T[b, i] for i in range(7)] for b in range(B)], 1e-14)


# ---------------------------------------------------------------------------- arrays


@pytest.mark.parametrize("d", [1, 3, 20, 48, 49, 98])
def test_norm_is_the_same_at_every_index_for_equal_rows(d: int) -> None:
    """Widths equal NumPy's, whether rows use the vector units by themselves or side by side, and equal rows tie."""
    rng = np.random.default_rng(d)
    for learners, shared, many in ((1, True, 1), (3, False, 130), (2, True, 300)):
        x, F = rng.standard_normal((1 if shared else learners, many, d)), rng.standard_normal((learners, d, d))
        x[:, many // 2 :: 7] = x[:, :1]
        found = norm(x, F)
        np.testing.assert_allclose(found, np.linalg.vector_norm(np.matmul(x, F), axis=-1), rtol=1e-12)
        assert (found[:, many // 2 :: 7] == found[:, :1]).all()


def test_add_at_with_an_empty_slot_beside_the_last_item() -> None:
    last = 2
    for columns in ([[last, EMPTY]], [[EMPTY, last]]):
        table = np.zeros((1, 3))
        add_at(table, np.array(columns), np.where(np.array(columns) == last, 5.0, 7.0))
        assert table.tolist() == [[0.0, 0.0, 5.0]]


@given(st.data())
@settings(deadline=None)
def test_add_at_equals_a_plain_loop(data: st.DataObject) -> None:
    L, k, learners = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 4)), data.draw(st.integers(1, 3))
    tail = data.draw(st.sampled_from([(), (2,)]))
    ids = st.lists(st.integers(0, L - 1), unique=True, max_size=k)
    columns = np.full((learners, k), EMPTY)
    for b in range(learners):
        row = data.draw(ids)
        columns[b, data.draw(st.permutations(range(k)))[: len(row)]] = row
    values = np.random.default_rng(0).standard_normal((learners, k, *tail))
    table = np.zeros((learners, L, *tail))
    expected = np.zeros((learners, L, *tail))
    add_at(table, columns, values)
    for b in range(learners):
        for j in range(k):
            if columns[b, j] != EMPTY:
                expected[b, columns[b, j]] += values[b, j]
    assert (table == expected).all()


def test_take_reads_one_column_for_each_learner_and_slot() -> None:
    table = np.arange(6.0).reshape(2, 3)
    assert take(table, np.array([[2, 0], [1, 1]])).tolist() == [[2.0, 0.0], [4.0, 4.0]]
    assert take(np.stack([table, -table], axis=2), np.array([[2], [0]])).tolist() == [[[2.0, -2.0]], [[3.0, -3.0]]]


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=9), st.integers(1, 9))
@settings(deadline=None)
def test_largest_gives_the_largest_values_first_and_where_they_stand(scores: list[int], n: int) -> None:
    n = min(n, len(scores))
    order, values = np.empty((1, n), dtype=np.int64), np.empty((1, n))
    tied = np.empty(1, dtype=np.bool_)
    largest(np.array([scores], dtype=float), order, values, tied)
    above = values[0][values[0] > -np.inf]
    assert tied[0] == (len(set(above.tolist())) < len(above))
    assert values[0].tolist() == sorted(scores, reverse=True)[:n]
    assert [scores[i] for i in order[0]] == values[0].tolist()
    assert len(set(order[0].tolist())) == n


# ---------------------------------------------------------------------------- counter-based RNG


def test_counter_based_numbers_are_uniform_over_items_and_over_keys() -> None:
    """Kolmogorov-Smirnov and chi-square on 100,000 numbers each way; each fails for one seed in 10,000."""
    keys = counter_rng.keys(100_000, np.random.default_rng(5))
    over_items = counter_rng.uniforms(keys[:1], np.arange(100_000)[None, :])[0]
    over_keys = counter_rng.uniforms(keys, np.full((len(keys), 1), 3))[:, 0]
    small_keys = counter_rng.uniforms(np.arange(100_000, dtype=np.uint64), np.zeros((100_000, 1), dtype=np.int64))[:, 0]
    for numbers in (over_items, over_keys, small_keys):
        assert numbers.min() >= 0.0
        assert numbers.max() < 1.0
        assert stats.kstest(numbers, "uniform").pvalue > RARE
        assert_uniform(np.histogram(numbers, bins=100, range=(0.0, 1.0))[0])


def test_the_number_of_item_i_is_output_i_of_splitmix64() -> None:
    """The generator of Steele, Lea and Flood (2014) with integers modulo 2⁶⁴; the upper 53 bits make the number."""
    modulus = 2**64
    for key in (0, 1234567, modulus - 1):
        counter, expected = key, []
        for _ in range(50):
            counter = (counter + 0x9E3779B97F4A7C15) % modulus
            z = (counter ^ (counter >> 30)) * 0xBF58476D1CE4E5B9 % modulus
            z = (z ^ (z >> 27)) * 0x94D049BB133111EB % modulus
            expected.append(((z ^ (z >> 31)) >> 11) / 2**53)
        assert counter_rng.uniforms(np.array([key], dtype=np.uint64), np.arange(50)[None, :])[0].tolist() == expected


def test_the_number_of_an_item_depends_on_its_key_and_index_only() -> None:
    key = counter_rng.keys(2, np.random.default_rng(6))
    alone = counter_rng.uniforms(key, np.array([[4], [4]]))
    among = counter_rng.uniforms(key, np.array([[9, 4, 0], [4, 2, 7]]))
    assert alone[0, 0] == among[0, 1]
    assert alone[1, 0] == among[1, 0]
    assert alone[0, 0] != alone[1, 0]
    assert counter_rng.uniforms(key[1:], np.array([[7]]))[0, 0] == among[1, 2]


def test_numbers_of_different_items_are_uncorrelated() -> None:
    """With 50,000 keys √n·r is standard normal; 28 pairs beyond 5 happen for one seed in 60,000."""
    n = 50_000
    numbers = counter_rng.uniforms(counter_rng.keys(n, np.random.default_rng(7)), np.broadcast_to(np.arange(8), (n, 8)))
    r = np.asarray(np.corrcoef(numbers, rowvar=False))[np.triu_indices(8, 1)]
    assert np.abs(r).max() * n**0.5 < 5.0


def test_numbers_of_consecutive_keys_are_uncorrelated() -> None:
    """With 50,000 pairs √n·r beyond 5 happens for one seed in a million."""
    n = 50_000
    numbers = counter_rng.uniforms(np.arange(n + 1, dtype=np.uint64), np.zeros((n + 1, 1), dtype=np.int64))[:, 0]
    assert abs(np.corrcoef(numbers[1:], numbers[:-1])[0, 1]) * n**0.5 < 5.0


# ---------------------------------------------------------------------------- the logistic link and its regression


def test_softplus_neither_overflows_nor_saturates() -> None:
    z = np.array([-1e4, -50.0, -1.0, 0.0, 1.0, 50.0, 1e4])
    expected = [0.0, np.exp(-50.0), np.log1p(np.exp(-1.0)), np.log(2.0), np.log1p(np.e), 50.0 + np.exp(-50.0), 1e4]
    np.testing.assert_allclose(logistic.softplus(z), expected, rtol=1e-14)


def test_curvature_is_the_derivative_of_the_sigmoid_and_does_not_overflow() -> None:
    z = np.linspace(-10.0, 10.0, 41)
    h = 1e-5
    agree(logistic.curvature(z), (expit(z + h) - expit(z - h)) / (2.0 * h), 1e-8)
    far = logistic.curvature(np.array([-1e4, -800.0, 800.0, 1e4]))
    assert (far == 0.0).all()
    assert float(logistic.curvature(0.0)) == 1.0 / 4.0


def gradient(theta: FloatArray, x: FloatArray, n: FloatArray, s: FloatArray, ridge: float) -> FloatArray:
    """Derivative of the penalised log-likelihood, row by row."""
    total = -ridge * theta
    for row, trials, clicks in zip(x, n, s, strict=True):
        total = total + (clicks - trials * expit(row @ theta)) * row
    return total


@pytest.mark.parametrize("ridge", [1e-4, 1.0, 20.0])
def test_fit_has_no_gradient_left_and_returns_the_hessian_there(ridge: float) -> None:
    rng = np.random.default_rng(8)
    n = rng.integers(0, 20, (B, 7)).astype(float)
    s = rng.binomial(n.astype(int), 0.3).astype(float)
    shared, own = rng.standard_normal((7, 3)), rng.standard_normal((B, 7, 3))
    for x in (shared, own):
        start = rng.standard_normal((B, 3))
        kept = start.copy()
        theta, H = logistic.fit(start, x, n, s, ridge)
        assert (start == kept).all()
        for b in range(B):
            rows_b = np.broadcast_to(x, own.shape)[b]
            assert np.abs(gradient(theta[b], rows_b, n[b], s[b], ridge)).max() < 1e-6
            p = expit(rows_b @ theta[b])
            agree(
                H[b],
                ridge * np.eye(3) + sum(n[b, i] * p[i] * (1 - p[i]) * np.outer(r, r) for i, r in enumerate(rows_b)),
            )


@pytest.mark.parametrize("ridge", [1e-2, 1e-4, 1e-8])
@pytest.mark.parametrize("start", [0.0, 30.0, -30.0])
def test_fit_converges_on_separable_data_with_a_tiny_ridge(ridge: float, start: float) -> None:
    x = np.array([[1.0, 0.2], [0.8, -0.1], [-1.0, 0.3], [-0.7, -0.2]])
    n, s = np.full((1, 4), 50.0), np.array([[50.0, 50.0, 0.0, 0.0]])
    theta, H = logistic.fit(np.full((1, 2), start), x, n, s, ridge)
    assert np.isfinite(theta).all()
    assert np.isfinite(H).all()
    assert (x @ theta[0] * [1, 1, -1, -1] > 0).all()
    # The two terms of the gradient cancel: the rest is small compared with either of them.
    assert np.abs(gradient(theta[0], x, n[0], s[0], ridge)).max() < 1e-5 * ridge * np.abs(theta).max()


def test_fit_of_one_learner_does_not_depend_on_its_neighbours() -> None:
    rng = np.random.default_rng(9)
    x, n = rng.standard_normal((5, 3)), np.full((B, 5), 30.0)
    s = np.array([[30.0, 30, 0, 0, 0], [1, 2, 3, 4, 5], [0, 0, 0, 0, 0]])
    theta, _ = logistic.fit(np.zeros((B, 3)), x, n, s, 1e-3)
    for b in range(B):
        alone, _ = logistic.fit(np.zeros((1, 3)), x, n[b : b + 1], s[b : b + 1], 1e-3)
        agree(alone[0], theta[b], 1e-6)


def test_fit_counts_equal_repeated_rows() -> None:
    x = np.array([[1.0, 0.5], [-0.3, 0.8]])
    counted, H = logistic.fit(np.zeros((1, 2)), x, np.array([[3.0, 2.0]]), np.array([[1.0, 2.0]]), 1.0)
    repeated = np.repeat(x, [3, 2], axis=0)
    single, G = logistic.fit(np.zeros((1, 2)), repeated, np.ones((1, 5)), np.array([[1.0, 0, 0, 1, 1]]), 1.0)
    agree(counted, single)
    agree(H, G)


def test_bernoulli_divergence() -> None:
    p, q = np.array([0.2, 0.5, 0.0, 1.0, 0.3]), np.array([0.4, 0.5, 0.25, 0.25, 1.0])
    expected = [0.2 * np.log(0.2 / 0.4) + 0.8 * np.log(0.8 / 0.6), 0.0, -np.log(0.75), -np.log(0.25), np.inf]
    np.testing.assert_allclose(kl(p, q), expected, rtol=1e-14, atol=1e-16)
