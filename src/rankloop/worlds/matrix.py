"""A world of logged users: a binary matrix says which user is attracted by which item."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import svds

from rankloop.types import EMPTY, BoolArray, FloatArray, IntArray, Request, Setting
from rankloop.worlds.base import StationaryVisit
from rankloop.worlds.click_models import CascadeClicks


@dataclass(frozen=True)
class MatrixVisit(StationaryVisit["MatrixInstance"]):
    """A random user of the test half for each replication."""

    user: IntArray  # [B]

    def value(self, items: IntArray) -> FloatArray:
        """Return the share of the test users attracted by at least one of the items, [B]."""
        return coverage(self.instance.packed, items) / len(self.instance.W)

    def click(self, items: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return a click on the first item that attracts the user."""
        attracted = self.instance.W[self.user[:, None], items] & (items != EMPTY)
        return CascadeClicks().click(attracted, np.empty((len(items), 0)))


@dataclass(frozen=True)
class MatrixInstance:
    """B replications that share one matrix."""

    W: BoolArray  # [users, L], the test half
    packed: NDArray[np.uint8]  # [L, users/8], its columns as bits
    best: FloatArray  # [B]
    request: Request
    setting: Setting

    def visit(self, rng: np.random.Generator) -> MatrixVisit:
        """Draw a user uniformly for each replication."""
        return MatrixVisit(self, rng.integers(len(self.W), size=self.request.learners))


@dataclass(frozen=True)
class MatrixWorld:
    """Users × items, cut to the most popular items; half of the users give the features, the other half visit."""

    W: BoolArray  # [users, all items]; after `prepare` [test users, items]
    items: int
    dim: int
    k: int
    features: FloatArray | None = None  # [items, dim], made by `prepare`

    def prepare(self, rng: np.random.Generator) -> Self:
        """Return the world with shuffled items, the users of the test half, and features from the training half."""
        popular = np.argsort(-self.W.sum(axis=0), kind="stable")[: self.items]
        W = self.W[:, rng.permutation(popular)]
        users = rng.permutation(len(W))
        half = len(users) // 2
        features = svd_features(W[users[:half]], self.dim)
        return replace(self, W=np.ascontiguousarray(W[users[half:]]), features=features)

    def draw(self, streams: Sequence[np.random.Generator], rounds: int | None) -> MatrixInstance:
        """Return B replications that share users and features."""
        B = len(streams)
        packed = np.packbits(self.W.T, axis=1)
        best = coverage(packed, greedy_cover(self.W, self.k)[None, :]) / len(self.W)
        return MatrixInstance(
            W=self.W,
            packed=packed,
            best=np.broadcast_to(best, (B,)),
            request=Request(learners=B, items=self.items, k=self.k, features=self.features),
            setting=Setting(items=self.items, slots=self.k, rounds=rounds, dim=self.dim),
        )


def coverage(packed: NDArray[np.uint8], items: IntArray) -> FloatArray:
    """Return the number of users attracted by each list, [B], from bit columns [L, users/8] and lists [B, K]."""
    bits = np.where(items[:, :, None] != EMPTY, packed[items], 0)
    return np.asarray(np.bitwise_count(np.bitwise_or.reduce(bits, axis=1)).sum(axis=1, dtype=np.float64))


def greedy_cover(W: BoolArray, k: int) -> IntArray:
    """Return the list [k] that adds, slot by slot, the item that attracts the most users not yet attracted."""
    left = np.ones(len(W), dtype=np.bool_)
    taken: list[int] = []
    for _ in range(k):
        gain = W[left].sum(axis=0)
        gain[taken] = -1
        taken.append(int(gain.argmax()))
        left &= ~W[:, taken[-1]]
    return np.array(taken)


def svd_features(W: BoolArray, dim: int) -> FloatArray:
    """Return the rows of VΣ of the rank-d truncated SVD W ≈ UΣVᵀ, [L, d], with fixed signs."""
    M = W.astype(np.float64)
    if not M.any():
        return np.zeros((M.shape[1], dim))
    if dim < min(M.shape):
        _, sigma, Vt = svds(M, k=dim, v0=np.ones(min(M.shape)))
    else:
        _, sigma, Vt = np.linalg.svd(M, full_matrices=False)
    order = np.argsort(-sigma)[:dim]
    features = Vt[order].T * sigma[order]
    signs = np.sign(features[np.abs(features).argmax(axis=0), np.arange(len(order))])
    return np.asarray(features * np.where(signs == 0, 1.0, signs))
