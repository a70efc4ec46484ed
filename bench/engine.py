"""Compare a ranker in process with its bare policy: the cost of the log, the items and the explanations."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from rankloop import catalogue
from rankloop.serving import Ranker, RankerConfig
from rankloop.types import Request, Setting

L, D, K = 1_000, 20, 10
ROUNDS, REPEATS, WARM_UP_VISITS = 100, 12, 1_000
"""During the warm-up the write-ahead log is checkpointed once."""
CALLERS, VISITS_PER_CALLER = 64, 60


def items(rng: np.random.Generator) -> list[dict[str, object]]:
    """Return L items with unit-norm features."""
    x = rng.standard_normal((L, D))
    x /= np.linalg.vector_norm(x, axis=1, keepdims=True)
    return [{"id": f"item-{i}", "features": row} for i, row in enumerate(x.tolist())]


def open_ranker(folder: str) -> Ranker:
    """Open a ranker on SQLite with synchronous commits."""
    config = RankerConfig.of({"policy": "cascade-lin-ts", "slots": K, "dim": D, "seed": 1})
    ranker = Ranker.open(Path(folder) / "log.db", config)
    ranker.put_items(items(np.random.default_rng(0)))
    return ranker


def bare_policy() -> Callable[[], None]:
    """Return a function that runs one decide and learn of the policy alone, with the same items."""
    x = np.array([item["features"] for item in items(np.random.default_rng(0))])
    policy = catalogue.build("cascade-lin-ts", Setting(L, K, None, D))
    state, request, rng = policy.init(1), Request(1, L, K, x), np.random.default_rng(1)
    clicks = np.zeros((1, K))
    clicks[0, 2] = 1.0
    return lambda: policy.learn(state, policy.decide(state, request, rng), clicks)


def cpu_per_visit() -> tuple[float, float, float]:
    """Return the CPU seconds of one decide and learn, of one rank and feedback, and of the first in a loop of its own.

    The first two alternate, so that both run with the processor caches as a commit left them. All threads count; each
    result is the median over repeats.
    """
    with tempfile.TemporaryDirectory() as folder:
        ranker, policy = open_ranker(folder), bare_policy()
        for _ in range(WARM_UP_VISITS):
            ranker.feedback(ranker.rank().id, clicked=[2])
        spent: list[tuple[float, float, float]] = []
        for _ in range(REPEATS):
            policy_seconds = visit_seconds = 0.0
            for _ in range(ROUNDS):
                start = time.process_time()
                policy()
                middle = time.process_time()
                ranker.feedback(ranker.rank().id, clicked=[2])
                policy_seconds += middle - start
                visit_seconds += time.process_time() - middle
            start = time.process_time()
            for _ in range(ROUNDS):
                policy()
            spent.append((policy_seconds, visit_seconds, time.process_time() - start))
        ranker.close()
    policy_alone, visit, loop = np.median(np.array(spent), axis=0) / ROUNDS
    return float(policy_alone), float(visit), float(loop)


def concurrent_callers() -> tuple[float, float, float]:
    """Return the visits per second of concurrent callers, the CPU seconds per visit, and the seconds of one fsync."""
    with tempfile.TemporaryDirectory() as folder:
        ranker = open_ranker(folder)

        def caller() -> None:
            for _ in range(VISITS_PER_CALLER):
                ranker.feedback(ranker.rank().id, clicked=[2])

        threads = [threading.Thread(target=caller) for _ in range(CALLERS)]
        start, spent = time.perf_counter(), time.process_time()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took, spent = time.perf_counter() - start, time.process_time() - spent
        ranker.close()
    visits = CALLERS * VISITS_PER_CALLER
    return visits / took, spent / visits, _fsync_seconds()


def _fsync_seconds() -> float:
    import os

    with tempfile.TemporaryFile() as file:
        start = time.perf_counter()
        for _ in range(30):
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
        return (time.perf_counter() - start) / 30


def main() -> None:
    """Print the ratios."""
    policy, visit, loop = cpu_per_visit()
    print(f"bare decide + learn: {policy * 1e6:.0f} µs of CPU; rank + feedback in a ranker: {visit * 1e6:.0f} µs")
    print(f"ratio {visit / policy:.1f}, alternating (target: at most 5); the policy in a loop: {loop * 1e6:.0f} µs")
    rate, each, fsync = concurrent_callers()
    print(
        f"{CALLERS} concurrent callers: {rate:,.0f} visits/s (target: 2,000), {each * 1e6:.0f} µs of CPU each; "
        f"one fsync takes {fsync * 1e3:.1f} ms"
    )


if __name__ == "__main__":
    main()
