"""Standard normal numbers by item, from a key: cheap enough to draw one for each of 100,000 items in a decision.

An output of the SplitMix64 generator gives two items a uniform number of 32 bits each; the normal number is its
quantile. The quantile function is a table of cubics: over 512 equal steps of the probability, and near both ends, where
it is steep, over steps of √(-2 log p), in which it is nearly a line. The error is below 1e-6.
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from rankloop.math.kernels import inlined
from rankloop.types import FloatArray

BLOCK = 128
"""Items whose numbers are drawn together: their bits and normals stay in the fastest cache."""
CELLS = 512
"""Equal steps of the probability."""
EDGE = 6
"""Cells at either end that use the other table."""
TAIL_CELLS, TAIL_LOW, TAIL_HIGH = 64, 2.9, 6.9
"""Steps of q = √(-2 log p) from p = 0.015, beyond the edge cells, to p = 4.6e-11, below the least of 2⁻³³."""


def _cubics(at: FloatArray) -> FloatArray:
    """Return the cubics [n, 4], lowest power first, through values [n, 4] at the Chebyshev nodes of [0, 1]."""
    return np.ascontiguousarray(np.linalg.solve(np.vander(_NODES, 4, increasing=True), at.T).T)


_NODES = 0.5 - 0.5 * np.cos(np.pi * (np.arange(4) + 0.5) / 4)
_quantile = np.vectorize(NormalDist().inv_cdf, otypes=[np.float64])


def _table() -> FloatArray:
    """Return the cubics of the cells; those at the edges are never used."""
    return _cubics(_quantile((np.arange(CELLS)[:, None] + _NODES) / CELLS))


def _tail_table() -> FloatArray:
    """Return the cubics of the lower tail in q = √(-2 log p)."""
    q = TAIL_LOW + (np.arange(TAIL_CELLS)[:, None] + _NODES) * (TAIL_HIGH - TAIL_LOW) / TAIL_CELLS
    return _cubics(_quantile(np.exp(-0.5 * q * q)))


def upper_quantiles(steps: int) -> FloatArray:
    """Return the largest normal number of each of equal steps of the probability, [steps]."""
    last = (np.arange(1.0, steps + 1.0) * (2**32 // steps) - 0.5) / 2**32
    return np.asarray(_quantile(last) + 1e-6)  # the cubics are as exact as that


TABLE, TAIL = _table(), _tail_table()


def _bits(key: np.uint64, first: int, out: NDArray[np.uint64]) -> None:
    """Write outputs first, first + 1, … of the SplitMix64 generator (Steele, Lea and Flood 2014) that starts at key."""
    for j in range(len(out)):
        z = key + np.uint64(first + j + 1) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        out[j] = z ^ (z >> np.uint64(31))


bits = inlined(_bits)


def _tail_quantile(number: np.uint32, tail: FloatArray) -> float:
    """Return the normal quantile of (number + ½)/2³², for a number in an edge cell."""
    upper = number >= np.uint32(1 << 31)
    left = np.float64(np.uint32(0xFFFFFFFF) - number if upper else number)
    q = (np.sqrt(-2.0 * np.log((left + 0.5) * 2.0**-32)) - TAIL_LOW) * (TAIL_CELLS / (TAIL_HIGH - TAIL_LOW))
    step = min(int(q), TAIL_CELLS - 1)
    t = q - step
    z = tail[step, 0] + t * (tail[step, 1] + t * (tail[step, 2] + t * tail[step, 3]))
    return float(-z if upper else z)


tail_quantile = inlined(_tail_quantile)


def _quantiles(
    numbers: NDArray[np.uint32], table: FloatArray, tail: FloatArray, edges: NDArray[np.uint32], out: FloatArray
) -> None:
    """Write the normal quantile of (number + ½)/2³² for each number into out [n], with work space edges [n + 1].

    Three loops: without the rare branch, the first one uses the vector units, and the second one has no branch to
    mispredict.
    """
    for j in range(len(out)):
        cell = np.int32(numbers[j] >> np.uint32(23))
        t = np.float64(np.int32(numbers[j] & np.uint32(0x7FFFFF))) * 2.0**-23 + 2.0**-24
        out[j] = table[cell, 0] + t * (table[cell, 1] + t * (table[cell, 2] + t * table[cell, 3]))
    low, span = np.uint32(EDGE << 23), np.uint32((CELLS - 2 * EDGE) << 23)
    many = 0
    for j in range(len(out)):
        edges[many] = j
        many += int(np.uint32(numbers[j] - low) >= span)
    for e in range(many):
        out[edges[e]] = tail_quantile(numbers[edges[e]], tail)


quantiles = inlined(_quantiles)


def _normal(number: np.uint32, table: FloatArray, tail: FloatArray) -> float:
    """Return the normal quantile of (number + ½)/2³² for one number."""
    cell = np.int32(number >> np.uint32(23))
    if cell < EDGE or cell >= CELLS - EDGE:
        return float(tail_quantile(number, tail))
    t = np.float64(np.int32(number & np.uint32(0x7FFFFF))) * 2.0**-23 + 2.0**-24
    return float(table[cell, 0] + t * (table[cell, 1] + t * (table[cell, 2] + t * table[cell, 3])))


normal = inlined(_normal)


def _normals(
    key: np.uint64,
    block: int,
    buffer: NDArray[np.uint64],
    table: FloatArray,
    tail: FloatArray,
    edges: NDArray[np.uint32],
    out: FloatArray,
) -> None:
    """Write the normal numbers of a block of BLOCK items under this key into out [BLOCK].

    Work space: buffer [BLOCK/2], edges [BLOCK + 1].
    """
    bits(key, block * (BLOCK // 2), buffer)
    quantiles(buffer.view(np.uint32), table, tail, edges, out)


normals = inlined(_normals)


def item_normals(key: int, items: int) -> FloatArray:
    """Return the normal number of each item under a key, [L]."""
    buffer, found = np.empty(BLOCK // 2, dtype=np.uint64), np.empty((-(-items // BLOCK), BLOCK))
    for block, row in enumerate(found):
        normals(np.uint64(key), block, buffer, TABLE, TAIL, np.empty(BLOCK + 1, dtype=np.uint32), row)
    return found.reshape(-1)[:items]
