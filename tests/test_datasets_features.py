"""Prepared features: they equal their dense definitions, and a second run equals the first."""

from __future__ import annotations

import sys
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_matrix

from helpers import agree
from rankloop.datasets import Judgements
from rankloop.datasets.ensemble import attraction, beta_prior, scores
from rankloop.datasets.features import fixed_signs, mixture_coverage, pca, svd_embeddings, unit_rows
from rankloop.errors import InvalidInput, MissingExtra
from rankloop.types import FloatArray


def ratings(users: int = 30, items: int = 24, seed: int = 0) -> csr_matrix[np.float64]:
    rng = np.random.default_rng(seed)
    return csr_matrix(rng.integers(0, 6, size=(users, items)) * (rng.random((users, items)) < 0.4).astype(float))


def test_pca_equals_the_dense_svd() -> None:
    rng = np.random.default_rng(1)
    fit, project = rng.normal(2.0, 1.0, (40, 6)) * np.arange(1, 7), rng.standard_normal((9, 6))
    _, _, Vt = np.linalg.svd(fit - fit.mean(axis=0))
    agree(pca(fit, project, 3), (project - fit.mean(axis=0)) @ fixed_signs(Vt[:3].T))


def test_pca_of_its_own_rows_is_centred_uncorrelated_and_ordered() -> None:
    fit = np.random.default_rng(2).standard_normal((60, 5)) @ np.random.default_rng(3).standard_normal((5, 5))
    C = np.cov(pca(fit, fit, 5).T)
    agree(C, np.diag(np.diag(C)))
    assert (np.diff(np.diag(C)) <= 0).all()
    assert np.trace(C) == pytest.approx(np.trace(np.cov(fit.T)))


@pytest.mark.parametrize("dim", [1, 4, 10])
def test_embeddings_equal_the_dense_svd(dim: int) -> None:
    R = ratings()
    order = np.random.default_rng(4).permutation(24)
    fit, rest = order[:10], order[10:]
    U, _, _ = np.linalg.svd(R.toarray()[:, fit], full_matrices=False)
    agree(svd_embeddings(R, fit, rest, dim), R.toarray()[:, rest].T @ fixed_signs(U[:, :dim]), 1e-8)


def test_embeddings_are_deterministic() -> None:
    R, fit, rest = ratings(80, 60), np.arange(40), np.arange(40, 60)
    np.testing.assert_array_equal(svd_embeddings(R, fit, rest, 5), svd_embeddings(R, fit, rest, 5))


def test_embeddings_need_ratings_and_room() -> None:
    with pytest.raises(InvalidInput, match="items that have ratings"):
        svd_embeddings(csr_matrix((5, 4)), np.arange(2), np.arange(2, 4), 1)
    with pytest.raises(InvalidInput, match="dim"):
        svd_embeddings(ratings(), np.arange(3), np.arange(3, 9), 4)
    with pytest.raises(InvalidInput, match="dim"):
        pca(np.ones((4, 3)), np.ones((1, 3)), 4)


@given(arrays(np.float64, (5, 3), elements=st.floats(-1e6, 1e6).filter(lambda v: v == 0 or abs(v) > 1e-6)))
def test_unit_rows(x: FloatArray) -> None:
    found = unit_rows(x)
    norms = np.linalg.norm(found, axis=1)
    assert np.where(x.any(axis=1), abs(norms - 1) < 1e-12, norms == 0).all()
    agree(found * np.linalg.norm(x, axis=1, keepdims=True), x, 1e-12)


@given(
    arrays(np.float64, (4, 3), elements=st.floats(-9, 9)), arrays(np.float64, 3, elements=st.sampled_from([-1.0, 1.0]))
)
def test_signs_are_fixed(vectors: FloatArray, turn: FloatArray) -> None:
    found = fixed_signs(vectors)
    assert (found.max(axis=0) >= -found.min(axis=0)).all()
    np.testing.assert_array_equal(np.abs(found), np.abs(vectors))


# Coverage


def three_groups(n: int = 60) -> FloatArray:
    rng = np.random.default_rng(5)
    return np.asarray(rng.standard_normal((n, 2)) * 0.2 + np.array([[0, 0], [5, 0], [0, 5]])[np.arange(n) % 3])


@pytest.mark.parametrize("fit_rows", [30, 10_000])
def test_coverage_is_a_unit_vector_that_knows_the_groups(fit_rows: int) -> None:
    x = three_groups()
    found = mixture_coverage(x, 3, seed=1, fit_rows=fit_rows)
    assert found.shape == (60, 3)
    assert found.min() >= 0
    assert found.max() <= 1
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0)
    topic = found.argmax(axis=1)
    assert all(len(set(topic[group::3])) == 1 for group in range(3))
    assert len(set(topic[:3])) == 3
    np.testing.assert_array_equal(found, mixture_coverage(x, 3, seed=1, fit_rows=fit_rows))


def test_coverage_needs_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.mixture", None)
    with pytest.raises(MissingExtra, match="coverage by a mixture of Gaussians needs"):
        mixture_coverage(three_groups(), 3, seed=1)


# Ensemble


def made_judgements(queries: int, seed: int) -> Judgements:
    """Grades 0 to 4 that grow with the first of four features, with noise."""
    rng = np.random.default_rng(seed)
    x = rng.random((queries * 10, 4))
    grade = np.clip(np.floor(5 * x[:, 0] + rng.normal(0, 0.3, len(x))), 0, 4).astype(np.int64)
    return Judgements(grade, np.repeat(np.arange(queries), 10), x)


def test_attraction_is_that_of_the_cascade() -> None:
    assert attraction(np.array([[0, 1], [2, 4]]), 4).tolist() == [[0.0, 1 / 16], [3 / 16, 15 / 16]]
    assert attraction(np.arange(3), 2).tolist() == [0.0, 0.25, 0.75]


def test_scores_order_documents_better_than_chance() -> None:
    train, test = made_judgements(30, 1), made_judgements(6, 2)
    found = scores(train, test.x, seed=3, rankers=3, trees=20)
    assert found.shape == (3, 60)
    assert found.min() >= 0
    assert found.max() <= 1
    assert not np.array_equal(found[0], found[1])
    for s in found:
        right = [(s[i] > s[j]) == (a > b) for (i, a), (j, b) in combinations(enumerate(test.grade), 2) if a != b]
        assert np.mean(right) > 0.85  # chance is 0.5, the noise alone leaves about 0.95
    np.testing.assert_array_equal(found, scores(train, test.x, seed=3, rankers=3, trees=20))
    assert not np.array_equal(found, scores(train, test.x, seed=4, rankers=3, trees=20))


def test_a_ranker_sees_only_its_share_of_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    whole = Judgements.of

    def of(self: Judgements, queries: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Judgements:
        seen.append(len(set(queries.tolist())))
        return whole(self, queries)

    monkeypatch.setattr(Judgements, "of", of)
    scores(made_judgements(10, 1), np.zeros((1, 4)), seed=0, rankers=2, share=0.3, trees=2)
    assert seen == [3, 3]


def test_wrong_shares_and_a_missing_library_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    train = made_judgements(2, 1)
    with pytest.raises(InvalidInput, match="share"):
        scores(train, train.x, seed=0, share=0.0)
    with pytest.raises(InvalidInput, match="rankers"):
        scores(train, train.x, seed=0, rankers=0)
    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    with pytest.raises(MissingExtra, match="an ensemble of rankers needs"):
        scores(train, train.x, seed=0)


@given(arrays(np.float64, (4, 3), elements=st.floats(0, 1)))
def test_the_prior_has_the_mean_score_and_one_count_for_each_ranker(s: FloatArray) -> None:
    a, b = beta_prior(s)
    assert a.min() > 0
    assert b.min() > 0
    np.testing.assert_allclose(a + b, 4.0, atol=2e-3)
    np.testing.assert_allclose(a / (a + b), s.mean(axis=0), atol=1e-3)
