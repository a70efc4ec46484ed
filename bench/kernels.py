"""Compare the compiled kernels with their NumPy forms, alternating in one run.

python -m bench.kernels
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from rankloop.math import factor
from rankloop.math.kernels import largest
from rankloop.simulator.parallel import one_blas_thread
from rankloop.types import FloatArray, IntArray


def potter_in_numpy(F: FloatArray, x: FloatArray) -> None:
    """Apply the same update with batched products: F [B, d, d], x [B, K, d]."""
    for k in range(x.shape[1]):
        f = np.vecmat(x[:, k], F)
        gain = np.matvec(F, f)
        a = 1.0 / (1.0 + np.vecdot(f, f))
        F -= np.einsum("bi,bj->bij", gain, f * (a / (1.0 + np.sqrt(a)))[:, None])


def largest_in_numpy(scores: FloatArray, order: IntArray, values: FloatArray) -> None:
    """Make the same selection by repeated argmax."""
    work, rows = scores.copy(), np.arange(len(scores))
    for j in range(order.shape[1]):
        order[:, j] = work.argmax(axis=1)
        values[:, j] = work[rows, order[:, j]]
        work[rows, order[:, j]] = -np.inf


def compare(name: str, ours: Callable[[], object], numpy: Callable[[], object], repeats: int = 200) -> None:
    """Print the median times of both, measured alternately."""
    times = np.zeros((2, repeats))
    ours()
    numpy()
    for r in range(repeats):
        for row, run in enumerate((ours, numpy)):
            started = time.perf_counter()
            run()
            times[row, r] = time.perf_counter() - started
    kernel, plain = np.median(times, axis=1) * 1e6
    print(f"{name}: compiled {kernel:.0f} µs, NumPy {plain:.0f} µs: {plain / kernel:.1f} times as fast")


def main() -> None:
    """Measure batches of one and of many learners."""
    rng = np.random.default_rng(0)
    for B in (1, 256):
        F = factor.initial(B, 1, 20, 1.0)
        G = F[:, 0].copy()
        x = rng.random((B, 4, 20))
        compare(
            f"Potter's update, B={B} d=20, 4 rows",
            lambda F=F, x=x: factor.add_rows(F, 0, x),  # type: ignore[misc]
            lambda G=G, x=x: potter_in_numpy(G, x),  # type: ignore[misc]
        )
    for B, L in ((1, 256), (256, 256), (10, 3000)):
        scores = rng.random((B, L))
        order, values = np.empty((B, 5), dtype=np.int64), np.empty((B, 5))
        compare(
            f"5 largest of {B} x {L}",
            lambda s=scores, o=order, v=values: largest(s, o, v, np.empty(len(s), dtype=np.bool_)),  # type: ignore[misc]
            lambda s=scores, o=order, v=values: largest_in_numpy(s, o, v),  # type: ignore[misc]
        )


if __name__ == "__main__":
    with one_blas_thread():
        main()
