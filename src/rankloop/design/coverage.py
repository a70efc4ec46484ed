"""The design of coverage: what an item adds to the topics that the items above it cover."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankloop.design.base import Design, at
from rankloop.types import EMPTY, FloatArray, IntArray, Model, Read, Request, Rows


@dataclass(frozen=True)
class Coverage(Design):
    """One model, fed with the coverage that an item adds to the topics covered by the prefix.

    c̄ = (2c′-1)/√topics with c′_i = c_i(x)·∏_{y in prefix}(1 - c_i(y)) (paper `long-sequences`, Section 4).
    """

    topics: int | None = None  # d′, where it is known

    @property
    def reads(self) -> frozenset[Read]:
        """The topics, and the items above."""
        return frozenset({"coverage", "prefix"})

    @property
    def row_features(self) -> int | None:
        """One for each topic."""
        return self.topics

    def rows(self, request: Request, prefix: IntArray, slot: int) -> Rows:
        """Return c̄ of every candidate after this prefix, [B, L, topics]."""
        covered = _coverage_at(request, prefix)
        left = np.prod(1.0 - covered, axis=1)[:, None, :]
        return Rows(model=0, x=_centred(coverage_of(request) * left))

    def pick(self, request: Request, items: IntArray) -> Rows:
        """Return c̄ of each listed item after the items above it, [B, K, topics]."""
        covered = _coverage_at(request, items)
        left = np.cumprod(1.0 - covered, axis=1)
        left = np.concatenate([np.ones_like(left[:, :1]), left[:, :-1]], axis=1)
        return Rows(model=0, x=_centred(covered * left))

    def list_models(self, items: IntArray) -> Model:
        """Return model 0."""
        return 0

    def candidate_models(self, columns: IntArray) -> IntArray | None:
        """Return None: the model belongs to no item."""
        return None


def coverage_of(request: Request) -> FloatArray:
    """Return the topics covered by the candidates, [L, topics] or [B, L, topics]."""
    if request.coverage is None:
        raise TypeError("a coverage design needs a request with coverage")
    return request.coverage


def _coverage_at(request: Request, items: IntArray) -> FloatArray:
    """Return the topics covered by listed candidates, [B, K, topics]; an empty slot covers none."""
    return np.where((items != EMPTY)[:, :, None], at(coverage_of(request), items), 0.0)


def _centred(coverage: FloatArray) -> FloatArray:
    return np.asarray((2.0 * coverage - 1.0) / np.sqrt(coverage.shape[-1]))
