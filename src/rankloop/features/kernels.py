"""Compiled loops that write values of fields into rows.

A dense row has a number for each column. A sparse row of P positions has 2·P numbers: P values, then the coefficients
that these belong to; an unused position has the value 0.
"""

from __future__ import annotations

import numpy as np

from rankloop.math.hashing import mixed
from rankloop.math.kernels import compiled, inlined
from rankloop.types import BoolArray, FloatArray, IntArray

CLIP = 5.0
"""Largest magnitude of a scaled number in a row: no value, however large, outweighs everything that was learned."""


def _put_numbers(
    raw: FloatArray, log: BoolArray, scale: FloatArray, seen: BoolArray, start: IntArray, out: FloatArray
) -> None:
    """Write (±log(1 + |v|) or v, minus scale[0], over scale[1], clipped) into column start; NaN is missing.

    Args:
        raw: numbers of F fields, [F, n].
        log: whether the field is on the scale of logarithms, [F].
        scale: center and scale, [2, F].
        seen: whether the column start + 1 is 1 where the value is missing, [F].
        start: [F].
        out: [n, width].
    """
    for f in range(raw.shape[0]):
        for i in range(raw.shape[1]):
            v = raw[f, i]
            if np.isnan(v):
                out[i, start[f] + 1] = 1.0 if seen[f] else 0.0
                continue
            if log[f]:
                v = np.sign(v) * np.log1p(abs(v))
            out[i, start[f]] = min(max((v - scale[0, f]) / scale[1, f], -CLIP), CLIP)


put_numbers = compiled(_put_numbers)


def _put_hashed_numbers(
    raw: FloatArray,
    log: BoolArray,
    scale: FloatArray,
    seen: BoolArray,
    start: IntArray,
    at: IntArray,
    out: FloatArray,
) -> None:
    """Write the same values with their coefficients at[f, 0] into position start; a missing one is 1 at at[f, 1]."""
    P = out.shape[1] // 2
    for f in range(raw.shape[0]):
        for i in range(raw.shape[1]):
            v = raw[f, i]
            if np.isnan(v):
                if seen[f]:
                    out[i, start[f]], out[i, P + start[f]] = 1.0, at[f, 1]
                continue
            if log[f]:
                v = np.sign(v) * np.log1p(abs(v))
            out[i, start[f]] = min(max((v - scale[0, f]) / scale[1, f], -CLIP), CLIP)
            out[i, P + start[f]] = at[f, 0]


put_hashed_numbers = compiled(_put_hashed_numbers)


def _put_categories(at: IntArray, start: IntArray, out: FloatArray) -> None:
    """Write 1 into column start[f] + at[f·n + i] of row i of out [n, width], for at [F·n]; -1 writes nothing."""
    n = out.shape[0]
    for f in range(len(start)):
        for i in range(n):
            j = at[f * n + i]
            if j >= 0:
                out[i, start[f] + j] = 1.0


put_categories = compiled(_put_categories)


def _put_hashed_categories(at: IntArray, start: IntArray, out: FloatArray) -> None:
    """Write 1 with the coefficient at[f·n + i] into position start[f] of row i; -1 writes nothing."""
    n, P = out.shape[0], out.shape[1] // 2
    for f in range(len(start)):
        for i in range(n):
            j = at[f * n + i]
            if j >= 0:
                out[i, start[f]], out[i, P + start[f]] = 1.0, j


put_hashed_categories = compiled(_put_hashed_categories)


@inlined
def _is_among(at: IntArray, first: int, e: int) -> bool:
    """Return whether at[e] equals one of at[first:e]."""
    found = False
    for other in range(first, e):
        found = found or at[other] == at[e]
    return found


def _put_tags(at: IntArray, lengths: IntArray, start: int, out: FloatArray) -> None:
    """Write 1/√n into each of the n different columns start + at[e] of a row; an entry of -1 writes nothing.

    Args:
        at: [entries], those of the first row, then those of the next.
        lengths: entries of each row, [rows].
        start: first column of the field.
        out: [rows, width].
    """
    first = 0
    for i in range(len(lengths)):
        last = first + lengths[i]
        n = 0
        for e in range(first, last):
            if at[e] >= 0 and not _is_among(at, first, e):
                n += 1
        for e in range(first, last):
            if at[e] >= 0:
                out[i, start + at[e]] = 1.0 / np.sqrt(float(n))
        first = last


put_tags = compiled(_put_tags)


def _put_hashed_tags(at: IntArray, lengths: IntArray, start: int, out: FloatArray) -> None:
    """Write 1/√n with each of the n different coefficients at[e] of a row into the positions from `start` on."""
    first, P = 0, out.shape[1] // 2
    for i in range(len(lengths)):
        last = first + lengths[i]
        n = 0
        for e in range(first, last):
            if at[e] >= 0 and not _is_among(at, first, e):
                out[i, P + start + n] = at[e]
                n += 1
        for p in range(start, start + n):
            out[i, p] = 1.0 / np.sqrt(float(n))
        first = last


put_hashed_tags = compiled(_put_hashed_tags)


def _put_vectors(raw: FloatArray, scale: float, seen: bool, start: int, out: FloatArray) -> None:
    """Write vectors [n, m], over `scale` and clipped, into the columns from `start` on; a row of NaN is missing."""
    m = raw.shape[1]
    for i in range(raw.shape[0]):
        if np.isnan(raw[i, 0]):
            out[i, start + m] = 1.0 if seen else 0.0
            continue
        for j in range(m):
            out[i, start + j] = min(max(raw[i, j] / scale, -CLIP), CLIP)


put_vectors = compiled(_put_vectors)


def _put_hashed_vectors(raw: FloatArray, scale: float, seen: bool, start: int, at: IntArray, out: FloatArray) -> None:
    """Write the same values with the coefficients at[:m] into the positions from `start` on; missing: 1 at at[m]."""
    m, P = raw.shape[1], out.shape[1] // 2
    for i in range(raw.shape[0]):
        if np.isnan(raw[i, 0]):
            if seen:
                out[i, start], out[i, P + start] = 1.0, at[m]
            continue
        for j in range(m):
            out[i, start + j], out[i, P + start + j] = min(max(raw[i, j] / scale, -CLIP), CLIP), at[j]


put_hashed_vectors = compiled(_put_hashed_vectors)


def _put_hashed_products(a: int, A: int, b: int, B: int, mask: int, start: int, out: FloatArray) -> None:
    """Write the products of the A positions from a on with the B positions from b on into those from `start` on."""
    P = out.shape[1] // 2
    for i in range(out.shape[0]):
        p = start
        for j in range(a, a + A):
            for k in range(b, b + B):
                value = out[i, j] * out[i, k]
                if value != 0.0:
                    out[i, p] = value
                    out[i, P + p] = mixed(int(out[i, P + j]), int(out[i, P + k]), mask)
                p += 1


put_hashed_products = compiled(_put_hashed_products)
