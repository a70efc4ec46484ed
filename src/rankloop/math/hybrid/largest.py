"""The largest scores of the hybrid belief, without the scores of items that cannot be among them.

A draw needs a normal number for each item. An item gets an upper bound of its draw, and the draw itself only if the
bound exceeds the largest scores found so far: those are the same, from the same numbers.
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from rankloop.math.hybrid.kernels import HEAD
from rankloop.math.hybrid.scores import UNCHANGED_WITHIN
from rankloop.math.item_normals import BLOCK, TABLE, TAIL, bits, normal, upper_quantiles
from rankloop.math.kernels import compiled, inlined
from rankloop.types import BoolArray, FloatArray, IntArray

LOW, HIGH, STEPS = -7.0, 7.0, 64
"""Range of the table of least numbers, and its steps for each unit."""
COARSE_BITS = 10
"""Leading bits of a number that tell an upper bound of its normal number."""
SLACK = 1e-12
"""Relative size of rounding errors, which no bound may miss."""
NOTHING = -1e300


def _least_numbers() -> NDArray[np.uint32]:
    """Return, for each step of a normal number, a number of 32 bits below which no item's normal number reaches it."""
    steps = LOW + np.arange(int((HIGH - LOW) * STEPS) + 1) / STEPS - 2e-6  # the cubics are as exact as 1e-6
    share = np.array([NormalDist().cdf(step) for step in steps])
    return np.asarray(np.clip(np.floor(share * 2.0**32) - 1.0, 0.0, 2.0**32 - 1.0).astype(np.uint32))


UPPER = (TABLE, TAIL, np.maximum(upper_quantiles(1 << COARSE_BITS), 0.0))
LEAST = _least_numbers()


def _insert(values: FloatArray, rows: IntArray, score: float, row: int) -> None:
    """Insert a score into the descending values of the largest ones so far, if it is larger than the last."""
    place = len(values) - 1
    if score <= values[place]:
        return
    while place > 0 and values[place - 1] < score:
        values[place], rows[place] = values[place - 1], rows[place - 1]
        place -= 1
    values[place], rows[place] = score, row


insert = inlined(_insert)


def _products(x: FloatArray, w: FloatArray, lead: FloatArray, out: FloatArray) -> float:
    """Set out[i] = x_iᵀw + lead[i] for BLOCK rows, and return the largest one."""
    top = NOTHING
    for i in range(0, BLOCK, 4):  # four sums at a time keep the vector units busy
        s, t, u, v = lead[i], lead[i + 1], lead[i + 2], lead[i + 3]
        for j in range(len(w)):
            s += x[i, j] * w[j]
            t += x[i + 1, j] * w[j]
            u += x[i + 2, j] * w[j]
            v += x[i + 3, j] * w[j]
        out[i], out[i + 1], out[i + 2], out[i + 3] = s, t, u, v
        top = max(top, max(max(s, t), max(u, v)))
    return top


products = inlined(_products)


def _two_products(
    x: FloatArray, w: FloatArray, v: FloatArray, lead: FloatArray, own: FloatArray, out: FloatArray, signs: FloatArray
) -> None:
    """Set out[i] = x_iᵀw + lead[i] and signs[i] = x_iᵀv + own[i] for BLOCK rows."""
    for i in range(0, BLOCK, 2):
        s, t, p, r = lead[i], lead[i + 1], own[i], own[i + 1]
        for j in range(len(w)):
            s += x[i, j] * w[j]
            t += x[i + 1, j] * w[j]
            p += x[i, j] * v[j]
            r += x[i + 1, j] * v[j]
        out[i], out[i + 1], signs[i], signs[i + 1] = s, t, p, r


two_products = inlined(_two_products)


def _lead(first: FloatArray, start: int, h: FloatArray, base: float, lead: FloatArray) -> None:
    """Set lead[i] to base plus what the columns that are kept apart, [1, L] or [3, L], add to row start + i."""
    end = min(start + len(lead), first.shape[1])
    if len(first) == 1:
        score = first[0, start:end]
        for i in range(len(score)):
            lead[i] = base + h[2] * score[i]
    else:
        offset, score, order = first[0, start:end], first[1, start:end], first[2, start:end]
        for i in range(len(score)):
            lead[i] = base + h[0] * offset[i] + h[2] * score[i] + h[3] * order[i]


lead_of = inlined(_lead)


def _score(fit: float, seen: float, outcome: float, past: float, kappa: float, noise: float, z: float) -> float:
    """Return x_iᵀθ + (Y - past)/c + noise·z/√c with c = n + κ."""
    root = 1.0 / np.sqrt(seen + kappa)
    return float(fit + root * ((outcome - past) * root + noise * z))


score_of = inlined(_score)


def _past(S: FloatArray, theta: FloatArray) -> float:
    """Return Sᵀθ."""
    total = 0.0
    for j in range(len(theta)):
        total += S[j] * theta[j]
    return total


past_of = inlined(_past)


def _hybrid_largest(
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
    allowed: BoolArray,
    tables: tuple[FloatArray, FloatArray, FloatArray],
    least: NDArray[np.uint32],
    rows: IntArray,
    values: FloatArray,
) -> bool:
    """Write the n largest scores of `hybrid_scores` into values [B, n], largest first, and their rows into rows [B, n].

    Returns False, with arbitrary results, where two of these scores are equal, nothing is drawn (a scale of 0) or fewer
    rows are allowed, allowed [1 or B, L] or [1, 0] for all. The other arguments are those of `hybrid_scores`.

    With m = x_iᵀθ the score of an item of unchanged rows is (κm + Y)/c + e·√(s²/c)·z, and e·√(s²/c) ≤ e·τ·(1 + κ/c)/2.
    So it is at most `floor` where κm + Y + e·τ·(c + κ)/2·max(z, 0) ≤ floor·c: a test without root and division.
    """
    n, Y, S, R = sums
    tau2, s2 = variances
    B, L = len(theta), len(index) if len(index) > 0 else n.shape[1]
    m, apart, shift = x.shape[2], factor != 0.0, np.uint32(32 - COARSE_BITS)
    left_out = HEAD if apart else 0
    unit = factor if apart else 1.0
    h, w, v = np.zeros(HEAD), np.empty(m), signature[left_out:] * unit
    buffer, rest = np.empty(BLOCK // 2, dtype=np.uint64), np.zeros((BLOCK, m))
    fits, lead, signs, own_lead = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    weights, outcomes, known, over = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    chosen, distinct = np.zeros(BLOCK + 1, dtype=np.uint32), True
    for b in range(B):
        if not (scale[b] > 0.0 and distinct):
            return False
        table, first = x[b if len(x) > 1 else 0], head[b if len(head) > 1 else 0]
        kappa, noise, spread = s2[b] / tau2[b], np.sqrt(s2[b]) * scale[b], np.sqrt(tau2[b]) * scale[b]
        best, where, half, may = values[b], rows[b], 0.5 * spread, allowed[b if len(allowed) > 1 else 0]
        best[:], where[:] = NOTHING, 0
        for j in range(left_out):
            h[j] = theta[b, j]
        for j in range(m):
            w[j] = theta[b, left_out + j] * unit
        base, own, constant = h[1], signature[1] if apart else 0.0, len(first) == 3 and first.shape[1] == 1
        if apart and constant:
            base += h[0] * first[0, 0] + h[2] * first[1, 0] + h[3] * first[2, 0]
            own += signature[0] * first[0, 0] + signature[2] * first[1, 0] + signature[3] * first[2, 0]
        lead[:], own_lead[:] = base, own
        for block in range((L + BLOCK - 1) // BLOCK):
            start = block * BLOCK
            end = min(L, start + BLOCK)
            size = end - start
            some, ns, ys, rs = table[start:end], n[b, start:end], Y[b, start:end], R[b, start:end]
            if size < BLOCK:
                rest[:size] = some
                some = rest
            if len(index) > 0:
                for i in range(size):
                    weights[i], outcomes[i] = n[b, index[start + i]], Y[b, index[start + i]]
                    known[i] = R[b, index[start + i]]
                ns, ys, rs = weights[:size], outcomes[:size], known[:size]
            if apart and not constant:
                lead_of(first, start, h, base, lead)
            bits(keys[b], block * (BLOCK // 2), buffer)
            numbers = buffer.view(np.uint32)
            observed = 0
            for i in range(len(ns)):
                observed += int(ns[i] > 0.0)
            # Simple loops, one after the other, use the vector units; a single one over all terms does not.
            if 3 * observed > size:
                if apart and not constant:
                    lead_of(first, start, signature, own, own_lead)
                two_products(some, w, v, lead, own_lead, fits, signs)
                for i in range(len(ns)):
                    over[i] = tables[2][numbers[i] >> shift]
                floor, reached = best[-1], 0
                for i in range(len(ns)):
                    c, fit, level = ns[i] + kappa, kappa * fits[i], floor * (ns[i] + kappa)
                    bound = fit + ys[i] - level + half * (c + kappa) * over[i]
                    over[i] = bound + SLACK * (abs(fit) + abs(ys[i]) + abs(level))
                for i in range(len(ns)):
                    signs[i] = abs(ns[i] * signs[i] - rs[i]) - UNCHANGED_WITHIN * ns[i]
                for i in range(len(ns)):
                    reached += int(max(over[i], signs[i]) > 0.0)
                for i in range(len(ns) if reached > 0 else 0):
                    if (over[i] > 0.0 or signs[i] > 0.0) and (len(may) == 0 or may[start + i]):
                        past = ns[i] * fits[i]
                        if signs[i] > 0.0:
                            past = past_of(S[b, index[start + i] if len(index) > 0 else start + i], theta[b])
                        z = normal(numbers[i], tables[0], tables[1])
                        insert(best, where, score_of(fits[i], ns[i], ys[i], past, kappa, noise, z), start + i)
                continue
            top, many = products(some, w, lead, fits), 0
            for i in range(len(ns) if observed > 0 else 0):  # without a branch, which would be mispredicted
                chosen[many] = i
                many += int(ns[i] > 0.0)
            for o in range(many):
                i = int(chosen[o])
                row, sign = some[i], own
                for j in range(m):
                    sign += row[j] * v[j]
                if apart and not constant:
                    if len(first) == 1:
                        sign += signature[2] * first[0, start + i]
                    else:
                        sign += signature[0] * first[0, start + i] + signature[2] * first[1, start + i]
                        sign += signature[3] * first[2, start + i]
                c, fit, level = ns[i] + kappa, kappa * fits[i], best[-1] * (ns[i] + kappa)
                bound = fit + ys[i] - level + half * (c + kappa) * tables[2][numbers[i] >> shift]
                bound += SLACK * (abs(fit) + abs(ys[i]) + abs(level))
                changed = abs(ns[i] * sign - rs[i]) > UNCHANGED_WITHIN * ns[i]
                if (changed or bound > 0.0) and (len(may) == 0 or may[start + i]):
                    past = ns[i] * fits[i]
                    if changed:
                        past = past_of(S[b, index[start + i] if len(index) > 0 else start + i], theta[b])
                    z = normal(numbers[i], tables[0], tables[1])
                    insert(best, where, score_of(fits[i], ns[i], ys[i], past, kappa, noise, z), start + i)
            floor = best[-1]
            needed = (floor - top - SLACK * (abs(floor) + abs(top))) / spread
            if needed < HIGH:
                enough, reached = least[int((max(needed, LOW) - LOW) * STEPS)], 0
                for i in range(BLOCK):
                    reached += int(numbers[i] >= enough)
                for i in range(size if reached > 0 else 0):
                    if numbers[i] >= enough and ns[i] == 0.0 and (len(may) == 0 or may[start + i]):
                        insert(best, where, fits[i] + spread * normal(numbers[i], tables[0], tables[1]), start + i)
        for place in range(1, len(best)):
            distinct = distinct and best[place] < best[place - 1]
    return distinct


hybrid_largest = compiled(_hybrid_largest, fastmath=True)
