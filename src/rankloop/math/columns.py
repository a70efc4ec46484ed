"""Read at one column per learner and slot. The caller handles empty slots (-1)."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from rankloop.types import IntArray

N = TypeVar("N", bound=np.generic)


def take(table: NDArray[N], columns: IntArray) -> NDArray[N]:
    """Return table[b, columns[b, k]], shape [B, K, ...]; an empty slot reads the last column."""
    return np.asarray(table[np.arange(columns.shape[0])[:, None], columns])
