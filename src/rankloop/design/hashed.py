"""The design of hashed sparse rows, as `rankloop.features` makes them of named fields."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankloop.design.base import context_of, features_at, item_features
from rankloop.design.shared import Shared, shared_rows
from rankloop.errors import InvalidInput, Words
from rankloop.math.diagonal_kernels import sparse_rows
from rankloop.types import FloatArray, IntArray, Products, Read, Request, Rows, Setting


@dataclass(frozen=True)
class Hashed(Shared):
    """One model for all items, fed with sparse rows: the context, the item's features and products of the two.

    The features of an item are P values, then the P coefficients that these belong to, and so are the context and the
    rows. A product belongs to a hash of both coefficients.
    """

    coefficients: int = 1  # N, a power of two
    context: int | None = None  # length of the visitor's context, 2·Pc
    products: Products | None = None  # pairs of positions of the context and the item; None: all of them

    def __post_init__(self) -> None:
        """Refuse lengths that are not twice a number of positions, and coefficients that no mask selects."""
        for name, length in (("setting.dim", self.dim), ("setting.context", self.context)):
            if length is not None and length % 2:
                raise InvalidInput(name, length, "an even number, since rows are hashed: values, then coefficients")
        N = self.coefficients
        if N < 1 or N & (N - 1):
            raise InvalidInput("setting.hashed", N, "a power of two")

    @property
    def reads(self) -> frozenset[Read]:
        """The features, and the context where there is one."""
        return frozenset({"features"}) if self.context is None else frozenset({"features", "context"})

    @property
    def unknowns(self) -> int:
        """Positions of a row."""
        context, items = (self.context or 0) // 2, (self.dim or 0) // 2
        return context + items + (context * items if self.products is None else len(self.products))

    @property
    def row_features(self) -> int | None:
        """The values and coefficients of a row."""
        return None if self.dim is None else 2 * self.unknowns

    def working_bytes(self, items: int) -> int:
        """Return the bytes of the rows of all items, where these are crossed with a context."""
        return 0 if self.context is None else items * self.width * np.dtype(np.float64).itemsize

    def rows(self, request: Request, prefix: IntArray, slot: int) -> Rows:
        """Return model 0 and the sparse rows of every candidate."""
        return Rows(model=0, x=self._crossed(request, item_features(request)))

    def pick(self, request: Request, items: IntArray) -> Rows:
        """Return model 0 and the sparse rows of the listed items, [B, K, 2·P]."""
        return Rows(model=0, x=self._crossed(request, features_at(request, items)))

    def _crossed(self, request: Request, items: FloatArray) -> FloatArray:
        if items.shape[-1] != self.dim:
            raise InvalidInput("request.features", Words(f"{items.shape[-1]} numbers a row"), f"{self.dim} numbers")
        if self.context is None:
            return items
        table = np.ascontiguousarray(items if items.ndim == 3 else items[None])
        context = np.ascontiguousarray(context_of(request, self.context))
        if self.products is None:
            grid = np.indices((self.context // 2, items.shape[-1] // 2)).reshape(2, -1)
            pairs = np.ascontiguousarray(grid.T, dtype=np.int64)
        else:
            self.products.check(self.context // 2, items.shape[-1] // 2)
            pairs = np.ascontiguousarray(self.products.pairs)
        out = np.zeros((request.learners, table.shape[1], self.width))
        sparse_rows(table, context, pairs, self.coefficients - 1, out)
        return out


def hashed_or_shared(setting: Setting, policy: str) -> Shared:
    """Return the design of a policy that has one model for all items and takes hashed sparse rows as well."""
    if setting.hashed is None:
        return shared_rows(setting, policy)
    return Hashed(setting.need_dim(policy), setting.hashed, setting.context, setting.products)
