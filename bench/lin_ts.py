"""Compare CascadeLinTS with hand-written code: a simulation with a direct loop, one decision with a function.

    python -m bench.lin_ts

Every ratio is measured within one run, in alternating rounds, with one BLAS thread.
"""

from __future__ import annotations

import time

import numpy as np

from bench.baselines import HandWritten, direct_loop
from rankloop import build
from rankloop.simulator.chunk import Chunk, play
from rankloop.simulator.parallel import one_blas_thread
from rankloop.simulator.spec import policy_specs
from rankloop.types import FloatArray, Request, Setting
from rankloop.worlds.attraction import FixedAttraction
from rankloop.worlds.click_models import CascadeClicks
from rankloop.worlds.click_world import ClickWorld


def problem(L: int, d: int, seed: int = 0) -> tuple[FloatArray, FloatArray]:
    """Return unit-norm features and attraction probabilities that are linear in them."""
    rng = np.random.default_rng(seed)
    X = rng.random((L, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    theta = rng.random(d)
    return X, 0.3 * X @ (theta / np.linalg.norm(theta))


def simulation(L: int = 256, d: int = 20, k: int = 4, replications: int = 256, repeats: int = 15) -> float:
    """Return the replication-rounds per second of a batch divided by those of the direct loop."""
    X, nu = problem(L, d)
    world = ClickWorld(CascadeClicks(), FixedAttraction(nu, X), k)
    (spec,) = policy_specs(["cascade-lin-ts"])
    play(world, spec, Chunk(0, 0, 2), 2, 0, lambda t: None)  # compile before the clock starts
    ours, loop = [], []
    for repeat in range(repeats):
        started = time.perf_counter()
        direct_loop(X, nu, k, 1000, np.random.default_rng(repeat))
        loop.append(1000 / (time.perf_counter() - started))
        chunk = play(world, spec, Chunk(0, 0, replications), 200, repeat, lambda t: None)
        ours.append(200 * replications / chunk.seconds)
    ratio = float(np.median(np.array(ours) / np.array(loop)))
    print(
        f"simulation L={L} d={d} K={k}, {replications} replications: {np.median(ours):,.0f} replication-rounds/s, "
        f"direct loop {np.median(loop):,.0f}/s: {ratio:.0f} times as fast (target: at least 40)"
    )
    return ratio


def one_decision(L: int, d: int = 20, k: int = 4, rounds: int = 2000, blocks: int = 8) -> float:
    """Return the time of `decide` plus `learn` of one learner divided by that of the hand-written function."""
    X, nu = problem(L, d)
    policy = build("cascade-lin-ts", Setting(items=L, slots=k, dim=d))
    state, request = policy.init(1), Request(learners=1, items=L, k=k, features=X)
    hand = HandWritten(X, k)
    rng = np.random.default_rng(1)
    ours, theirs = np.zeros((2, blocks))
    for block in range(blocks):
        for _ in range(rounds // blocks):
            first = _first_click(rng, nu, k)
            clicks = np.zeros((1, k))
            clicks[0, first : first + 1] = 1.0
            started = time.perf_counter()
            decision = policy.decide(state, request, rng)
            policy.learn(state, decision, clicks)
            ours[block] += time.perf_counter() - started
        for _ in range(rounds // blocks):
            first = _first_click(rng, nu, k)
            started = time.perf_counter()
            hand.learn(hand.decide(rng), first)
            theirs[block] += time.perf_counter() - started
    ratio = float(np.median(ours / theirs))
    each = 1e6 * blocks / rounds
    print(
        f"one decision L={L} d={d} K={k}: decide + learn {np.median(ours) * each:.0f} µs, "
        f"hand-written {np.median(theirs) * each:.0f} µs: {ratio:.1f} times as long (target: at most 4)"
    )
    return ratio


def _first_click(rng: np.random.Generator, nu: FloatArray, k: int) -> int:
    attracted = rng.random(k) < nu.max()
    return int(attracted.argmax()) if attracted.any() else k


def main() -> None:
    """Print the three ratios that have targets."""
    simulation()
    one_decision(256)
    one_decision(3000)


if __name__ == "__main__":
    with one_blas_thread():
        main()
