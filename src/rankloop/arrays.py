"""Type aliases of arrays, and the mark of an empty slot in lists."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
Array = NDArray[np.generic]
"""An array of any type."""

EMPTY = -1
"""The item index of an empty slot."""
