"""Read the specs of worlds that are made from an .npz file or from a data set."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from rankloop import validate
from rankloop.datasets import prepared
from rankloop.errors import MISSING, InvalidInput, Words
from rankloop.types import BoolArray, FloatArray
from rankloop.worlds.arm_chunks import ChunkWorld
from rankloop.worlds.base import World
from rankloop.worlds.matrix import MatrixWorld
from rankloop.worlds.specs.npz_files import read_arrays
from rankloop.worlds.specs.reward_fields import SCENARIO, budgets_of, scenario_of

Numbers = NDArray[np.generic]
RATED = ("movielens-1m", "movielens-25m", "movielens-small", "yelp", "yelp-restaurants", "songs")
"""Ids of the data sets with ratings, reviews or play counts."""


def matrix(fields: Mapping[str, object]) -> World:
    """Cascade over logged users: a random user of the test half clicks the first listed item that attracts them in W.

    file: an .npz with a binary array W, users x items; or
    data: movielens-1m, movielens-25m, movielens-small, yelp, yelp-restaurants or songs, with
      categories: keep only items of these categories (optional)
      most: {users, items}, keep only the most active users and the most popular items (optional)
    items: number of most popular items to keep, shuffled (optional, default all)
    dim: number of features, from the truncated SVD of the training half
    k: number of slots
    """
    optional = ("file", "data", "items", "categories", "most")
    given = validate.mapping("world", fields, required=("dim", "k"), optional=optional)
    W = _chosen_matrix(given)
    users, columns = W.shape
    if min(users // 2, columns) < 1:
        raise InvalidInput(
            "world", Words(f"made of {users} users and {columns} items"), "at least two users and an item"
        )
    items = validate.integer("world.items", given.get("items", columns), high=columns)
    k = validate.integer("world.k", given["k"], high=items)
    dim = validate.integer("world.dim", given["dim"], high=min(items, users // 2))
    return MatrixWorld(W, items, dim, k)


def _chosen_matrix(given: Mapping[str, object]) -> BoolArray:
    if not _from_data(given, ("categories", "most")):
        return _binary_matrix(given["file"])
    id = validate.choice("world.data", given["data"], RATED)
    cut = validate.mapping("world.most", given.get("most", {}), required=(), optional=("users", "items"))
    sizes = {name: validate.integer(f"world.most.{name}", size) for name, size in cut.items()}
    categories = given.get("categories", ())
    if not isinstance(categories, list | tuple) or not all(isinstance(name, str) for name in categories):
        raise InvalidInput("world.categories", categories, "a list of names of categories")
    return prepared.feedback_matrix(id, categories=tuple(categories), **sizes)


def pivot(fields: Mapping[str, object]) -> World:
    """Each round offers a new chunk of labelled vectors, never repeated; showing one with the pivot's label succeeds.

    file: an .npz with vectors x (n x d), labels label (n) and, optionally, coverage (n x topics); or
    data: mnist (ten principal components), with
      topics: number of topics, the components of a Gaussian mixture (optional)
      space: mixture, to use topic coverage as features (optional)
    pivot: the label that counts as success
    chunk: vectors offered each round (default 100)
    budget, scenario, rewards, losses: as in cascade-rewards
    """
    optional = ("file", "data", "topics", "space", "chunk", *SCENARIO)
    given = validate.mapping("world", fields, required=("pivot", "budget"), optional=optional)
    label: Numbers
    if _from_data(given, ("topics", "space")):
        validate.choice("world.data", given["data"], ("mnist",))
        arms = prepared.digit_arms(_topics(given))
        x, label, coverage = arms.x, arms.rate, arms.coverage
    else:
        x, label, coverage = _arms_of_file(given["file"], "label")
    wanted = given["pivot"]
    hit = np.zeros(len(x)) if isinstance(wanted, list | tuple | dict) else (label == wanted).astype(np.float64)
    if not hit.any():
        raise InvalidInput("world.pivot", wanted, f"one of the labels, such as {label[0]}")
    return _chunk_world(given, x, hit, coverage)


def rated(fields: Mapping[str, object]) -> World:
    """Each round offers a new chunk of vectors, never repeated, each with its own success rate.

    file: an .npz with vectors x (n x d), rates rate (n, in [0, 1]) and, optionally, coverage (n x topics); or
    data: movielens-1m, movielens-25m, movielens-small, yelp, yelp-restaurants or songs: ten components of an SVD,
      rate σ(mean rating - median), with topics and space as in pivot
    chunk, budget, scenario, rewards, losses: as in pivot
    """
    optional = ("file", "data", "topics", "space", "chunk", *SCENARIO)
    given = validate.mapping("world", fields, required=("budget",), optional=optional)
    if _from_data(given, ("topics", "space")):
        arms = prepared.rated_arms(validate.choice("world.data", given["data"], RATED), _topics(given))
        return _chunk_world(given, arms.x, arms.rate, arms.coverage)
    x, found, coverage = _arms_of_file(given["file"], "rate")
    rate = found.astype(np.float64)
    if not ((rate >= 0) & (rate <= 1)).all():
        raise InvalidInput("world.file", given["file"], "an .npz whose rates lie in [0, 1]")
    return _chunk_world(given, x, rate, coverage)


def _chunk_world(given: Mapping[str, object], x: FloatArray, rate: FloatArray, coverage: FloatArray | None) -> World:
    if "space" in given:
        validate.choice("world.space", given["space"], ("mixture",))
        if coverage is None:
            raise InvalidInput("world.topics", MISSING, "a number of topics, since the space is that of the mixture")
        x = coverage
    chunk = validate.integer("world.chunk", given.get("chunk", 100), high=len(x))
    budgets = budgets_of(given["budget"])
    return ChunkWorld(x, rate, chunk, budgets, scenario_of(given, max(budgets)), coverage)


def _from_data(given: Mapping[str, object], only: tuple[str, ...]) -> bool:
    """Return whether the world is made from a data set; require exactly one of file and data."""
    if ("file" in given) == ("data" in given):
        raise InvalidInput("world.file", given.get("file", MISSING), "either a file or a data set (data)")
    if "file" in given:
        for name in only:
            if name in given:
                raise InvalidInput(f"world.{name}", given[name], f"{name} only together with world.data")
    return "data" in given


def _topics(given: Mapping[str, object]) -> int | None:
    return None if "topics" not in given else validate.integer("world.topics", given["topics"], low=2, high=1000)


def _arms_of_file(file: object, truth: str) -> tuple[FloatArray, Numbers, FloatArray | None]:
    """Return vectors [n, d], labels or rates [n], and coverage [n, topics] if the file has it."""
    accepted = f"the path of an .npz file with x (n x d), {truth} (n) and, optionally, coverage (n x topics)"
    arrays = read_arrays(file, ("x", truth), ("coverage",), accepted=accepted)
    x, known = arrays["x"].astype(np.float64), arrays[truth]
    if x.ndim != 2 or 0 in x.shape or known.shape != x.shape[:1] or not np.isfinite(x).all():
        raise InvalidInput("world.file", file, accepted)
    if "coverage" not in arrays:
        return x, known, None
    coverage = arrays["coverage"].astype(np.float64)
    if coverage.ndim != 2 or len(coverage) != len(x) or not ((coverage >= 0) & (coverage <= 1)).all():
        raise InvalidInput("world.file", file, accepted + ", coverage in [0, 1]")
    return x, known, coverage


def _binary_matrix(file: object) -> BoolArray:
    accepted = "the path of an .npz file with a binary array W, users x items"
    W = read_arrays(file, ("W",), accepted=accepted)["W"]
    if W.ndim != 2 or min(W.shape) < 2 or not ((W == 0) | (W == 1)).all():
        raise InvalidInput("world.file", f"{file} with W of shape {W.shape}", accepted)
    return np.asarray(W, dtype=np.bool_)
