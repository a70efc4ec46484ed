"""`Products`: which products of a context and an item's features are features, too."""

from __future__ import annotations

from dataclasses import dataclass

from rankloop.arrays import IntArray
from rankloop.errors import InvalidInput, Words
from rankloop.request_arrays import check_pairs


@dataclass(frozen=True, slots=True, eq=False)
class Products:
    """A selection of products of a context and an item's features: those of all pairs would be every product."""

    pairs: IntArray  # [n, 2], a column of the context and one of the features

    def __post_init__(self) -> None:
        """Refuse anything but pairs of columns: compiled loops rely on them."""
        check_pairs("products.pairs", self.pairs)

    def __len__(self) -> int:
        return len(self.pairs)

    def check(self, context: int, features: int) -> None:
        """Refuse pairs of columns that a context or features of these lengths do not have."""
        if len(self) and (self.pairs.min() < 0 or (self.pairs.max(axis=0) >= (context, features)).any()):
            raise InvalidInput(
                "products.pairs",
                Words(f"columns up to {self.pairs.max(axis=0).tolist()}"),
                f"columns of a context of {context} numbers and of {features} features",
            )
