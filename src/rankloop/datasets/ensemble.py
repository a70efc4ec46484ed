"""Beta priors from an ensemble of rankers that were trained on judgements."""

from __future__ import annotations

import numpy as np

from rankloop import validate
from rankloop.datasets.judgements import Judgements
from rankloop.errors import MissingExtra
from rankloop.types import FloatArray, IntArray

MIN_BETA_SHAPE = 1e-3
"""Least a and b of a prior: Beta(0, b) is no distribution."""


def attraction(grade: IntArray, top: int) -> FloatArray:
    """Probability (2^grade - 1) / 2^top that a document of a grade attracts, same shape, as in the cascade of ERR."""
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
    """Attraction of the documents test_x [n, d] in the eyes of each ranker, [rankers, n], each in [0, 1].

    A ranker is gradient-boosted regression trees on the attraction of the grades, trained on a random share of
    the training queries.

    Args:
        train: documents with grades up to `top`.
        test_x: features [n, d] of other documents.
        seed: of the choice of queries.
        rankers: M.
        share: of the training queries that each ranker sees.
        top: the best grade.
        trees: boosting rounds.
        leaves: of a tree.
    """
    try:
        from sklearn.ensemble import HistGradientBoostingRegressor
        from threadpoolctl import threadpool_limits
    except ModuleNotFoundError:
        raise MissingExtra("an ensemble of rankers", "experiments") from None
    validate.number("share", share, low=0.0, high=1.0, open_low=True)
    Q = len(train.starts)
    found = np.empty((validate.integer("rankers", rankers), len(test_x)))
    with threadpool_limits(limits=1):
        for m, stream in enumerate(np.random.SeedSequence(seed).spawn(rankers)):
            rng = np.random.default_rng(stream)
            seen = train.of(rng.choice(Q, size=max(1, round(share * Q)), replace=False))
            model = HistGradientBoostingRegressor(
                max_iter=trees, max_leaf_nodes=leaves, early_stopping=False, random_state=int(rng.integers(2**31))
            )
            found[m] = model.fit(seen.x, attraction(seen.grade, top)).predict(test_x)
    return found.clip(0.0, 1.0)


def beta_prior(scores: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Beta(Σ s, Σ (1 - s)) of each document from scores [rankers, n]: a [n] and b [n] (paper `prior`, Section 5.4)."""
    return np.maximum(scores.sum(axis=0), MIN_BETA_SHAPE), np.maximum((1.0 - scores).sum(axis=0), MIN_BETA_SHAPE)
