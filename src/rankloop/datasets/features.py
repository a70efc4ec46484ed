"""Derived features: projections, item embeddings, topic coverage."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.linalg import svds

from rankloop import validate
from rankloop.errors import InvalidInput, MissingExtra, Words
from rankloop.types import FloatArray, IntArray


def pca(fit: FloatArray, project: FloatArray, dim: int) -> FloatArray:
    """Project the rows of `project` [m, p] onto the `dim` principal components of `fit` [n, p]; return [m, dim]."""
    validate.integer("dim", dim, high=min(fit.shape))
    mean = fit.mean(axis=0)
    centred = fit - mean
    _, vectors = np.linalg.eigh(centred.T @ centred)
    components = fixed_signs(vectors[:, ::-1][:, :dim])
    return np.asarray((project - mean) @ components)


def svd_embeddings(R: csr_matrix[np.float64], fit_items: IntArray, rest: IntArray, dim: int) -> FloatArray:
    """Return embeddings of the items `rest`, [len(rest), dim], from ratings R [users, items].

    e_j = Uᵀ r_j, where U Σ Vᵀ is the rank-`dim` truncated SVD of the columns `fit_items` of R and r_j is column j
    (paper `long-sequences`, Section 5).
    """
    columns = R.tocsc()
    fit = columns[:, fit_items].astype(np.float64)
    validate.integer("dim", dim, high=min(fit.shape))
    if fit.count_nonzero() == 0:
        raise InvalidInput("fit_items", Words("a choice of items without any rating"), "items that have ratings")
    if dim < min(fit.shape):
        # A fixed start vector makes the iteration deterministic.
        start = np.random.default_rng(0).standard_normal(min(fit.shape))
        U, sigma, _ = svds(fit, k=dim, v0=start)
    else:
        U, sigma, _ = np.linalg.svd(fit.toarray(), full_matrices=False)
    U = fixed_signs(U[:, np.argsort(-sigma, kind="stable")[:dim]])
    return np.asarray(columns[:, rest].T @ U)


def fixed_signs(vectors: FloatArray) -> FloatArray:
    """Return the columns of [n, d] with signs such that their largest absolute entry is positive."""
    largest = vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])]
    return vectors * np.where(largest < 0, -1.0, 1.0)


def unit_rows(x: FloatArray) -> FloatArray:
    """Return rows scaled to Euclidean norm 1, [n, d]; rows of zeros stay zero."""
    norm = np.linalg.norm(x, axis=1, keepdims=True)
    return x / np.where(norm > 0, norm, 1.0)


def mixture_coverage(x: FloatArray, topics: int, seed: int, *, fit_rows: int = 10_000) -> FloatArray:
    """Return the coverage of each topic by each row of x [n, d]: [n, topics], in [0, 1], rows of norm 1.

    These are the posteriors of a Gaussian mixture with full covariances, fitted to `fit_rows` rows drawn without
    replacement (paper `long-sequences`, footnote 4), scaled to unit norm.
    """
    try:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.mixture import GaussianMixture
        from threadpoolctl import threadpool_limits
    except ModuleNotFoundError:
        raise MissingExtra("coverage by a mixture of Gaussians", "experiments") from None
    validate.integer("world.topics", topics, high=len(x))
    rows: NDArray[np.int64] = np.arange(len(x))
    if fit_rows < len(x):
        rows = np.sort(np.random.default_rng(seed).choice(len(x), size=max(fit_rows, topics), replace=False))
    mixture = GaussianMixture(n_components=topics, covariance_type="full", max_iter=200, random_state=seed)
    # One thread: another order of summation would change the posteriors.
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        posterior = mixture.fit(x[rows]).predict_proba(x)
    return unit_rows(np.clip(posterior, 0.0, 1.0))
