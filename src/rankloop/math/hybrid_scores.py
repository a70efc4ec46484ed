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
    weights, outcomes, known, signs = np.zeros(BLOCK), np.zeros(BLOCK), np.zeros(BLOCK), np.zeros(BLOCK)
    h, apart = np.zeros(HEAD), factor != 0.0
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
        base, own, constant = h[1], signature[1] if apart else 0.0, len(first) == 3 and first.shape[1] == 1
        if apart and constant:
            base += h[0] * first[0, 0] + h[2] * first[1, 0] + h[3] * first[2, 0]
            own += signature[0] * first[0, 0] + signature[2] * first[1, 0] + signature[3] * first[2, 0]
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
            # Simple loops over slices, one after the other, use the vector units; a single one over all terms does not.
            if len(index) > 0:
                for i in range(len(part)):
                    weights[i], outcomes[i] = n[b, index[start + i]], Y[b, index[start + i]]
                    known[i] = R[b, index[start + i]]
            else:
                weights[: len(part)] = n[b, start:end]
            observed = 0
            for i in range(len(part)):
                observed += int(weights[i] > 0.0)
            dense = 8 * observed > len(part)
            if dense:
                if len(index) == 0:
                    outcomes[: len(part)], known[: len(part)] = Y[b, start:end], R[b, start:end]
                for i in range(len(part)):
                    total, sign = base, own
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
                    for i in range(len(part) if dense else 0):
                        signs[i] += signature[2] * score[i]
                else:
                    offset, score, order = first[0, start:end], first[1, start:end], first[2, start:end]
                    for i in range(len(part)):
                        part[i] += h[0] * offset[i] + h[2] * score[i] + h[3] * order[i]
                    for i in range(len(part) if dense else 0):
                        signs[i] += signature[0] * offset[i] + signature[2] * score[i] + signature[3] * order[i]
            if not dense:
                many = 0
                for i in range(len(part) if observed > 0 else 0):  # without a branch, which would be mispredicted
                    chosen[many] = i
                    many += int(weights[i] > 0.0)
                for o in range(many):
                    i = int(chosen[o])
                    item = index[start + i] if len(index) > 0 else start + i
                    row, sign = some[i], own
                    for j in range(m):
                        sign += row[j] * v[j]
                    if apart and not constant:
                        if len(first) == 1:
                            sign += signature[2] * first[0, start + i]
                        else:
                            sign += signature[0] * first[0, start + i] + signature[2] * first[1, start + i]
                            sign += signature[3] * first[2, start + i]
                    past = weights[i] * part[i]
                    if abs(weights[i] * sign - R[b, item]) > UNCHANGED_WITHIN * weights[i]:
                        past = 0.0
                        for j in range(q):
                            past += S[b, item, j] * theta[b, j]
                    root = 1.0 / np.sqrt(weights[i] + kappa)
                    part[i] += root * ((Y[b, item] - past) * root + noise * z[i]) - spread * z[i]
                for i in range(len(part)):
                    part[i] += spread * z[i]
                continue
            # An item without observations has n = Y = 0, for which the formula holds as well.
            changed = 0
            for i in range(len(part)):
                apart_by = abs(weights[i] * signs[i] - known[i])
                changed += int(apart_by > UNCHANGED_WITHIN * weights[i])
            if changed > 0:
                for i in range(len(part)):
                    if abs(weights[i] * signs[i] - known[i]) > UNCHANGED_WITHIN * weights[i]:
                        item = index[start + i] if len(index) > 0 else start + i
                        past = weights[i] * part[i]
                        for j in range(q):
                            past -= S[b, item, j] * theta[b, j]
                        outcomes[i] += past
            for i in range(len(part)):
                root = 1.0 / np.sqrt(weights[i] + kappa)
                part[i] += root * ((outcomes[i] - weights[i] * part[i]) * root + noise * z[i])
        if bounded:
            for start in range(0, L, BLOCK):
                part = out[b, start : min(L, start + BLOCK)]
                floor, many = largest[0], 0
                for i in range(len(part)):
                    many += int(part[i] >= floor)
                for i in range(len(part) if many > 0 else 0):
                    if part[i] >= largest[0]:
                        bits(keys[b], (start + i) // 2, buffer[:1])
                        one[0] = (buffer[0] >> np.uint64(32 * (i % 2))) & np.uint64(0xFFFFFFFF)
                        quantiles(one, tables[0], tables[1], one_edge, one_z)
                        item = index[start + i] if len(index) > 0 else start + i
                        less = tables[2][one[0] >> np.uint32(32 - COARSE_BITS)] - one_z[0]
                        part[i] -= noise / np.sqrt(n[b, item] + kappa) * less
                        if part[i] > largest[0]:
                            insert(largest, part[i])


hybrid_scores = compiled(_hybrid_scores, fastmath=True)

TABLES = (TABLE, TAIL, upper_quantiles(COARSE))
