"""Items with equal records: of independent draws with one distribution only the largest matter, whoever has them."""

from __future__ import annotations

import numpy as np

from rankloop.types import BoolArray, FloatArray, IntArray


def apart(tables: tuple[FloatArray, ...], record: FloatArray, allowed: BoolArray | None) -> tuple[IntArray, int]:
    """Return the allowed items whose record differs from this one, and the number of the other allowed items.

    Args:
        tables: arrays [L], at least one.
        record: one number of each table.
        allowed: [L]; None for all.
    """
    differs = tables[0] != record[0]
    for table, value in zip(tables[1:], record[1:], strict=True):
        differs |= table != value
    if allowed is not None:
        differs &= allowed
    found = np.flatnonzero(differs)
    return found, (len(differs) if allowed is None else int(np.count_nonzero(allowed))) - len(found)


def largest_of_equals(rng: np.random.Generator, draws: int, needed: int) -> FloatArray:
    """Return 1 - u for the `needed` largest u of this number of independent uniform numbers, largest u first.

    -log u of the largest is exponential with the rate `draws`; of the next ones, by Rényi's representation, the steps
    are exponential with the rates draws - 1, draws - 2, ….
    """
    steps = rng.standard_exponential(needed) / (draws - np.arange(needed))
    return np.asarray(-np.expm1(-np.cumsum(steps)))
