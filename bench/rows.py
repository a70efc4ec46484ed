"""Measure rows that change with every request, and candidates among many items, side by side in one run.

python -m bench.rows
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from rankloop import catalogue
from rankloop.ranking_policy import LearnerState, RankingPolicy
from rankloop.simulator.parallel import one_blas_thread
from rankloop.types import FloatArray, IntArray, Request, Setting

CANDIDATES, SLOTS, DIM, MANY = 100, 10, 50, 100_000
ROUNDS, SECTIONS = 400, 9
Step = Callable[[int], object]


def side_by_side(name: str, ours: Step, other: Step, limit: float) -> float:
    """Print the median times of one decision and its lesson, measured in alternating sections, and their ratio."""
    seconds = np.zeros((2, SECTIONS))
    for section in range(-1, SECTIONS):  # the first one compiles and warms up
        for row, step in enumerate((ours, other)):
            started = time.perf_counter()
            for n in range(ROUNDS):
                step(n)
            if section >= 0:
                seconds[row, section] = (time.perf_counter() - started) / ROUNDS
    one, two = np.median(seconds, axis=1) * 1e6
    print(f"{name}: {one:.1f} µs, {two:.1f} µs: {one / two:.2f} times (limit {limit:g})")
    return float(one / two)


def first_click(rng: np.random.Generator) -> FloatArray:
    """Return a click in a random slot, or none."""
    clicks = np.zeros((1, SLOTS))
    slot = int(rng.integers(SLOTS + 1))
    if slot < SLOTS:
        clicks[0, slot] = 1.0
    return clicks


def lin_ts_by_hand(rng: np.random.Generator, x: FloatArray, clicks: list[FloatArray]) -> Step:
    """Return CascadeLinTS in plain NumPy: x [n, L, d], V⁻¹ by a square root and rank-one updates."""
    F, b = np.eye(DIM), np.zeros(DIM)

    def step(n: int) -> None:
        rows, y = x[n], clicks[n][0]
        theta = F @ (b @ F + rng.standard_normal(DIM))
        scores = rows @ theta
        best = np.argpartition(scores, -SLOTS)[-SLOTS:]
        shown = best[np.argsort(-scores[best])]
        seen = int(y.argmax()) + 1 if y.any() else SLOTS
        for k in range(seen):
            row = rows[shown[k]]
            f = row @ F
            a = 1.0 / (1.0 + f @ f)
            F[...] -= np.outer(F @ f, f * (a / (1.0 + np.sqrt(a))))
            b[...] += y[k] * row

    return step


def laplace_by_hand(rng: np.random.Generator, x: FloatArray, clicks: list[FloatArray]) -> Step:
    """Return logistic Thompson sampling in plain NumPy, by recursive Laplace approximation."""
    F, theta = np.eye(DIM), np.zeros(DIM)

    def step(n: int) -> None:
        rows, y = x[n], clicks[n][0]
        scores = rows @ (theta + F @ rng.standard_normal(DIM))
        best = np.argpartition(scores, -SLOTS)[-SLOTS:]
        shown = best[np.argsort(-scores[best])]
        seen = int(y.argmax()) + 1 if y.any() else SLOTS
        for k in range(seen):
            row = rows[shown[k]]
            p = 1.0 / (1.0 + np.exp(-(row @ theta)))
            f = np.sqrt(p * (1.0 - p)) * (row @ F)
            a = 1.0 / (1.0 + f @ f)
            F[...] -= np.outer(F @ f, f * (a / (1.0 + np.sqrt(a))))
            theta[...] += (y[k] - p) * (F @ (row @ F))

    return step


def learner(
    policy: RankingPolicy[LearnerState], requests: list[Request], clicks: list[FloatArray], rng: np.random.Generator
) -> Step:
    """Return one decision and its lesson, round after round."""
    state = policy.init(1)

    def step(n: int) -> None:
        policy.update(state, policy.decide(state, requests[n], rng), clicks[n])

    return step


def changing_rows() -> None:
    """Compare policies on rows of each request with the same arithmetic written by hand."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((ROUNDS, CANDIDATES, DIM)) / np.sqrt(DIM)
    clicks = [first_click(rng) for _ in range(ROUNDS)]
    requests = [Request(1, CANDIDATES, SLOTS, rows) for rows in x]
    setting = Setting(CANDIDATES, SLOTS, dim=DIM, changing=True)
    for id, by_hand in (("cascade-lin-ts", lin_ts_by_hand), ("log-ts-ltr", laplace_by_hand)):
        ours = learner(catalogue.build(id, setting), requests, clicks, np.random.default_rng(1))
        hand = by_hand(np.random.default_rng(1), x, clicks)
        side_by_side(f"changing rows, {CANDIDATES} candidates, d = {DIM}: {id}, by hand", ours, hand, 2.0)


def candidates_of_many() -> None:
    """Compare a policy of many items, asked for some of them, with one that holds only these."""
    rng = np.random.default_rng(2)
    clicks = [first_click(rng) for _ in range(ROUNDS)]
    columns: IntArray = rng.permutation(MANY)[:CANDIDATES]
    dim, bias = 20, np.linspace(1.0, 0.3, SLOTS)
    table = rng.standard_normal((MANY, dim)) / np.sqrt(dim)
    for id in ("gts", "cascade-ucb1", "pbm-ucb", "cascade-lin-ts", "cascade-lin-ucb", "log-ts-ltr", "ucr"):
        length = 4 if id == "ucr" else None
        context = None if length is None else rng.standard_normal((1, length))
        steps = []
        for items, chosen in ((MANY, columns), (CANDIDATES, None)):
            policy = catalogue.build(id, Setting(items, SLOTS, 10**6, dim, bias=bias, context=length))
            request = Request.trusted(1, CANDIDATES, SLOTS, columns=chosen, features=table[columns], context=context)
            steps.append(learner(policy, [request] * ROUNDS, clicks, np.random.default_rng(3)))
        side_by_side(f"{CANDIDATES} of {MANY:,} items, of {CANDIDATES}: {id}", steps[0], steps[1], 1.3)


def main() -> None:
    """Measure both."""
    changing_rows()
    candidates_of_many()


if __name__ == "__main__":
    with one_blas_thread():
        main()
