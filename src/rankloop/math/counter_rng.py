"""A counter-based RNG: the uniform number of an item is a function of a key and the item's index.

Policies that face the same key get common random numbers: an item has the same number whatever list it is in, and only
the numbers that are used are computed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rankloop.types import FloatArray, IntArray


def keys(learners: int, rng: np.random.Generator) -> NDArray[np.uint64]:
    """Return a random key for each learner, [B]."""
    return rng.integers(0, 2**64, size=learners, dtype=np.uint64)


def uniforms(key: NDArray[np.uint64], items: IntArray) -> FloatArray:
    """Return the uniform number in [0, 1) of each item [B, K] under its learner's key [B].

    Item i gets output i of the SplitMix64 generator (Steele, Lea and Flood 2014) that starts at the key.
    """
    z = key[:, None] + (items.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return np.asarray((z >> np.uint64(11)) * 2.0**-53)
