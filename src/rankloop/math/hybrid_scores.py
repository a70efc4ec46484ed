"""Scores of all items under the hybrid belief in one pass over their features.

A draw needs a normal number for each item. Where only the largest scores matter, an item gets an upper bound of its
draw, from the step of its number in a coarse table, and the draw itself only if the bound exceeds the largest scores
found so far: the largest scores are the same, from the same numbers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rankloop.math.hybrid_kernels import HEAD
from rankloop.math.item_normals import BLOCK, TABLE, TAIL, bits, quantiles, upper_quantiles
from rankloop.math.kernels import compiled, inlined
from rankloop.types import FloatArray, IntArray

COARSE_BITS = 10
COARSE = 1 << COARSE_BITS
"""Steps of the coarse table."""
BOUNDS_FROM = 8192
"""Number of items from which upper bounds pay."""
UNCHANGED_WITHIN = 1e-10
"""Difference of the signatures of two rows up to which they count as equal."""


def _insert(largest: FloatArray, score: float) -> None:
    """Insert a score into the ascending row of the largest scores so far; the smallest drops out."""
    place = 0
    while place + 1 < len(largest) and largest[place + 1] < score:
        largest[place] = largest[place + 1]
        place += 1
    largest[place] = score


insert = inlined(_insert)


def _hybrid_scores(
    x: FloatArray,
    head: FloatArray,
    factor: float,
    signature: FloatArray,
    index: IntArray,
    theta: FloatArray,
    sums: tuple[FloatArray, FloatArray, FloatArray, FloatArray],
    variances: tuple[FloatArray, FloatArray],
    scale: FloatArray,
    keys: NDArray[np.uint64],
    tables: tuple[FloatArray, FloatArray, FloatArray],
    most: int,
    out: FloatArray,
) -> None:
    """Set out[b, i] = x_iᵀθ + (Y - Sᵀθ)/c + e·√(s²/c)·z_i, with one standard normal z_i for each row where e > 0.

    theta [B, q] are coefficients of complete rows, and signature [q] the weights of their signature. Rows are complete,
    x [1 or B, L, q], with the factor 0, or else (offset, 1, score, order, factor·x), with the score in head
    [1 or B, 1, L], or with all three in head [1 or B, 3, 1 or L].
    index [L] is the item of each row, or empty where row i is item i; sums n, Y, R [B, M], S [B, M, q];
    variances τ², s² [B]; scale e [B]. With most > 0 only the `most` largest scores of a learner need be right; others
    are any numbers below them.
    """
    n, Y, S, R = sums
    tau2, s2 = variances
    B, L = out.shape
    m, q = x.shape[2], theta.shape[1]
    z, buffer, w, v = np.zeros(BLOCK), np.empty(BLOCK // 2, dtype=np.uint64), np.empty(m), np.empty(m)
    signs, fits, h, apart = np.empty(BLOCK), np.empty(BLOCK), np.zeros(HEAD), factor != 0.0
    left_out = HEAD if apart else 0
    for j in range(m):
        v[j] = signature[left_out + j] * (factor if apart else 1.0)
    chosen, largest = np.empty(BLOCK + 1, dtype=np.uint32), np.empty(max(most, 1))
    one, one_z, one_edge = np.empty(1, dtype=np.uint32), np.empty(1), np.empty(2, dtype=np.uint32)
    for b in range(B):
        rows, first = x[b if len(x) > 1 else 0], head[b if len(head) > 1 else 0]
        kappa, noise, spread = s2[b] / tau2[b], np.sqrt(s2[b]) * scale[b], np.sqrt(tau2[b]) * scale[b]
        bounded = most > 0 and scale[b] > 0.0
        largest[:] = -1e300
        for j in range(left_out):
            h[j] = theta[b, j]
        for j in range(m):
            w[j] = theta[b, left_out + j] * (factor if apart else 1.0)
        base, constant = h[1], first.shape[1] == 1 and L > 1
        if constant:
            base += h[0] * first[0, 0] + h[2] * first[1, 0] + h[3] * first[2, 0]
        for block in range((L + BLOCK - 1) // BLOCK):
            start = block * BLOCK
            end = min(L, start + BLOCK)
            part, some = out[b, start:end], rows[start:end]
            if scale[b] > 0.0:
                bits(keys[b], block * (BLOCK // 2), buffer)
                numbers = buffer.view(np.uint32)
                if bounded:
                    for i in range(BLOCK):
                        z[i] = tables[2][numbers[i] >> np.uint32(32 - COARSE_BITS)]
                else:
                    quantiles(numbers, tables[0], tables[1], chosen, z)
            # Observed items are first listed without a branch, which would be mispredicted for every other item.
            observed = 0
            if len(index) > 0:
                for i in range(len(part)):
                    chosen[observed] = i
                    observed += int(n[b, index[start + i]] > 0.0)
            else:
                seen = n[b, start:end]
                for i in range(len(part)):
                    chosen[observed] = i
                    observed += int(seen[i] > 0.0)
            # Simple loops over slices, one after the other, use the vector units; a single one over all terms does not.
            dense = 4 * observed > len(part)
            if dense:
                for i in range(len(part)):
                    total, sign = base, 0.0
                    for j in range(m):
                        total += some[i, j] * w[j]
                        sign += some[i, j] * v[j]
                    part[i], signs[i] = total, sign
            else:
                for i in range(len(part)):
                    total = base
                    for j in range(m):
                        total += some[i, j] * w[j]
                    part[i] = total
            if apart and not constant:
                if len(first) == 1:
                    score = first[0, start:end]
                    for i in range(len(part)):
                        part[i] += h[2] * score[i]
                else:
                    offset, score, order = first[0, start:end], first[1, start:end], first[2, start:end]
                    for i in range(len(part)):
                        part[i] += h[0] * offset[i] + h[2] * score[i] + h[3] * order[i]
            for o in range(observed):
                fits[o] = part[chosen[o]]
            if dense:
                for o in range(observed):
                    signs[o] = signs[chosen[o]]
            else:
                for o in range(observed):
                    row, sign = some[chosen[o]], 0.0
                    for j in range(m):
                        sign += row[j] * v[j]
                    signs[o] = sign
            for i in range(len(part)):
                part[i] += spread * z[i]
            for o in range(observed):
                i, fit = int(chosen[o]), fits[o]
                item = index[start + i] if len(index) > 0 else start + i
                sign = signs[o]
                if apart:
                    at = 0 if constant else start + i
                    if len(first) == 1:
                        sign += signature[1] + signature[2] * first[0, at]
                    else:
                        sign += signature[0] * first[0, at] + signature[1]
                        sign += signature[2] * first[1, at] + signature[3] * first[2, at]
                root, past = 1.0 / np.sqrt(n[b, item] + kappa), n[b, item] * fit
                if abs(n[b, item] * sign - R[b, item]) > UNCHANGED_WITHIN * n[b, item]:
                    past = 0.0
                    for j in range(q):
                        past += S[b, item, j] * theta[b, j]
                mean = fit + root * root * (Y[b, item] - past)
                part[i] = mean + noise * root * z[i]
                if bounded and part[i] > largest[0]:
                    one[0] = numbers[i]
                    quantiles(one, tables[0], tables[1], one_edge, one_z)
                    part[i] = mean + noise * root * one_z[0]
                    if part[i] > largest[0]:
                        insert(largest, part[i])
        if bounded:
            for start in range(0, L, BLOCK):
                part = out[b, start : min(L, start + BLOCK)]
                floor, many = largest[0], 0
                for i in range(len(part)):
                    many += int(part[i] >= floor)
                for i in range(len(part) if many > 0 else 0):
                    item = index[start + i] if len(index) > 0 else start + i
                    if part[i] >= largest[0] and n[b, item] <= 0.0:
                        bits(keys[b], (start + i) // 2, buffer[:1])
                        one[0] = (buffer[0] >> np.uint64(32 * (i % 2))) & np.uint64(0xFFFFFFFF)
                        quantiles(one, tables[0], tables[1], one_edge, one_z)
                        part[i] += spread * (one_z[0] - tables[2][one[0] >> np.uint32(32 - COARSE_BITS)])
                        if part[i] > largest[0]:
                            insert(largest, part[i])


hybrid_scores = compiled(_hybrid_scores, fastmath=True)

TABLES = (TABLE, TAIL, upper_quantiles(COARSE))
