"""Compare assignment, fits of the choice model and select-rank rounds with their plain forms.

python -m bench.slots
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from rankloop.belief.choice import sensitivity
from rankloop.catalogue import build
from rankloop.math import mnl
from rankloop.objective import AnyClick
from rankloop.plan import Assignment
from rankloop.simulator.parallel import one_blas_thread
from rankloop.types import FloatArray, Request, Setting


def assignment(N: int, K: int, repeats: int = 15) -> None:
    """Print the time of the assignment next to SciPy on the whole matrix and to the computation of the scores."""
    rng = np.random.default_rng(0)
    policy = build("ucr", Setting(items=N, slots=K, context=7))
    inner = policy.policy  # type: ignore[attr-defined]
    state: Any = policy.init(1)
    request = Request(1, N, K, context=rng.uniform(-0.5, 0.5, (1, 7)))
    state.belief.theta[...] = rng.standard_normal(state.belief.theta.shape)
    nothing = np.empty((1, 0), dtype=np.int64)
    times = np.zeros((3, repeats))
    plans = (Assignment(AnyClick(), max_full_items=N), Assignment(AnyClick(), max_full_items=0))
    for r in range(repeats):
        started = time.perf_counter()
        score = inner.explore(state.belief, state.t, rng)
        scores = [score(inner.design.rows(request, nothing, k)) for k in range(K)]
        times[0, r] = time.perf_counter() - started
        weights = AnyClick().gain(np.concatenate(scores))
        rows, columns = linear_sum_assignment(weights, maximize=True)
        for row, plan in enumerate(plans, start=1):
            started = time.perf_counter()
            ours = plan(lambda prefix, slot, s=scores: s[slot], request, rng).items[0]  # type: ignore[misc]
            times[row, r] = time.perf_counter() - started
            if not np.isclose(weights[np.arange(K), ours].sum(), weights[rows, columns].sum()):
                raise AssertionError("the assignment is not optimal")
    scoring, whole, union = np.median(times, axis=1) * 1e6
    used = whole if Assignment(AnyClick()).max_full_items >= N else union
    print(
        f"assignment (N, K) = ({N:,}, {K}): scores {scoring:,.0f} µs, whole matrix {whole:,.0f} µs, "
        f"union of the K best {union:,.0f} µs; the one in use costs {used / scoring:.2f} times the scores"
    )


def perturbed_fits(repeats: int = 5) -> None:
    """Measure one epoch of problem (c): all K·J perturbed fits as one warm batch, and in a plain loop from scratch."""
    rng = np.random.default_rng(1)
    J, K = 30, 6
    alpha = np.array([1.0] * 4 + [0.8] * 2 + [0.1] * 24)
    lam = np.array([1.0, 0.9, 0.7, 0.3, 0.5, 0.7])
    S = rng.integers(1, 30, (1, K, J)).astype(np.float64)
    N = rng.negative_binomial(S, 1.0 / (1.0 + lam[:, None] * alpha)).astype(np.float64)
    start = np.full((1, J), 0.1), np.full((1, K), 0.1)
    a, v = mnl.fit_mle(N, S, *start)
    batch = sensitivity(mnl.fit_mle, N, S, a, v)
    times = np.zeros((2, repeats))
    for r in range(repeats):
        started = time.perf_counter()
        sensitivity(mnl.fit_mle, N, S, a, v)
        times[0, r] = time.perf_counter() - started
        started = time.perf_counter()
        loop = plain_loop(N[0], S[0], a[0])
        times[1, r] = time.perf_counter() - started
    if not np.allclose(batch, loop, rtol=1e-4):
        raise AssertionError("batch and loop differ")
    ours, plain = np.median(times, axis=1) * 1e3
    print(
        f"choice (c), {K * J} perturbed fits: batch {ours:.1f} ms, plain loop {plain:,.0f} ms: "
        f"{plain / ours:.0f} times as fast (target: at least 20)"
    )


def plain_loop(N: FloatArray, S: FloatArray, alpha: FloatArray) -> FloatArray:
    """Return β² by successive Newton fits in plain NumPy, each from scratch."""
    beta2 = np.zeros(len(alpha))
    for k, j in np.argwhere(S >= 1):
        more = N.copy()
        more[k, j] += 1.0
        beta2 += (alpha - plain_fit(more, S)) ** 2 * S[k, j]
    return beta2


def plain_fit(N: FloatArray, S: FloatArray) -> FloatArray:
    """Return α by Newton's method on all J + K logarithms; all items and slots must have clicks."""
    K, J = N.shape
    clicked = N.any(axis=0)
    theta = np.log(np.concatenate([np.full(J, 0.1), np.full(K, 0.1)]))
    theta[J] = 0.0
    theta[:J][~clicked] = np.log(mnl.FLOOR)
    free = np.concatenate([clicked, np.arange(K) > 0])
    for _ in range(200):
        p = 1.0 / (1.0 + np.exp(-theta[J:, None] - theta[None, :J]))
        error, W = (N + S) * p - N, (N + S) * p * (1.0 - p)
        gradient = np.concatenate([error.sum(axis=0), error.sum(axis=1)]) + mnl.RIDGE * theta
        H = np.diag(np.concatenate([W.sum(axis=0), W.sum(axis=1)]) + mnl.RIDGE)
        H[J:, :J], H[:J, J:] = W, W.T
        step = np.linalg.solve(H[np.ix_(free, free)], gradient[free])
        step /= max(1.0, np.abs(step).max())
        theta[free] = np.clip(theta[free] - step, np.log(mnl.FLOOR), np.log(mnl.CAP))
        if np.abs(step).max() < 1e-9:
            break
    return np.asarray(np.exp(theta[:J]))


def rounds_of_select_rank() -> None:
    """Measure the cost of an early and of a late round, for both kinds of fit."""
    for fit in ("online", "mle"):
        rng = np.random.default_rng(2)
        policy = build("ucr", Setting(items=10, slots=5, context=7, rounds=2000), fit=fit)
        state = policy.init(16)
        spent = np.zeros(1500)
        for t in range(1500):
            request = Request(16, 10, 5, context=rng.uniform(-0.5, 0.5, (16, 7)))
            started = time.perf_counter()
            decision = policy.decide(state, request, rng)
            policy.learn(state, decision, rng.random((16, 5)) < 0.3)
            spent[t] = time.perf_counter() - started
        early, late = np.median(spent[100:300]) * 1e6 / 16, np.median(spent[1300:]) * 1e6 / 16
        print(
            f"ucr, fit {fit}: a round costs {early:.0f} µs at round 200, {late:.0f} µs at round 1,400: "
            f"{late / early:.1f} times as much"
        )


def main() -> None:
    """Run the three measurements."""
    for N, K in ((10, 5), (1000, 10), (100_000, 10)):
        assignment(N, K)
    perturbed_fits()
    rounds_of_select_rank()


if __name__ == "__main__":
    with one_blas_thread():
        main()
