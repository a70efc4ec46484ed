"""Compare decisions that look at unseen items together with decisions that score every item, side by side.

    python -m bench.unseen

A million items, of which 2,000 were shown. Then `cascade-lin-ucb` beside `cascade-lin-ts`, whose lists need no widths.
Every ratio is measured within one run, in alternation, with one BLAS thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from bench.lin_ts import problem
from rankloop import build
from rankloop.plan import TopK
from rankloop.simulator.parallel import one_blas_thread
from rankloop.types import BetaPrior, Request, Setting

POLICIES = ("gts", "ts-beta", "bayes-ucb", "cascade-ucb1", "cascade-kl-ucb")


@dataclass(frozen=True, eq=False)
class FromAllScores(TopK):
    """The planner that needs the scores of all items."""

    def needed(self, request: Request) -> int | None:
        """Return None."""
        return None


def alternating(ours: Callable[[], object], theirs: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Return the median µs of both."""
    times = np.zeros((2, repeats))
    for repeat in range(-1, repeats):
        for row, run in enumerate((ours, theirs)):
            started = time.perf_counter()
            run()
            if repeat >= 0:
                times[row, repeat] = time.perf_counter() - started
    found = 1e6 * np.median(times, axis=1)
    return float(found[0]), float(found[1])


def unseen(id: str, items: int = 1_000_000, seen: int = 2000, k: int = 10) -> float:
    """Return how many times as fast a decision is that looks at unseen items together."""
    prior = BetaPrior(np.full(items, 1.0), np.full(items, 9.0))
    policy: Any = build(id, Setting(items, k, rounds=1000, prior=prior))
    state, rng, request = policy.init(1), np.random.default_rng(1), Request(1, items, k)
    for lists in np.random.default_rng(0).permutation(items)[:seen].reshape(-1, 1, k):
        decision = policy.adopt(request, lists)
        policy.learn(state, decision, policy.feedback.keep((rng.random(lists.shape) < 0.1).astype(np.float64)))
    plain = replace(policy, plan=FromAllScores())
    ours, theirs = alternating(
        lambda: policy.decide(state, request, rng), lambda: plain.decide(state, request, rng), repeats=15
    )
    print(
        f"{id}: decide with L={items:,}, {seen:,} seen: {ours:,.0f} µs, from all scores {theirs:,.0f} µs: "
        f"{theirs / ours:.0f} times as fast",
        flush=True,
    )
    return theirs / ours


def widths(items: int, d: int = 20, k: int = 10, rounds: int = 60) -> float:
    """Return the time of `decide` of `cascade-lin-ucb` divided by that of `cascade-lin-ts`."""
    X, nu = problem(items, d)
    rng, decide = np.random.default_rng(1), []
    for id in ("cascade-lin-ucb", "cascade-lin-ts"):
        policy = build(id, Setting(items=items, slots=k, dim=d, rounds=rounds))
        state, request = policy.init(1), Request(1, items, k, X)
        for _ in range(rounds):
            decision = policy.decide(state, request, rng)
            clicks = policy.feedback.keep((rng.random((1, k)) < nu[decision.items]).astype(np.float64))
            policy.learn(state, decision, clicks)
        decide.append(partial(policy.decide, state, request, rng))
    ours, theirs = alternating(decide[0], decide[1], repeats=60)
    print(
        f"cascade-lin-ucb: decide with L={items:,} d={d}: {ours:,.0f} µs, cascade-lin-ts {theirs:,.0f} µs: "
        f"{ours / theirs:.1f} times as long",
        flush=True,
    )
    return ours / theirs


def main() -> None:
    """Print the ratios."""
    for id in POLICIES:
        unseen(id)
    for items in (3000, 100_000):
        widths(items)


if __name__ == "__main__":
    with one_blas_thread():
        main()
