"""Reading and adding at one column per learner and slot. Empty slots (-1) are the caller's to ignore."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from rankloop.types import FloatArray, IntArray

N = TypeVar("N", bound=np.generic)


def take(table: NDArray[N], columns: IntArray) -> NDArray[N]:
    """table[b, columns[b, k]], shape [B, K, ...]; an empty slot reads the last column."""
    return np.asarray(table[np.arange(columns.shape[0])[:, None], columns])


def add_at(table: FloatArray, columns: IntArray, values: FloatArray) -> None:
    """table[b, columns[b, k]] += values[b, k], values [B, K, ...]; columns of a row are distinct, -1 adds nothing."""
    rows = np.arange(columns.shape[0])[:, None]
    if columns.min(initial=0) < 0:
        # A -1 beside the last item would be the same cell twice, and plain += keeps only one of them.
        shown = (columns >= 0).reshape(columns.shape + (1,) * (values.ndim - 2))
        np.add.at(table, (rows, columns), np.where(shown, values, 0))
    else:
        table[rows, columns] += values
