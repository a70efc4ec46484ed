"""`RankerFeatures`: the encoders of a ranker's items and contexts, and what a policy must know of their rows."""

from __future__ import annotations

import numpy as np

from rankloop.features.encoder import Encoder
from rankloop.schema.feature_settings import FeatureSettings
from rankloop.types import Products


class RankerFeatures:
    """Both encoders of some settings, and which of their columns are crossed.

    Attributes:
        items: encoder of items; its first column is 1, so that a model has an intercept.
        context: encoder of contexts, None where the settings declare no field of the context.
        hashed: number of coefficients of sparse rows, None where rows are dense.
        products: pairs of a column of the context and one of the items whose product is a feature; None without a
            context.
    """

    def __init__(self, settings: FeatureSettings) -> None:
        self.settings = settings
        self.hashed = settings.coefficients
        self.items = item_encoder(settings)
        self.context = context_encoder(settings) if settings.context else None
        self.products = _products(settings, self.items, self.context)

    @property
    def dim(self) -> int:
        """Numbers of an item's row: the `dim` of the policy's setting."""
        return self.items.width

    @property
    def context_width(self) -> int | None:
        """Numbers of a context's row: the `context` of the policy's setting; None without fields of the context."""
        return None if self.context is None else self.context.width

    @property
    def note(self) -> str | None:
        """A sentence for the answer to a configuration: about rows that are hashed, or products for lack of room."""
        settings = self.settings
        if self.hashed is not None:
            why = f" of {settings.row_columns} columns" if settings.hashed is None else ""
            return f"rows{why} are sparse, hashed into {self.hashed} coefficients, and their covariance is diagonal"
        crossed = set(settings.context_crosses)
        apart = [pair for pair in settings.all_context_crosses if pair not in crossed] if settings.cross is None else []
        if not apart:
            return None
        names = ", ".join(f"{item} with {context}" for item, context in apart)
        return f"rows have no room to cross {names}: declare fewer categories, cross or hashed"


def item_encoder(settings: FeatureSettings) -> Encoder:
    """Return the encoder of items, which has learned nothing."""
    return Encoder(settings.items, settings.coefficients, constant=True, cross=settings.item_crosses, role="item")


def context_encoder(settings: FeatureSettings) -> Encoder:
    """Return the encoder of contexts, which has learned nothing."""
    return Encoder(settings.context, settings.coefficients, role="context")


def _products(settings: FeatureSettings, items: Encoder, context: Encoder | None) -> Products | None:
    """Return the pairs of columns that the settings cross."""
    if context is None:
        return None
    pairs = [
        (x, y)
        for item, other in settings.context_crosses
        for x in context.columns_of(other)
        for y in items.columns_of(item)
    ]
    return Products(np.array(pairs, dtype=np.int64).reshape(-1, 2))
