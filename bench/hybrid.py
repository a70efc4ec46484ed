"""Compare `hybrid` with `cascade-lin-ts`: decide + learn of one learner, side by side in one process.

    python -m bench.hybrid

Times include the fits of variances and biases every 200 rounds. Every ratio is measured within one run, in alternating
blocks of rounds, with one BLAS thread.
"""

from __future__ import annotations

import time

import numpy as np

from bench.lin_ts import problem
from rankloop import build
from rankloop.simulator.parallel import one_blas_thread
from rankloop.types import FloatArray, Request, Setting

POLICIES = ("hybrid", "cascade-lin-ts")


def one_decision(
    L: int, d: int = 20, k: int = 10, block: int = 200, blocks: int = 10, *, scores: bool = False
) -> float:
    """Return the time of `decide` plus `learn` of `hybrid` divided by that of `cascade-lin-ts`."""
    X, nu = problem(L, d)
    own: FloatArray | None = nu if scores else None
    policies = {id: build(id, Setting(items=L, slots=k, dim=d)) for id in POLICIES}
    states = {id: policy.init(1) for id, policy in policies.items()}
    requests = {id: Request(1, L, k, X, scores=own if id == "hybrid" else None) for id in POLICIES}
    rng, seconds = np.random.default_rng(1), {id: np.zeros(blocks) for id in POLICIES}
    for number in range(-1, blocks):  # the first block compiles
        for id, policy in policies.items():
            for _ in range(block):
                started = time.perf_counter()
                decision = policy.decide(states[id], requests[id], rng)
                spent = time.perf_counter() - started
                clicks = policy.feedback.keep((rng.random((1, k)) < nu[decision.items]).astype(np.float64))
                started = time.perf_counter()
                policy.learn(states[id], decision, clicks)
                if number >= 0:
                    seconds[id][number] += spent + time.perf_counter() - started
    ratio = float(np.median(seconds["hybrid"] / seconds["cascade-lin-ts"]))
    ours, theirs = (1e6 * np.median(seconds[id]) / block for id in POLICIES)
    given = "with scores" if scores else "without scores"
    print(
        f"one decision L={L} d={d} K={k} {given}: decide + learn {ours:.0f} µs, cascade-lin-ts {theirs:.0f} µs: "
        f"{ratio:.2f} times as long (target: at most 1.5)",
        flush=True,
    )
    return ratio


def main() -> None:
    """Print the ratios that have targets."""
    for L in (3000, 100_000):
        one_decision(L)
    for L in (3000, 100_000):
        one_decision(L, scores=True)


if __name__ == "__main__":
    with one_blas_thread():
        main()
