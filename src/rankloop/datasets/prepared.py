"""Data sets in the form that worlds need: feedback matrices, arms, judged queries, a fitted log; cached."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

import numpy as np
from scipy.sparse import csr_matrix, hstack

from rankloop.datasets import bandit_log, ensemble, features, finder
from rankloop.datasets import cache as array_cache
from rankloop.datasets.cache import Arrays
from rankloop.datasets.errors import BadData
from rankloop.datasets.judgements import Judgements, scaled, standardised
from rankloop.datasets.mnist import Digits
from rankloop.datasets.ratings import Ratings
from rankloop.datasets.splits import Split
from rankloop.errors import InvalidInput, MissingExtra
from rankloop.types import BoolArray, FloatArray, IntArray

T = TypeVar("T")
SEED = 0
LIKED_ABOVE = {"movielens-1m": 3.0, "movielens-25m": 3.0, "movielens-small": 3.0}
"""Stars above which a film attracts (paper `cascade`, Section 4.6); in other data sets, any review or play does."""
DIM = 10
PCA_IMAGES = 19_800
TOP_GRADE = 4
ITEM_DIM, TOLERANCE = 3, 1e-9
"""Principal components of the item features, and the tolerance of the fit."""


def folder() -> Path:
    """Return the folder of the cache: RANKLOOP_CACHE, or a folder in the user's cache."""
    named = os.environ.get("RANKLOOP_CACHE")
    return Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "rankloop"


def fingerprint(id: str) -> str:
    """Return a fingerprint of the content of a data set's files."""
    return _fingerprint(str(finder.root()), id)


def read(id: str, kind: type[T]) -> T:
    """Return a data set below the root of the data; each is read once per process."""
    return finder.of_kind(kind, id, _read(str(finder.root()), id))


@cache
def _read(root: str, id: str) -> object:
    return finder.read(root, id, object)


@cache
def _fingerprint(root: str, id: str) -> str:
    return array_cache.fingerprint(*sorted(finder.find(root, id).values()))


def _prepared(name: str, data: str, make: Callable[[], Arrays], **key: object) -> Arrays:
    return array_cache.Cache(folder()).get(name, {"data": [data, fingerprint(data)], "seed": SEED, **key}, make)


def feedback_matrix(
    id: str, *, categories: tuple[str, ...] = (), users: int | None = None, items: int | None = None
) -> BoolArray:
    """Return which user is attracted by which item, [users, items], for the most active users and most popular items.

    Args:
        id: a data set of ratings, reviews or plays.
        categories: keep only items of these categories.
        users: maximum number of users.
        items: maximum number of items.
    """
    ratings = read(id, Ratings)
    if categories:
        for name in categories:
            if name not in ratings.categories:
                some = ", ".join(sorted(ratings.categories)[:8]) or "none here"
                raise InvalidInput("world.categories", name, f"a category of {id}: {some}, …")
        mask = np.any([ratings.categories[name] for name in categories], axis=0)
        ratings = ratings.only(mask)
    ratings = ratings.most(users=users, items=items)
    return np.asarray(ratings.liked(LIKED_ABOVE[id]) if id in LIKED_ABOVE else ratings.binary())


@dataclass(frozen=True, eq=False)
class ArmTable:
    """n arms: vectors with a success rate or a label."""

    x: FloatArray  # [n, 10], unit norm
    rate: FloatArray  # [n] success rate or label
    coverage: FloatArray | None  # [n, topics], unit norm


def digit_arms(topics: int | None = None) -> ArmTable:
    """Return the arms of MNIST, computed once for each number of topics; see `_digit_arms`."""
    return _digit_arms(str(finder.root()), topics)


@cache
def _digit_arms(root: str, topics: int | None) -> ArmTable:
    """Return MNIST digits as arms, by a PCA of 19,800 others (paper `long-sequences`, Appendix D.1)."""

    def make() -> Arrays:
        digits = read("mnist", Digits)
        order = np.random.default_rng(SEED).permutation(digits.train)
        fit, rest = (
            order[:PCA_IMAGES],
            np.concatenate([order[PCA_IMAGES:], np.arange(digits.train, len(digits.labels))]),
        )
        images = digits.images / 255.0
        return {"x": features.pca(images[fit], images[rest], DIM), "rate": digits.labels[rest].astype(np.float64)}

    made = _prepared("digits", "mnist", make, images=PCA_IMAGES, dim=DIM)
    return _with_coverage("mnist", made["x"], made["rate"], topics)


def rated_arms(id: str, topics: int | None = None) -> ArmTable:
    """Return the items of ratings as arms, computed once for each number of topics; see `_rated_arms`."""
    return _rated_arms(str(finder.root()), id, topics)


@cache
def _rated_arms(root: str, id: str, topics: int | None) -> ArmTable:
    """Return items of ratings as arms, by an SVD of a fifth of them (at most 10,000); the others are arms (Section 5).

    The success rate is σ(mean value - median of the means).
    """

    def make() -> Arrays:
        ratings = read(id, Ratings).active()
        order = np.random.default_rng(SEED).permutation(ratings.items)
        fit, rest = np.split(order, [min(10_000, ratings.items // 5)])
        counts = np.bincount(ratings.item, minlength=ratings.items)
        means = np.bincount(ratings.item, weights=ratings.value, minlength=ratings.items) / counts
        centred = means[rest] - np.median(means)
        return {"x": features.svd_embeddings(ratings.sparse(), fit, rest, DIM), "rate": 1.0 / (1.0 + np.exp(-centred))}

    made = _prepared("rated", id, make, dim=DIM)
    return _with_coverage(id, made["x"], made["rate"], topics)


def _with_coverage(id: str, x: FloatArray, rate: FloatArray, topics: int | None) -> ArmTable:
    unit = features.unit_rows(x)
    if topics is None:
        return ArmTable(unit, rate, None)

    def make() -> Arrays:
        return {"coverage": features.mixture_coverage(x, topics, SEED)}

    return ArmTable(unit, rate, _prepared("coverage", id, make, topics=topics)["coverage"])


@dataclass(frozen=True, eq=False)
class JudgedQueries:
    """Test queries with their documents, padded to the longest, and Beta priors from rankers trained beforehand."""

    nu: FloatArray  # [Q, L]
    x: FloatArray  # [Q, L, d]
    present: BoolArray  # [Q, L]
    a: FloatArray  # [Q, L]
    b: FloatArray  # [Q, L]


SCALINGS = ("range", "standard", "range-only")
"""How features of judged documents are scaled; what the paper calls normalised is not said."""


def judged_queries(id: str, *, rankers: int = 10, min_documents: int = 10, scaling: str = "range") -> JudgedQueries:
    """Return the test queries with enough documents: attraction, features and Beta priors (paper `prior`, 5.4).

    Features are scaled to [0, 1] over all documents, and features of standard deviation below 1e-6 are removed
    (Appendix F). Each document is then scaled to unit norm, but not with scaling `range-only`, which divides all by the
    largest norm; with `standard` features have mean 0 and standard deviation 1 before that.
    """

    def make() -> Arrays:
        split = read(id, Split)
        train, test = scaled(split.train, split.test)
        a, b = ensemble.beta_prior(ensemble.scores(train, test.x, seed=SEED, rankers=rankers, top=TOP_GRADE))
        x = standardised(split.train, split.test)[1].x if scaling == "standard" else test.x
        unit = x / np.linalg.norm(x, axis=1).max() if scaling == "range-only" else features.unit_rows(x)
        queries = Judgements(test.grade, test.query, unit).by_query()
        shapes = np.ones((2, *queries.present.shape))
        shapes[:, queries.present] = a, b
        nu = np.where(queries.present, ensemble.attraction(queries.grade, TOP_GRADE), 0.0)
        enough = queries.present.sum(axis=1) >= min_documents
        if not enough.any():
            raise BadData(f"no test query of {id} has {min_documents} documents, the number that an experiment shows.")
        made = {"nu": nu, "x": queries.x, "present": queries.present, "a": shapes[0], "b": shapes[1]}
        return {name: array[enough] for name, array in made.items()}

    return JudgedQueries(**_prepared("judged", id, make, rankers=rankers, least=min_documents, scaling=scaling))


@dataclass(frozen=True, eq=False)
class FittedLog:
    """Parameters of an item-position world, fitted on logged clicks."""

    alpha: FloatArray  # [N] decrease of the log-odds per slot
    beta: FloatArray  # [N, d]
    intercept: FloatArray  # [N]
    contexts: FloatArray  # [n, d] of the clicked impressions
    features: FloatArray  # [N, 3], unit norm


def fitted_log(id: str = "open-bandit") -> FittedLog:
    """Fit P(click) = σ(c_j + xᵀβ_j - α_j k) on both logs of the whole shop, for the items with clicks.

    Each item's parameters are a shared part plus a deviation, both with ridge 1, since there are few clicks; contexts
    are those of clicked impressions, as in paper `select-rank`, Section 5.
    """

    def make() -> Arrays:
        folder = finder.find(finder.root(), id)["random/all"].parents[2]
        random, bts = (bandit_log.read_log(folder, behaviour, "all") for behaviour in ("random", "bts"))
        x = np.concatenate([random.user, bts.users(random.user_columns)])
        item, slot, click = (
            np.concatenate([getattr(log, name) for log in (random, bts)]) for name in ("item", "position", "click")
        )
        theta = _fit_items(item, np.column_stack([np.ones(len(item)), x, slot]), click, len(random.item_features))
        clicked = np.unique(item[click])
        y = random.item_features
        y = (y - y.mean(axis=0)) / np.where(y.std(axis=0) > 0, y.std(axis=0), 1.0)
        y = features.unit_rows(features.pca(y, y[clicked], min(ITEM_DIM, *y.shape)))
        made = {"intercept": theta[clicked, 0], "beta": theta[clicked, 1:-1], "alpha": -theta[clicked, -1]}
        return made | {"contexts": x[click], "features": y}

    return FittedLog(**_prepared("fitted-log", id, make, dim=ITEM_DIM, tolerance=TOLERANCE))


def _fit_items(item: IntArray, z: FloatArray, click: BoolArray, items: int) -> FloatArray:
    """Return the parameters [items, d] of logistic regressions of clicks on z [n, d]: shared part plus deviation."""
    try:
        from sklearn.linear_model import LogisticRegression
    except ModuleNotFoundError:
        raise MissingExtra("a simulator fitted on logs", "experiments") from None
    if click.all() or not click.any():
        raise BadData("the logs of open-bandit have no clicks or only clicks; there is nothing to fit.")
    n, d = z.shape
    columns = (item[:, None] * d + np.arange(d)).ravel()
    deviations = csr_matrix((z.ravel(), columns, np.arange(0, n * d + 1, d)), shape=(n, items * d))
    model = LogisticRegression(C=1.0, fit_intercept=False, tol=TOLERANCE, max_iter=10_000)
    weights = model.fit(hstack([csr_matrix(z), deviations]).tocsr(), click).coef_[0]
    return np.asarray(weights[:d] + weights[d:].reshape(items, d))
