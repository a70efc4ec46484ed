"""Read and add at one column per learner and slot. The caller handles empty slots (-1)."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from rankloop.types import FloatArray, IntArray

N = TypeVar("N", bound=np.generic)


def take(table: NDArray[N], columns: IntArray) -> NDArray[N]:
    """Return table[b, columns[b, k]], shape [B, K, ...]; an empty slot reads the last column."""
    return np.asarray(table[np.arange(columns.shape[0])[:, None], columns])


def add_at(table: FloatArray, columns: IntArray, values: FloatArray) -> None:
    """Apply table[b, columns[b, k]] += values[b, k], values [B, K, ...].

    Columns of a row are distinct; -1 adds nothing.
    """
    rows = np.arange(columns.shape[0])[:, None]
    if columns.min(initial=0) < 0:
        # -1 and the last item are the same cell: a plain += would keep only one of the two additions.
        shown = (columns >= 0).reshape(columns.shape + (1,) * (values.ndim - 2))
        np.add.at(table, (rows, columns), np.where(shown, values, 0))
    else:
        table[rows, columns] += values
