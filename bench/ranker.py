"""A ranker in process beside the bare policy: what the log, the items and the explanation cost."""

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
ROUNDS, TURNS, WARM = 100, 12, 1_000
"""After so many visits the write-ahead log has begun anew once."""
CALLERS, EACH = 64, 60


def items(rng: np.random.Generator) -> list[dict[str, object]]:
    """L items with unit-norm features."""
    x = rng.standard_normal((L, D))
    x /= np.linalg.vector_norm(x, axis=1, keepdims=True)
    return [{"id": f"item-{i}", "features": row} for i, row in enumerate(x.tolist())]


def opened(folder: str) -> Ranker:
    """A ranker on SQLite, every commit on the disk."""
    config = RankerConfig.of({"policy": "cascade-lin-ts", "slots": K, "dim": D, "seed": 1})
    ranker = Ranker.open(Path(folder) / "log.db", config)
    ranker.put_items(items(np.random.default_rng(0)))
    return ranker


def bare() -> Callable[[], None]:
    """One decide and learn of the policy alone, for as many items."""
    x = np.array([item["features"] for item in items(np.random.default_rng(0))])
    policy = catalogue.build("cascade-lin-ts", Setting(L, K, None, D))
    state, request, rng = policy.init(1), Request(1, L, K, x), np.random.default_rng(1)
    clicks = np.zeros((1, K))
    clicks[0, 2] = 1.0
    return lambda: policy.learn(state, policy.decide(state, request, rng), clicks)


def side_by_side() -> tuple[float, float, float]:
    """CPU seconds of one decide and learn, of one rank and feedback, and of the first where nothing else runs.

    The first two take turns, one by one, so that both find the processor as a commit left it. All threads count;
    medians of turns.
    """
    with tempfile.TemporaryDirectory() as folder:
        ranker, policy = opened(folder), bare()
        for _ in range(WARM):
            ranker.feedback(ranker.rank().id, clicked=[2])
        spent: list[tuple[float, float, float]] = []
        for _ in range(TURNS):
            own = visits = 0.0
            for _ in range(ROUNDS):
                start = time.process_time()
                policy()
                middle = time.process_time()
                ranker.feedback(ranker.rank().id, clicked=[2])
                own, visits = own + middle - start, visits + time.process_time() - middle
            start = time.process_time()
            for _ in range(ROUNDS):
                policy()
            spent.append((own, visits, time.process_time() - start))
        ranker.close()
    alone, whole, quick = np.median(np.array(spent), axis=0) / ROUNDS
    return float(alone), float(whole), float(quick)


def together() -> tuple[float, float, float]:
    """Pairs per second of 64 callers at once, CPU seconds of each, and seconds of one fsync here."""
    with tempfile.TemporaryDirectory() as folder:
        ranker = opened(folder)

        def caller() -> None:
            for _ in range(EACH):
                ranker.feedback(ranker.rank().id, clicked=[2])

        threads = [threading.Thread(target=caller) for _ in range(CALLERS)]
        start, spent = time.perf_counter(), time.process_time()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took, spent = time.perf_counter() - start, time.process_time() - spent
        ranker.close()
    return CALLERS * EACH / took, spent / (CALLERS * EACH), _fsync()


def _fsync() -> float:
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
    alone, whole, quick = side_by_side()
    print(f"bare decide + learn: {alone * 1e6:.0f} µs of CPU; rank + feedback in a ranker: {whole * 1e6:.0f} µs")
    print(f"ratio {whole / alone:.1f}, in turns (at most 5 asked); the policy alone in a loop: {quick * 1e6:.0f} µs")
    pairs, each, fsync = together()
    print(
        f"{CALLERS} callers at once: {pairs:,.0f} pairs/s (2,000 asked), {each * 1e6:.0f} µs of CPU each; "
        f"one fsync takes {fsync * 1e3:.1f} ms here"
    )


if __name__ == "__main__":
    main()
