"""Scores of all items under the hybrid belief in one pass over their features."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rankloop.math.hybrid.kernels import HEAD
from rankloop.math.item_normals import BLOCK, TABLE, TAIL, normals
from rankloop.math.kernels import compiled
from rankloop.types import FloatArray, IntArray

UNCHANGED_WITHIN = 1e-10
"""Difference of the signatures of two rows up to which they count as equal."""


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
    tables: tuple[FloatArray, FloatArray],
    out: FloatArray,
) -> None:
    """Set out[b, i] = x_iᵀθ + (Y - Sᵀθ)/c + e·√(s²/c)·z_i, with one standard normal z_i for each row where e > 0.

    theta [B, q] are coefficients of complete rows, and signature [q] the weights of their signature. Rows are complete,
    x [1 or B, L, q], with the factor 0, or else (offset, 1, score, order, factor·x), with the score in head
    [1 or B, 1, L], or with all three in head [1 or B, 3, 1 or L].
    index [L] is the item of each row, or empty where row i is item i; sums n, Y, R [B, M], S [B, M, q];
    variances τ², s² [B]; scale e [B].
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
    chosen = np.empty(BLOCK + 1, dtype=np.uint32)
    for b in range(B):
        rows, first = x[b if len(x) > 1 else 0], head[b if len(head) > 1 else 0]
        kappa, noise, spread = s2[b] / tau2[b], np.sqrt(s2[b]) * scale[b], np.sqrt(tau2[b]) * scale[b]
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
                normals(keys[b], block, buffer, tables[0], tables[1], chosen, z)
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


hybrid_scores = compiled(_hybrid_scores, fastmath=True)

TABLES = (TABLE, TAIL)
