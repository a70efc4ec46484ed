"""Coefficients of products in hashed sparse rows."""

from __future__ import annotations

from rankloop.math.kernels import inlined


def _mixed(i: int, j: int, mask: int) -> int:
    """Return the coefficient of the product of the coefficients i and j, from 0 to mask, for i and j below 2^22.

    The order matters. No step exceeds 63 bits, so that compiled code and Python agree.
    """
    h = (i * 0x9E3779B1) ^ (j * 0x85EBCA77)
    h ^= h >> 27
    h = (h & 0x7FFFFFFF) * 0x5851F42D
    h ^= h >> 29
    h = (h & 0x7FFFFFFF) * 0x4C957F2D
    h ^= h >> 31
    return h & mask


mixed = inlined(_mixed)
