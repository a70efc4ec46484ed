"""Beta priors from an ensemble of rankers trained on relevance judgements."""

from __future__ import annotations

import numpy as np

from rankloop import validate
from rankloop.datasets.judgements import Judgements
from rankloop.errors import MissingExtra
from rankloop.types import FloatArray, IntArray

MIN_BETA_SHAPE = 1e-3
"""Minimum of a and b of a prior: Beta(0, b) is not a distribution."""


def attraction(grade: IntArray, top: int) -> FloatArray:
    """Return the attraction probability (2^grade - 1) / 2^top of each grade, as in the cascade model of ERR."""
    return (np.exp2(grade) - 1.0) / 2.0**top


def scores(
    train: Judgements,
    test_x: FloatArray,
    *,
    seed: int,
    rankers: int = 10,
    share: float = 0.5,
    top: int = 4,
    trees: int = 60,
    leaves: int = 15,
) -> FloatArray:
    """Return the attraction that each ranker predicts for the documents test_x [n, d]: [rankers, n], in [0, 1].

    A ranker is an ensemble of gradient-boosted regression trees that predicts the attraction of the grades, trained on
    a random share of the training queries.

    Args:
        train: training documents with grades up to `top`.
        test_x: features [n, d] of other documents.
        seed: seed of the choice of queries.
        rankers: M, the number of rankers.
        share: share of the training queries that each ranker is trained on.
        top: the highest grade.
        trees: boosting rounds.
        leaves: maximum leaves of a tree.
    """
    try:
        from sklearn.ensemble import HistGradientBoostingRegressor
        from threadpoolctl import threadpool_limits
    except ModuleNotFoundError:
        raise MissingExtra("an ensemble of rankers", "experiments") from None
    validate.number("share", share, low=0.0, high=1.0, open_low=True)
    Q = len(train.starts)
    predicted = np.empty((validate.integer("rankers", rankers), len(test_x)))
    with threadpool_limits(limits=1):
        for m, stream in enumerate(np.random.SeedSequence(seed).spawn(rankers)):
            rng = np.random.default_rng(stream)
            sample = train.of(rng.choice(Q, size=max(1, round(share * Q)), replace=False))
            model = HistGradientBoostingRegressor(
                max_iter=trees, max_leaf_nodes=leaves, early_stopping=False, random_state=int(rng.integers(2**31))
            )
            predicted[m] = model.fit(sample.x, attraction(sample.grade, top)).predict(test_x)
    return predicted.clip(0.0, 1.0)


def beta_prior(scores: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return a [n] and b [n] of Beta(Σ s, Σ (1 - s)) from scores [rankers, n] (paper `prior`, Section 5.4)."""
    return np.maximum(scores.sum(axis=0), MIN_BETA_SHAPE), np.maximum((1.0 - scores).sum(axis=0), MIN_BETA_SHAPE)
