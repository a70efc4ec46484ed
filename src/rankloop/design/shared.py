"""Designs of models that all items share: they are fed with features, crossed with the visitor's context."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankloop.design.base import Design, context_of, features_at, item_features
from rankloop.errors import Unsupported
from rankloop.math.crossed import crossed, width_of
from rankloop.types import IntArray, Model, Products, Read, Request, Rows, Setting


@dataclass(frozen=True)
class Shared(Design):
    """One model for all items, fed with their features."""

    dim: int | None = None  # d, where it is known

    @property
    def width(self) -> int:
        """The number of features of a row, which must be known."""
        if self.row_features is None:
            raise TypeError("the design was built without its number of features")
        return self.row_features

    @property
    def unknowns(self) -> int:
        """The number d of features in bounds that depend on it."""
        return self.width

    @property
    def reads(self) -> frozenset[Read]:
        """The features."""
        return frozenset({"features"})

    @property
    def row_features(self) -> int | None:
        """The number of item features."""
        return self.dim

    def rows(self, request: Request, prefix: IntArray, slot: int) -> Rows:
        """Return model 0 and the features of every candidate."""
        return Rows(model=0, x=request.features)

    def pick(self, request: Request, items: IntArray) -> Rows:
        """Return model 0 and the features of the listed items."""
        return Rows(model=0, x=features_at(request, items))

    def list_models(self, items: IntArray) -> Model:
        """Return model 0."""
        return 0

    def candidate_models(self, columns: IntArray) -> IntArray | None:
        """Return None: the model belongs to no item."""
        return None


@dataclass(frozen=True)
class Crossed(Shared):
    """One model for all items, fed with z = (x, y, x⊗y): the context, the item's features and their products.

    With a selection of products, z has these alone after x and y.
    Rows to be scored hold the two factors: a linear model scores all items from y without z (`rankloop.math.crossed`).
    """

    context: int = 0  # dx
    products: Products | None = None  # the products that z has; None: all

    @property
    def reads(self) -> frozenset[Read]:
        """The features and the context."""
        return frozenset({"features", "context"})

    @property
    def row_features(self) -> int | None:
        """The context, the features and their products: dx + dy + dx·dy, where all products are features."""
        return None if self.dim is None else width_of(self.context, self.dim, self.products)

    def rows(self, request: Request, prefix: IntArray, slot: int) -> Rows:
        """Return model 0, the features of every candidate, and the context that they are crossed with."""
        x, context = item_features(request), context_of(request, self.context)
        return Rows(model=0, x=x, context=context, products=self.products)

    def pick(self, request: Request, items: IntArray) -> Rows:
        """Return model 0 and z of the listed items, [B, K, dx + dy + dx·dy]."""
        z = crossed(context_of(request, self.context), features_at(request, items), self.products)
        return Rows(model=0, x=z)


TAKE_HASHED = (
    *("cascade-lin-ts", "cascade-lin-ucb", "ranked-lin-ts", "lin-ts-ltr", "lin-ts-cascade"),
    *("log-ts-ltr", "log-ts-newton"),
)
"""Policies whose beliefs take hashed sparse rows."""


def refuse_hashed(setting: Setting, policy: str) -> None:
    """Refuse hashed sparse rows, for a policy whose model has a full covariance."""
    if setting.hashed is not None:
        raise Unsupported(
            f"{policy} keeps a full covariance, and these rows are hashed into {setting.hashed} coefficients; choose "
            f"one of {', '.join(TAKE_HASHED)}, or fewer fields and crosses without `hashed`."
        )


def shared_rows(setting: Setting, policy: str) -> Shared:
    """Return the design of a policy that has one model for all items: crossed with the context, where there is one."""
    refuse_hashed(setting, policy)
    dim, context = setting.need_dim(policy), setting.context
    return Shared(dim) if context is None else Crossed(dim, context, setting.products)


@dataclass(frozen=True)
class PerSlot(Design):
    """One model for each slot, fed with the rows that a shared model would have."""

    dim: int | None = None  # d, where it is known
    context: int | None = None  # dx, where features are crossed with a context
    of: Shared | None = None  # the design of the rows, where these do not say it

    @property
    def shared(self) -> Shared:
        """The design of the rows."""
        if self.of is not None:
            return self.of
        return Shared(self.dim) if self.context is None else Crossed(self.dim, self.context)

    @property
    def reads(self) -> frozenset[Read]:
        """What the rows read, and the slot."""
        return self.shared.reads | {"slot"}

    @property
    def row_features(self) -> int | None:
        """The number of features of a row."""
        return self.shared.row_features

    def models_of_item(self, slots: int) -> int:
        """Return one model for each slot."""
        return slots

    def rows(self, request: Request, prefix: IntArray, slot: int) -> Rows:
        """Return model `slot` for every candidate."""
        rows = self.shared.rows(request, prefix, slot)
        return Rows(slot, rows.x, rows.context, rows.products)

    def pick(self, request: Request, items: IntArray) -> Rows:
        """Return model k for slot k."""
        return Rows(self.list_models(items), self.shared.pick(request, items).x)

    def list_models(self, items: IntArray) -> Model:
        """Return the slots, [K]."""
        return np.arange(items.shape[1])

    def candidate_models(self, columns: IntArray) -> IntArray | None:
        """Return None: a model belongs to a slot."""
        return None
